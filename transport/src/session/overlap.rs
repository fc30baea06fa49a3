//! How much of requests and replies a thread lets collect before it sends in the middle of its work.
//!
//! Sending early lets the peer work at the same time, and a send costs some microseconds, whatever it carries. Best is what
//! is under way on a connection in two halves, with each side at work on one: with fewer sends the sides would take turns,
//! with more either would pay for what keeps nobody busier. How much is under way a side finds out by itself: what it has
//! reserved of its peer's windows, whenever a look at the socket after a turn finds nothing more to do, since the last time that
//! one did. A side that never runs out of input has no reason to send otherwise than it does. Links in memory, whose sends cost
//! little, and the simulated one stay with the least amount, and so do connections of an endpoint that has input on more than a few.
//!
//! A thread compares the amount with what waits in its own lane, since that is what it knows without asking others. What is gathered
//! from elsewhere does not lie there and does not count: long replies fill whole writes anyway, and early sends of them
//! took values of 64 KiB from 7.6 to 4.9 GB/s.

use crate::limits::{OVERLAP_BYTES_MAX, OVERLAP_BYTES_MIN};
use crate::sync::atomic::{AtomicU32, Ordering};

/// The amount goes to where it should be by this part of itself each time: times differ, and it comes to lie in the middle of
/// what they say.
const STEP_PART: u32 = 16;

/// The amount for one side of a connection. Its reactor reckons, whoever writes frames reads: one that is a turn old does no
/// harm, so that no order is needed.
#[derive(Debug)]
pub(crate) struct Overlap {
    /// In bytes.
    enough: AtomicU32,
    /// Bytes that had been reserved when input last ran out, the lowest bits: a connection's state is to be small.
    reserved_until: AtomicU32,
}

impl Overlap {
    pub(crate) fn new() -> Self {
        Overlap { enough: AtomicU32::new(OVERLAP_BYTES_MIN), reserved_until: AtomicU32::new(0) }
    }

    /// Whether `backlog` bytes are worth a send before the turn ends. Asked as they grow, by `added` bytes now; if it takes a
    /// `pause` between sends, it is worth looking for that now and then.
    #[inline]
    pub(crate) fn is_reached(
        &self,
        backlog: u64,
        added: u64,
        pause: impl FnOnce() -> bool,
    ) -> bool {
        let enough = u64::from(self.enough.load(Ordering::Relaxed));
        backlog >= enough && backlog % enough < added && pause()
    }

    /// Reckons anew: there is no input, and `reserved_until` bytes of window have been reserved in all.
    pub(crate) fn ran_out(&self, reserved_until: u64) {
        let reserved_until = reserved_until as u32;
        let reserved = reserved_until.wrapping_sub(self.reserved_until.load(Ordering::Relaxed));
        if reserved == 0 {
            // It brought credit, or a part of a frame.
            return;
        }
        let enough = self.enough.load(Ordering::Relaxed);
        let step = enough / STEP_PART;
        let enough = if reserved / 2 > enough { enough + step } else { enough - step };
        self.enough.store(enough.clamp(OVERLAP_BYTES_MIN, OVERLAP_BYTES_MAX), Ordering::Relaxed);
        self.reserved_until.store(reserved_until, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input that has run out so often, each time after `written` bytes.
    fn after(times: u64, written: u64) -> Overlap {
        let overlap = Overlap::new();
        (1..=times).for_each(|time| overlap.ran_out(time * written));
        overlap
    }

    fn is_reached(overlap: &Overlap, backlog: u64) -> bool {
        overlap.is_reached(backlog, backlog, || true)
    }

    fn is_about(overlap: &Overlap, bytes: u64) -> bool {
        !is_reached(overlap, bytes - bytes / 8) && is_reached(overlap, bytes + bytes / 8)
    }

    #[test]
    fn half_of_what_is_under_way_is_enough() {
        assert!(is_about(&after(200, 20_000), 10_000));
    }

    #[test]
    fn there_is_a_least_and_a_most() {
        let (least, most) = (u64::from(OVERLAP_BYTES_MIN), u64::from(OVERLAP_BYTES_MAX));
        let (little, much) = (after(200, 100), after(200, 1 << 20));
        assert!(is_reached(&little, least) && !is_reached(&little, least - 1));
        assert!(is_reached(&much, most) && !is_reached(&much, most - 1));
    }

    /// Once for each time that so much more has come, whatever it comes in.
    #[test]
    fn the_pause_is_looked_for_now_and_then() {
        let overlap = after(200, 20_000);
        for added in [50, 1000, 3000] {
            let mut looks = 0;
            for frame in 1..=60_000 / added {
                let look = || {
                    looks += 1;
                    false
                };
                assert!(!overlap.is_reached(frame * added, added, look));
            }
            assert!((5..=7).contains(&looks), "{looks} looks");
        }
    }

    #[test]
    fn what_brings_nothing_to_write_says_nothing() {
        let overlap = after(200, 20_000);
        (0..200).for_each(|_| overlap.ran_out(200 * 20_000));
        assert!(is_about(&overlap, 10_000));
    }

    #[test]
    fn what_is_beyond_32_bits_is_not_seen() {
        let overlap = Overlap::new();
        let begin = (1 << 32) - 50_000;
        overlap.ran_out(begin);
        (1..=200).for_each(|time| overlap.ran_out(begin + time * 20_000));
        assert!(is_about(&overlap, 10_000));
    }

    #[test]
    fn a_time_that_stands_out_moves_it_little() {
        let overlap = after(200, 20_000);
        overlap.ran_out(200 * 20_000 + (1 << 30));
        assert!(is_about(&overlap, 10_000));
    }
}
