//! Huge pages for what will be written next.
//!
//! Every object that is read lies on a page of its own in a store of some size, so that the processor looks most pages up in
//! tables that are not in its cache either. Huge pages, of which there are 512 times fewer, save that, and the fault for every page
//! that is written first. The system gives shared memory none by itself unless an administrator says so, but to who asks for a certain
//! place (`MADV_COLLAPSE`, Linux 6.1).
//!
//! That takes a millisecond or several, so it is done by a thread with nothing else to do, ahead of who writes: for blocks at the low
//! end of the longest free run, the untouched rest of the region, which is where the next extents come from. What was made ready is
//! free but resident, as any page that was freed. It goes back to the system when the region grows no longer; pages that were in
//! use stay.

#![expect(
    unsafe_code,
    reason = "has pages backed and given back, which only the list of free runs can vouch for"
)]

use parking_lot::Mutex;

use super::PAGE_BYTES;
use super::extents::{Extents, Run};
use super::pages::{HUGE_BYTES, Huge};
use super::pool::Pool;

/// Pages of a block, which is one huge page.
const BLOCK_PAGES: usize = HUGE_BYTES / PAGE_BYTES;
/// Of a region with less, blocks would be much.
const LIMIT_MIN: u64 = 224 << 20;
/// Nothing is made ready before so many pages have been handed out: an idle node stays small.
const GROWN_MIN: usize = 2 * BLOCK_PAGES;
/// The most that is ready at a time, ...
const READY_MAX: usize = 32;
/// ... and as a part of what has been handed out.
const READY_SHARE: usize = 16;
/// The part of the limit that has to be left beside what is made ready.
const LEFT_SHARE: u64 = 16;
/// After so many looks at a region that has not grown, what is ready goes back.
const QUIET_LOOKS: u32 = 20;

/// What was seen of the region, and done about it.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Where the untouched rest began.
    rest: usize,
    /// Looks since that was another place, or since a block was made ready.
    quiet_looks: u32,
    /// How many blocks are to be ready.
    wanted: usize,
    /// The first pages of the blocks that are.
    ready: Vec<usize>,
    /// The system has given one before.
    is_known: bool,
    /// The system has no such call, or is told to give none.
    is_unknown: bool,
}

impl Seen {
    /// Takes note of where the rest begins. Returns whether it has not moved for so long that nothing is to be ready.
    fn look(&mut self, rest: usize) -> bool {
        if rest == self.rest {
            self.quiet_looks = self.quiet_looks.saturating_add(1);
        } else {
            self.quiet_looks = 0;
            let grown = rest.saturating_sub(self.rest).div_ceil(BLOCK_PAGES);
            // Twice as much as since the last look, and less only by and by.
            let most = (rest / BLOCK_PAGES / READY_SHARE).clamp(1, READY_MAX);
            self.wanted = (2 * grown).max(self.wanted * 7 / 8).clamp(1, most);
            self.rest = rest;
        }
        self.quiet_looks >= QUIET_LOOKS
    }

    /// The block to make ready next: behind those near the rest's low end that are. It is never the first, or what is handed out while it is
    /// made ready would come from behind it, and what is left before it might be of use to nobody.
    fn next(&self) -> Run {
        let first = self.rest.next_multiple_of(BLOCK_PAGES);
        let is_other = |page: &usize| *page > first && !self.ready.contains(page);
        let mut pages = (first..).step_by(BLOCK_PAGES);
        block(pages.find(is_other).expect("there is no end to them"))
    }

    fn note(&mut self, huge: Huge, block: Run) {
        match huge {
            Huge::Backed => {
                self.is_known = true;
                self.quiet_looks = 0;
                self.ready.push(block.first);
            }
            // Until the region grows again.
            Huge::Refused => self.wanted = 0,
            Huge::Unknown => {
                self.wanted = 0;
                self.is_unknown = !self.is_known;
            }
        }
    }
}

/// The block that begins with this page.
fn block(first: usize) -> Run {
    Run { first, pages: BLOCK_PAGES }
}

impl Pool {
    /// Makes one block ready, or gives those back that are, if it is time for either. Returns whether it did.
    pub(super) fn get_ahead(&self) -> bool {
        // One thread does this; another one has nothing to wait for.
        let Some(mut seen) = self.ahead.0.try_lock() else { return false };
        if self.ledger.limit_bytes() < LIMIT_MIN || seen.is_unknown || !self.region.may_give_back()
        {
            return false;
        }
        let mut extents = self.extents.lock();
        let Some(rest) = extents.longest_first().next() else { return false };
        let is_quiet = seen.look(rest.first);
        // What has been handed out meanwhile, or been given back to make room, is not ready any more.
        seen.ready.retain(|first| extents.is_free(block(*first)) && self.is_resident(*first));
        if is_quiet {
            return self.give_ready_back(&extents, &mut seen.ready);
        }
        let block = seen.next();
        let is_wanted = rest.first >= GROWN_MIN
            && seen.ready.len() < seen.wanted
            && self.region.touched_in(block) == 0
            && self.ledger.can_claim(HUGE_BYTES as u64 + self.ledger.limit_bytes() / LEFT_SHARE);
        if !is_wanted || !extents.take(block) {
            return false;
        }
        self.ledger.claim(HUGE_BYTES as u64);
        drop(extents);
        // SAFETY: the block was free and is not any more: nobody has a reference into it, or gets one before it is free again.
        let huge = unsafe { self.region.back_by_huge_page(block) };
        if huge != Huge::Backed {
            self.ledger.unclaim(HUGE_BYTES as u64);
        }
        self.extents.lock().free(block);
        seen.note(huge, block);
        huge == Huge::Backed
    }

    /// Waits until no block is being made ready: it counts as resident, and cannot go back to the system meanwhile. The
    /// caller holds no lock of the pool.
    pub(super) fn wait_for_ahead(&self) {
        drop(self.ahead.0.lock());
    }

    fn is_resident(&self, first: usize) -> bool {
        self.region.touched_in(block(first)) == BLOCK_PAGES as u64
    }

    /// Gives back blocks that are free.
    fn give_ready_back(&self, _locked: &Extents, ready: &mut Vec<usize>) -> bool {
        let mut given = 0;
        for first in ready.drain(..) {
            // SAFETY: the block is free and the extents are locked: no extent covers it, nobody
            // holds a reference into it, and nobody gets one before this returns.
            given += unsafe { self.region.give_back(block(first), BLOCK_PAGES as u64) };
        }
        self.ledger.unclaim(given * PAGE_BYTES as u64);
        given > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_wanted_as_the_region_grows() {
        let mut seen = Seen { rest: 100 * BLOCK_PAGES, ..Seen::default() };
        assert!(!seen.look(100 * BLOCK_PAGES));
        assert_eq!(seen.wanted, 0, "it has not grown");
        assert!(!seen.look(103 * BLOCK_PAGES + 1));
        assert_eq!(seen.wanted, 6, "twice as much, but a part of what has been handed out");
        assert!(!seen.look(103 * BLOCK_PAGES + 2));
        assert_eq!(seen.wanted, 5, "less by and by");
        assert!(!seen.look(1_000 * BLOCK_PAGES));
        assert_eq!(seen.wanted, READY_MAX);
    }

    #[test]
    fn blocks_are_made_ready_one_behind_the_other_but_for_the_first() {
        let mut seen = Seen { rest: 3 * BLOCK_PAGES + 1, ..Seen::default() };
        assert_eq!(seen.next(), block(5 * BLOCK_PAGES));
        seen.note(Huge::Backed, block(5 * BLOCK_PAGES));
        assert_eq!(seen.next(), block(6 * BLOCK_PAGES));
        seen.rest = 5 * BLOCK_PAGES;
        assert_eq!(seen.next(), block(6 * BLOCK_PAGES));
        seen.note(Huge::Unknown, block(6 * BLOCK_PAGES));
        assert!(!seen.is_unknown, "it has given one before");
    }

    #[test]
    fn a_region_that_has_not_grown_for_long_needs_nothing() {
        let mut seen = Seen::default();
        assert!(!seen.look(5 * BLOCK_PAGES));
        let quiet = (0..30).map(|_| seen.look(5 * BLOCK_PAGES)).take_while(|quiet| !quiet).count();
        assert_eq!(quiet as u32, QUIET_LOOKS - 1);
        assert!(!seen.look(6 * BLOCK_PAGES));
    }
}
