//! Throttling: a requester with a target does its n-th operation no earlier than n ticks after it
//! began, as upstream. After a slow operation it catches up at once; what waited meanwhile shows in
//! the intended latency.

use std::future::poll_fn;
use std::task::Poll;

use rand::RngExt as _;

use crate::generator::Random;

/// The ticks of one requester.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    tick_ns: u64,
}

impl Pace {
    /// The share of one of `requesters` in `target` operations a second; neither is 0.
    pub(crate) fn new(target: u64, requesters: usize) -> Pace {
        let nanos = u128::from(requesters as u64) * 1_000_000_000 / u128::from(target);
        Pace { tick_ns: u64::try_from(nanos).unwrap_or(u64::MAX).max(1) }
    }

    /// When operation `done`, counted from 0, is due for a requester that began at `began_ns`.
    pub(crate) fn due_ns(self, began_ns: u64, done: u64) -> u64 {
        began_ns.saturating_add(self.tick_ns.saturating_mul(done))
    }

    /// How long to hold the first operation back: requesters with a millisecond and more between
    /// operations would otherwise all strike at once.
    pub(crate) fn spread_ns(self, random: &mut Random) -> u64 {
        if self.tick_ns >= 1_000_000 { random.random_range(0..self.tick_ns) } else { 0 }
    }
}

/// Lets the other futures of the thread run once.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn requesters_share_the_target() {
        let pace = Pace::new(1_000, 4);
        assert_eq!(pace.due_ns(100, 0), 100);
        assert_eq!(pace.due_ns(100, 3), 100 + 3 * 4_000_000);
        assert_eq!(Pace::new(u64::MAX, 1).due_ns(0, 7), 7);
    }

    #[test]
    fn slow_requesters_begin_at_different_times() {
        let mut random = Random::seed_from_u64(6);
        let slow = Pace::new(10, 1);
        let spreads: Vec<u64> = (0..10).map(|_| slow.spread_ns(&mut random)).collect();
        assert!(spreads.iter().all(|&spread| spread < 100_000_000));
        assert!(spreads.iter().max() > spreads.iter().min());
        assert_eq!(Pace::new(100_000, 1).spread_ns(&mut random), 0);
    }
}
