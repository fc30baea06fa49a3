//! How much of its time a node gives to learners while others wait for it, and how much it has them do at a time.
//!
//! What a learner lacks is read, sent and applied in some of the time that requests would have: so while there are such, as much is left to them after each piece as makes the
//! rest a share. What a piece takes is measured by the clock, so that on processors that are short already, where it takes longer, it leaves
//! more. And entries that others wait for come to the learner's node behind the pieces that it was sent before: so of all partitions together it is sent
//! few pieces that it has not taken. A node that nobody asks anything feeds as fast as it can.
//!
//! A learner's node gets memory for all that it is given, by the [huge page](weft_transport::Memory::get_ahead), and nothing else runs on the processor on which the system fills one with zeroes: on a virtual machine
//! that has to be given the memory itself, for milliseconds. So it gets most of it by small pages meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weft_transport::Time;

/// After what has taken so long, so many times as long belongs to requests.
const LEFT: u32 = 5;

/// Pieces that the node of a learner may be sent before it has taken them, while this one is asked.
const UNTAKEN_MAX: usize = 2;

/// A node that has answered fewer requests than this from one heartbeat to the next has time.
const REQUESTS_MIN: u64 = 4;

/// After a huge page that took so long to get, so many times as long belongs to others, ...
const LEFT_BY_PAGES: u32 = 31;

/// ... unless no piece has come for so long.
const LEARNS_FOR: Duration = Duration::from_millis(500);

/// What a node has been asked of late.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    requests: u64,
    is_asked: bool,
}

impl Pacing {
    /// Another heartbeat has passed, and so many requests were answered in all.
    pub(super) fn answered(&mut self, requests: u64) {
        self.is_asked = requests.saturating_sub(self.requests) >= REQUESTS_MIN;
        self.requests = requests;
    }

    /// How long to wait after feeding for this long.
    pub(super) fn pause_after(&self, fed: Duration) -> Duration {
        if self.is_asked { fed * LEFT } else { Duration::ZERO }
    }

    /// Of how many pieces, of all partitions, that it has not taken the node of a learner is sent no more.
    pub(super) fn untaken_max(&self) -> usize {
        if self.is_asked { UNTAKEN_MAX } else { usize::MAX }
    }
}

/// When huge pages may be got, as pieces of partitions come to this node.
#[derive(Debug, Default)]
pub(crate) struct PagePacing {
    /// When the last piece came, in nanoseconds; zero before there was any.
    learned_at: AtomicU64,
    /// Nothing is got before.
    not_before: AtomicU64,
}

impl PagePacing {
    /// A piece has come.
    pub(crate) fn learned(&self, now: Time) {
        self.learned_at.store(now.nanos(), Ordering::Relaxed);
    }

    /// Whether a page may be got now.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now.nanos() >= self.not_before.load(Ordering::Relaxed)
    }

    /// A page was got.
    pub(crate) fn got(&self, began: Time, ended: Time) {
        let learned_at = self.learned_at.load(Ordering::Relaxed);
        if learned_at > 0 && ended.since(Time::from_nanos(learned_at)) < LEARNS_FOR {
            let again = ended + ended.since(began) * LEFT_BY_PAGES;
            self.not_before.store(again.nanos(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_has_a_sixth_of_the_time_for_learners_and_sends_little_ahead() {
        let (mut pacing, fed) = (Pacing::default(), Duration::from_micros(100));
        assert_eq!((pacing.pause_after(fed), pacing.untaken_max()), (Duration::ZERO, usize::MAX));
        pacing.answered(1000);
        assert_eq!((pacing.pause_after(fed), pacing.untaken_max()), (fed * 5, UNTAKEN_MAX));
        pacing.answered(1000 + REQUESTS_MIN - 1);
        assert_eq!(pacing.pause_after(fed), Duration::ZERO, "hardly anybody asks");
        assert_eq!(pacing.untaken_max(), usize::MAX);
    }

    #[test]
    fn who_learns_gets_few_huge_pages() {
        let (pages, at) = (PagePacing::default(), |ms| Time::ZERO + Duration::from_millis(ms));
        pages.got(at(1), at(5));
        assert!(pages.is_due(at(5)), "nothing is learned");
        pages.learned(at(10));
        pages.got(at(20), at(24));
        assert!(!pages.is_due(at(147)));
        assert!(pages.is_due(at(148)));
        pages.got(at(506), at(510));
        assert!(pages.is_due(at(510)), "what was learned was long ago");
    }
}
