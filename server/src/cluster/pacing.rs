//! How much of its time a node gives to learners while others wait for it.
//!
//! What a learner lacks is read, sent and applied in some of the time that requests would have: so while there are such, as much is left to them after each piece as makes the
//! rest a share. What a piece takes is measured by the clock, so that on processors that are short already, where it takes longer, it leaves
//! more. A node that nobody asks anything feeds as fast as it can.

use std::time::Duration;

/// After what has taken so long, so many times as long belongs to requests.
const LEFT: u32 = 3;

/// A node that has answered fewer requests than this from one heartbeat to the next has time.
const REQUESTS_MIN: u64 = 4;

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_has_a_quarter_of_the_time_for_learners() {
        let (mut pacing, fed) = (Pacing::default(), Duration::from_micros(100));
        assert_eq!(pacing.pause_after(fed), Duration::ZERO);
        pacing.answered(1000);
        assert_eq!(pacing.pause_after(fed), Duration::from_micros(300));
        pacing.answered(1000 + REQUESTS_MIN - 1);
        assert_eq!(pacing.pause_after(fed), Duration::ZERO, "hardly anybody asks");
    }
}
