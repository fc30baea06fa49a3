//! The memory behind all blocks, and which of its pages are backed.

#![expect(unsafe_code, reason = "computes addresses within the region, and gives pages of it back")]

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::extents::Run;
use super::pages::{Huge, Pages};
use super::poison::{self, REGION_FACTOR};
use super::{MemoryError, PAGE_BYTES};

/// Addresses for each page that may be handed out: so a long run is found though short ones lie scattered, which nobody can move. They
/// cost nothing, since pages that nobody holds go back to the system before others are taken instead.
const SPREAD: usize = 4;

/// The memory that is handed out in extents.
///
/// Invariant: `bytes` are those of `pages` pages. No method of a shared region reads or writes them, but for
/// [`give_back`](Self::give_back) and [`back_by_huge_page`](Self::back_by_huge_page).
pub(super) struct Region {
    bytes: Pages,
    pages: usize,
    /// A bit a page: written since it was last given back, hence resident.
    touched: Box<[AtomicU64]>,
    touched_pages: AtomicU64,
    /// Whether pages may go back to the system. A device that has registered the region goes on
    /// writing to the pages that it saw then, and nobody would read what it writes: a link that
    /// registers has to clear this before it does.
    may_give_back: AtomicBool,
}

impl Region {
    pub(super) fn reserve(limit_bytes: u64) -> Result<Region, MemoryError> {
        let refused = |errno: Errno| MemoryError::Reserve {
            bytes: limit_bytes,
            os_error: errno.raw_os_error(),
        };
        let pages = usize::try_from(limit_bytes / PAGE_BYTES as u64).ok();
        let pages = pages.and_then(|pages| pages.checked_mul(SPREAD * REGION_FACTOR));
        let len = pages.and_then(|pages| pages.checked_mul(PAGE_BYTES));
        let (Some(pages), Some(len)) = (pages, len) else { return Err(refused(Errno::INVAL)) };
        let bytes = Pages::reserve(len).map_err(refused)?;
        poison::poison(bytes.base(), 0..len);
        // Zeroed by the allocator, so that the map of a large region is as lazy as the region.
        let touched = Box::<[AtomicU64]>::new_zeroed_slice(pages.div_ceil(64));
        // SAFETY: an `AtomicU64` of zero bytes is valid.
        let touched = unsafe { touched.assume_init() };
        Ok(Region {
            bytes,
            pages,
            touched,
            touched_pages: AtomicU64::new(0),
            may_give_back: AtomicBool::new(true),
        })
    }

    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Where page `first` starts.
    pub(super) fn address(&self, first: usize) -> NonNull<u8> {
        assert!(first <= self.pages, "page {first} is outside a region of {} pages", self.pages);
        // SAFETY: the offset is within the region or one past its end.
        unsafe { self.bytes.base().add(first * PAGE_BYTES) }
    }

    /// Whoever gets `run` may touch it from now on.
    pub(super) fn open(&self, run: Run) {
        poison::unpoison(self.bytes.base(), bytes_of(run));
    }

    /// Nobody may touch `run` from now on.
    pub(super) fn close(&self, run: Run) {
        poison::poison(self.bytes.base(), bytes_of(run));
    }

    /// Notes that pages `first..end` were or will be written. Counts every page once, however often
    /// it is reused.
    pub(super) fn touch(&self, first: usize, end: usize) {
        let mut new_pages = 0;
        for (word, mask) in self.words(first, end) {
            if word.load(Ordering::Relaxed) & mask != mask {
                let before = word.fetch_or(mask, Ordering::Relaxed);
                new_pages += u64::from((mask & !before).count_ones());
            }
        }
        if new_pages > 0 {
            self.touched_pages.fetch_add(new_pages, Ordering::Relaxed);
        }
    }

    /// How many pages of `run` are resident.
    pub(super) fn touched_in(&self, run: Run) -> u64 {
        let words = self.words(run.first, run.first + run.pages);
        words.map(|(word, mask)| touched_of(word, mask)).sum()
    }

    /// Gives pages of `run` back to the system, from its end, until `wanted` resident ones are
    /// gone, or a few more, or all. They read as zeroes then. Returns how many it were: none while
    /// the region is registered, or if the system refuses.
    ///
    /// # Safety
    /// Nobody holds a reference into the run, or gets one before this returns.
    pub(super) unsafe fn give_back(&self, run: Run, wanted: u64) -> u64 {
        if !self.may_give_back() {
            return 0;
        }
        let run_end = run.first + run.pages;
        let (mut first, mut end, mut found) = (run_end, run_end, 0);
        // Backwards by whole words of the map, so that one call gives back all of it.
        while first > run.first && found < wanted {
            let from = ((first - 1) / 64 * 64).max(run.first);
            found += self.touched_in(Run { first: from, pages: first - from });
            first = from;
            if found == 0 {
                end = from;
            }
        }
        if found == 0 {
            return 0;
        }
        // SAFETY: the pages are of the run, hence of the region, and the caller says that nobody has them.
        let given = unsafe { self.bytes.give_back(first * PAGE_BYTES, (end - first) * PAGE_BYTES) };
        if !given {
            return 0;
        }
        for (word, mask) in self.words(first, end) {
            word.fetch_and(!mask, Ordering::Relaxed);
        }
        self.touched_pages.fetch_sub(found, Ordering::Relaxed);
        found
    }

    /// Whether pages may go back to the system.
    pub(super) fn may_give_back(&self) -> bool {
        self.may_give_back.load(Ordering::SeqCst)
    }

    /// Has a run that is one huge page, by its place and length, and of which nothing is touched, backed by one.
    ///
    /// # Safety
    /// Nobody holds a reference into the run, or gets one before this returns.
    pub(super) unsafe fn back_by_huge_page(&self, run: Run) -> Huge {
        debug_assert_eq!(self.touched_in(run), 0, "of {run:?}");
        self.open(run);
        // SAFETY: what is not touched is not backed; the rest is the caller's word.
        let huge = unsafe { self.bytes.back_by_huge_page(bytes_of(run).start) };
        self.close(run);
        if huge == Huge::Backed {
            self.touch(run.first, run.first + run.pages);
        }
        huge
    }

    /// What a link does before it registers the region with a device.
    #[cfg(test)]
    pub(super) fn keep_all(&self) {
        self.may_give_back.store(false, Ordering::SeqCst);
    }

    /// The words of the map for pages `first..end`, each with the bits that are meant.
    fn words(&self, first: usize, end: usize) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let mut page = first;
        std::iter::from_fn(move || {
            if page >= end {
                return None;
            }
            let bit = page % 64;
            let bits = (64 - bit).min(end - page);
            let word = &self.touched[page / 64];
            page += bits;
            Some((word, (u64::MAX >> (64 - bits)) << bit))
        })
    }

    pub(super) fn touched_pages(&self) -> u64 {
        self.touched_pages.load(Ordering::Relaxed)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Whatever is mapped at these addresses next is not the region.
        poison::unpoison(self.bytes.base(), 0..self.pages * PAGE_BYTES);
    }
}

/// Where `run` lies in the region.
fn bytes_of(run: Run) -> Range<usize> {
    run.first * PAGE_BYTES..(run.first + run.pages) * PAGE_BYTES
}

/// How many of the pages that `mask` means are touched.
fn touched_of(word: &AtomicU64, mask: u64) -> u64 {
    u64::from((word.load(Ordering::Relaxed) & mask).count_ones())
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("pages", &self.pages)
            .field("touched_pages", &self.touched_pages())
            .finish_non_exhaustive()
    }
}
