//! What is resident stays within the limit: who takes memory, and what the system gets back for it.
//!
//! A freed extent keeps its pages, so that the next owner finds them resident. They are claimed
//! like what is allocated, and so is heap of sessions that have ended. When an allocation or a charge
//! would take the claims past the limit, pages that nobody holds are given back to the system until
//! they fit again, and the heap is trimmed.

#![expect(unsafe_code, reason = "gives back pages, which only the list of free runs can vouch for")]

use parking_lot::Mutex;

use super::account::{Ledger, Reach};
use super::ahead::Ahead;
use super::extents::{Extents, Run};
use super::poison::GAP_PAGES;
use super::region::Region;
use super::{MemoryConfig, MemoryError, PAGE_BYTES, Purpose, heap};

/// Pages that are given back at once, if so many are free and resident: a system call for each page
/// would cost more than touching it again does.
const RETURNED_MIN: u64 = 256;

/// The part of the limit from which on heap that is kept is trimmed before free pages are given back:
/// the next owner would find these resident.
const TRIMMED_SHARE: u64 = 16;

/// The region, which of its pages are free, and the account of it.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) region: Region,
    pub(super) extents: Mutex<Extents>,
    pub(super) ledger: Ledger,
    pub(super) ahead: Ahead,
}

impl Pool {
    pub(super) fn new(config: MemoryConfig) -> Result<Pool, MemoryError> {
        let region = Region::reserve(config.limit_bytes)?;
        let extents = Mutex::new(Extents::new(region.pages(), GAP_PAGES));
        let (ledger, ahead) = (Ledger::new(config.limit_bytes), Ahead::default());
        Ok(Pool { region, extents, ledger, ahead })
    }

    /// Takes a run of pages for `purpose`.
    pub(super) fn take(
        &self,
        pages: usize,
        purpose: Purpose,
        reach: Reach,
    ) -> Result<Run, MemoryError> {
        let bytes = (pages as u64).saturating_mul(PAGE_BYTES as u64);
        self.ledger.add(bytes, purpose, reach)?;
        let mut extents = self.extents.lock();
        let Some(run) = extents.allocate(pages) else {
            let largest_free_bytes = extents.largest_free() * PAGE_BYTES;
            drop(extents);
            self.ledger.subtract(bytes, purpose);
            return Err(MemoryError::Fragmented { requested_bytes: bytes, largest_free_bytes });
        };
        // Claimed twice until here: as what was added above, and as free but resident.
        let reused_bytes = self.region.touched_in(run) * PAGE_BYTES as u64;
        self.ledger.unclaim(reused_bytes);
        let mut has_room = self.make_room(&extents);
        if !has_room {
            // The run is nobody else's meanwhile.
            drop(extents);
            self.wait_for_ahead();
            extents = self.extents.lock();
            has_room = self.make_room(&extents);
        }
        if has_room {
            self.ledger.hand_out(bytes, purpose);
            self.region.open(run);
            return Ok(run);
        }
        extents.free(run);
        self.ledger.claim(reused_bytes);
        drop(extents);
        let refused = self.ledger.refusal(bytes);
        self.ledger.subtract(bytes, purpose);
        Err(refused)
    }

    /// Takes back a run of pages. They stay resident.
    pub(super) fn release(&self, run: Run, purpose: Purpose) {
        // Before the next owner can have opened it.
        self.region.close(run);
        let mut extents = self.extents.lock();
        self.ledger.claim(self.region.touched_in(run) * PAGE_BYTES as u64);
        extents.free(run);
        drop(extents);
        // The account last: whoever sees room in it finds the extent free.
        self.ledger.subtract((run.pages * PAGE_BYTES) as u64, purpose);
    }

    /// Counts `bytes` of heap memory. State of sessions takes the heap of earlier ones first.
    pub(super) fn charge(&self, bytes: u64, purpose: Purpose) -> Result<(), MemoryError> {
        self.ledger.add(bytes, purpose, Reach::Common)?;
        let reused_bytes =
            if purpose == Purpose::Session { self.ledger.take_kept(bytes) } else { 0 };
        self.ledger.unclaim(reused_bytes);
        let makes_room = || self.ledger.excess_bytes() == 0 || self.make_room(&self.extents.lock());
        let has_room = makes_room() || {
            self.wait_for_ahead();
            makes_room()
        };
        if !has_room {
            self.ledger.claim(reused_bytes);
            self.ledger.keep(reused_bytes);
            let refused = self.ledger.refusal(bytes);
            self.ledger.subtract(bytes, purpose);
            return Err(refused);
        }
        self.ledger.add_heap(bytes - reused_bytes);
        Ok(())
    }

    /// Counts `bytes` of heap memory no longer, but for what the allocator may keep.
    pub(super) fn uncharge(&self, bytes: u64, purpose: Purpose) {
        if purpose == Purpose::Session {
            self.ledger.claim(bytes);
            self.ledger.keep(bytes);
        } else {
            self.ledger.subtract_heap(bytes);
        }
        self.ledger.subtract(bytes, purpose);
    }

    /// Gives back free pages and heap that is kept, until the claims are within the limit. Returns
    /// whether they are. `extents` are locked, so that nobody takes a page meanwhile.
    fn make_room(&self, extents: &Extents) -> bool {
        if self.ledger.excess_bytes() == 0 {
            return true;
        }
        if self.ledger.trimmable_bytes() >= self.ledger.limit_bytes() / TRIMMED_SHARE {
            self.trim_heap();
        }
        self.give_back_pages(extents);
        let excess_bytes = self.ledger.excess_bytes();
        if excess_bytes > 0 && self.ledger.trimmable_bytes() >= excess_bytes {
            self.trim_heap();
        }
        self.ledger.excess_bytes() == 0
    }

    /// Gives back free pages, of the longest runs first.
    fn give_back_pages(&self, extents: &Extents) {
        let excess_pages = self.ledger.excess_bytes().div_ceil(PAGE_BYTES as u64);
        if excess_pages == 0 {
            return;
        }
        let mut wanted = excess_pages.max(RETURNED_MIN);
        for run in extents.longest_first() {
            // SAFETY: the run is free and the extents are locked: no extent covers it, nobody holds
            // a reference into it, and nobody gets one before this returns.
            let returned = unsafe { self.region.give_back(run, wanted) };
            self.ledger.unclaim(returned * PAGE_BYTES as u64);
            wanted = wanted.saturating_sub(returned);
            if wanted == 0 {
                break;
            }
        }
    }

    /// Gives back what the allocator keeps of sessions that have ended.
    fn trim_heap(&self) {
        let bytes = self.ledger.take_kept(self.ledger.trimmable_bytes());
        if heap::trim() {
            self.ledger.subtract_heap(bytes);
            self.ledger.unclaim(bytes);
        } else {
            self.ledger.keep(bytes);
        }
    }
}
