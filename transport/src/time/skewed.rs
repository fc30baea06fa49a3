//! What one machine of a simulation takes virtual time for: its clock runs fast or slow, and began
//! at some other moment.

use std::time::Duration;

use super::{ManualClock, Time};

/// How a machine's clock differs from true time. Whole numbers, so that it is the same on any machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew {
    /// How far the clock goes while a million nanoseconds pass: 1,000,000 is true, 990,000 is one per
    /// cent slow. At least one.
    pub rate_ppm: u32,
    /// What its wall clock is ahead of the true one, in milliseconds.
    pub wall_ahead_ms: i64,
}

impl Skew {
    /// A clock that is right.
    pub const NONE: Self = Self { rate_ppm: PPM as u32, wall_ahead_ms: 0 };
}

/// A view of a [`ManualClock`], which alone moves it. It never goes back, and
/// [`when`](Self::when) tells exactly at which true time it comes to show something.
#[derive(Debug, Clone)]
pub struct SkewedClock {
    truth: ManualClock,
    skew: Skew,
    /// The true time at which it shows zero: a machine's monotonic clock begins with the machine.
    began: Time,
}

const PPM: u64 = 1_000_000;

impl SkewedClock {
    /// A clock that shows zero now.
    ///
    /// # Panics
    /// If the rate is zero: such a clock would never come to a deadline.
    pub fn new(truth: ManualClock, skew: Skew) -> Self {
        assert!(skew.rate_ppm > 0, "a clock goes on");
        let began = truth.now();
        Self { truth, skew, began }
    }

    /// The time by this clock.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.scaled(self.truth.now().since(self.began)))
    }

    /// The true time at which this clock comes to show `time`: the first at which
    /// [`now`](Self::now) is not before it.
    pub fn when(&self, time: Time) -> Time {
        if time == Time::MAX {
            return Time::MAX;
        }
        let passed = (u128::from(time.nanos()) * u128::from(PPM)).div_ceil(self.rate());
        self.began + Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// How it differs from true time.
    pub fn skew(&self) -> Skew {
        self.skew
    }

    /// Goes on from life to life of the machine, as a battery keeps it.
    pub(super) fn unix_millis(&self) -> u64 {
        let nanos = self.scaled(self.truth.now().since(Time::ZERO));
        (nanos / 1_000_000).saturating_add_signed(self.skew.wall_ahead_ms)
    }

    fn scaled(&self, passed: Duration) -> u64 {
        let scaled = passed.as_nanos() * self.rate() / u128::from(PPM);
        // Before the end of time even where the clock is ahead of it: `Time::MAX` never comes.
        u64::try_from(scaled).unwrap_or(u64::MAX).min(u64::MAX - 1)
    }

    fn rate(&self) -> u128 {
        u128::from(self.skew.rate_ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Clock;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn it_shows_a_time_from_exactly_the_moment_that_it_tells() {
        for rate_ppm in [1, 333_333, 990_000, 999_999, 1_000_000, 1_000_001, 1_010_000, 7_654_321] {
            for began in [0, 17, 5_000_000_007] {
                let (_, hand) = Clock::manual();
                hand.advance_to(at(began));
                let skewed = SkewedClock::new(hand.clone(), Skew { rate_ppm, wall_ahead_ms: 0 });
                let mut shown = 0;
                for step in [1, 2, 3, 10, 999_999, 1_000_000, 123_456_789, 3_600_000_000_000] {
                    shown += step;
                    let when = skewed.when(at(shown));
                    hand.set(at(when.nanos() - 1));
                    assert!(skewed.now() < at(shown), "{rate_ppm} {shown}");
                    hand.set(when);
                    assert!(skewed.now() >= at(shown), "{rate_ppm} {shown}");
                }
            }
        }
    }

    #[test]
    fn it_begins_with_its_machine_and_its_wall_clock_does_not() {
        let (_, hand) = Clock::manual();
        hand.advance_to(at(2_000_000_000));
        let skew = Skew { rate_ppm: 500_000, wall_ahead_ms: -300 };
        let clock = Clock::Skewed(SkewedClock::new(hand.clone(), skew).into());
        assert_eq!((clock.now(), clock.unix_millis()), (Time::ZERO, 700));
        hand.advance_to(at(4_000_000_000));
        assert_eq!((clock.now(), clock.last_tick()), (at(1_000_000_000), at(1_000_000_000)));
        assert_eq!(clock.unix_millis(), 1700);
    }

    #[test]
    fn what_never_comes_never_comes() {
        let (_, hand) = Clock::manual();
        let skewed = SkewedClock::new(hand.clone(), Skew { rate_ppm: 2_000_000, wall_ahead_ms: 0 });
        assert_eq!(skewed.when(Time::MAX), Time::MAX);
        hand.advance_to(at(u64::MAX - 1));
        assert!(skewed.now() < Time::MAX);
    }
}
