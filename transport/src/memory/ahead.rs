//! Huge pages for what will be written next.
//!
//! Every object that is read lies on a page of its own in a store of some size, so that the processor looks most pages up in
//! tables that are not in its cache either. Huge pages, of which there are 512 times fewer, save that, and the fault for every page
//! that is written first. The system gives shared memory none by itself unless an administrator says so, but to who asks for a certain
//! place (`MADV_COLLAPSE`, Linux 6.1).
//!
//! That takes a millisecond or several, so it is done by a thread with nothing else to do, ahead of who writes: for blocks at the low
//! end of the longest free run, the untouched rest of the region, which is where the next extents come from. What was made ready is
//! free but resident, as any page that was freed. It goes back to the system when the region grows no longer.

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
const LIMIT_MIN: u64 = 256 << 20;
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

/// What was seen of the region.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Where the untouched rest began.
    rest: usize,
    /// Looks since that was another place.
    quiet_looks: u32,
    /// How many blocks are to be ready.
    wanted: usize,
    /// The system has no such call.
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
        let ready = self.ready(rest);
        if is_quiet {
            return self.give_ready_back(&extents, ready);
        }
        let block = Run { first: ready.first + ready.pages, pages: BLOCK_PAGES };
        let is_wanted = rest.first >= GROWN_MIN
            && ready.pages < seen.wanted * BLOCK_PAGES
            && block.first + block.pages <= rest.first + rest.pages
            && self.region.touched_in(block) == 0
            && self.can_claim_ahead();
        if !is_wanted || !extents.take(block) {
            return false;
        }
        drop(extents);
        self.ledger.claim(HUGE_BYTES as u64);
        // SAFETY: the block was free and is not any more: nobody has a reference into it, or gets one before it is free again.
        let huge = unsafe { self.region.back_by_huge_page(block) };
        if huge != Huge::Backed {
            self.ledger.unclaim(HUGE_BYTES as u64);
            // Until the region grows again.
            seen.wanted = 0;
        }
        seen.is_unknown = huge == Huge::Unknown;
        self.extents.lock().free(block);
        huge == Huge::Backed
    }

    /// The blocks near the low end of a free run that are resident: one behind the other from the first on, or from the second. One that is
    /// being made ready is never the first, or what is handed out meanwhile would come from behind it, and what is left before it
    /// might be of use to nobody.
    fn ready(&self, rest: Run) -> Run {
        let is_ready = |block: &Run| {
            block.first + block.pages <= rest.first + rest.pages
                && self.region.touched_in(*block) == BLOCK_PAGES as u64
        };
        let mut block = Run { first: rest.first.next_multiple_of(BLOCK_PAGES), pages: BLOCK_PAGES };
        if !is_ready(&block) {
            block.first += BLOCK_PAGES;
        }
        let mut ready = Run { first: block.first, pages: 0 };
        while ready.pages < READY_MAX * BLOCK_PAGES && is_ready(&block) {
            block.first += BLOCK_PAGES;
            ready.pages += BLOCK_PAGES;
        }
        ready
    }

    fn can_claim_ahead(&self) -> bool {
        self.ledger.can_claim(HUGE_BYTES as u64 + self.ledger.limit_bytes() / LEFT_SHARE)
    }

    fn give_ready_back(&self, _locked: &Extents, ready: Run) -> bool {
        if ready.pages == 0 {
            return false;
        }
        // SAFETY: the blocks are part of a free run and the extents are locked: no extent covers them, nobody
        // holds a reference into them, and nobody gets one before this returns.
        let given = unsafe { self.region.give_back(ready, ready.pages as u64) };
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
    fn a_region_that_has_not_grown_for_long_needs_nothing() {
        let mut seen = Seen::default();
        assert!(!seen.look(5 * BLOCK_PAGES));
        let quiet = (0..30).map(|_| seen.look(5 * BLOCK_PAGES)).take_while(|quiet| !quiet).count();
        assert_eq!(quiet as u32, QUIET_LOOKS - 1);
        assert!(!seen.look(6 * BLOCK_PAGES));
    }
}
