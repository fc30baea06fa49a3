//! Points in time, and the only clocks that give them: the system's, and a simulator's, true or not.
//!
//! Cores take `now: Time` and read no clock, so that a simulator can run them in virtual time.

use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

mod skewed;

pub use skewed::{Skew, SkewedClock};

/// A point in time: nanoseconds since the origin of the clock that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// A time that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The time `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates at [`Time::MAX`].
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A source of time: the system's monotonic clock, or one that a simulator moves.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The system's monotonic clock; see [`SystemClock`].
    System(SystemClock),
    /// Virtual time; see [`ManualClock`].
    Manual(ManualClock),
    /// What one machine of a simulation takes virtual time for; see [`SkewedClock`]. Elsewhere, so that every connection, which has a clock, is
    /// no larger for it.
    Skewed(Arc<SkewedClock>),
}

/// The system's monotonic clock; its origin is when it was made.
#[derive(Debug, Clone)]
pub struct SystemClock {
    /// In nanoseconds of the system's.
    origin: u64,
}

/// What the system's monotonic clock shows, in nanoseconds since some point before this process began. By the call itself: what an
/// `Instant` adds to it, twice 40 instructions, is as much as all else that a call does to know the time.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
fn monotonic_nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    // Neither is ever negative, and 64 bits last for 584 years.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Clock {
    /// The system's monotonic clock, with now as its origin.
    pub fn system() -> Self {
        Self::System(SystemClock { origin: monotonic_nanos(ClockId::Monotonic) })
    }

    /// A clock that stands still until its handle moves it.
    pub fn manual() -> (Self, ManualClock) {
        let manual = ManualClock::default();
        (Self::Manual(manual.clone()), manual)
    }

    /// The time by this clock.
    #[inline]
    pub fn now(&self) -> Time {
        match self {
            Self::System(clock) => clock.read(ClockId::Monotonic),
            Self::Manual(manual) => manual.now(),
            Self::Skewed(skewed) => skewed.now(),
        }
    }

    /// The time of the system's last tick by this clock: a tick of 1 to 10 ms ago as a rule, or two, and read in a fifth of the time that [`now`](Self::now) takes.
    #[inline]
    pub fn last_tick(&self) -> Time {
        match self {
            Self::System(clock) => clock.read(ClockId::MonotonicCoarse),
            Self::Manual(manual) => manual.now(),
            Self::Skewed(skewed) => skewed.now(),
        }
    }

    /// Milliseconds since the Unix epoch, for what people and other processes date: expiry, logs.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    pub fn unix_millis(&self) -> u64 {
        match self {
            Self::System(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            Self::Manual(manual) => manual.now().nanos() / 1_000_000,
            Self::Skewed(skewed) => skewed.unix_millis(),
        }
    }

    /// Whether it stands still until somebody moves it, so that nothing comes of waiting.
    pub(crate) fn is_virtual(&self) -> bool {
        match self {
            Self::System(_) => false,
            Self::Manual(_) | Self::Skewed(_) => true,
        }
    }
}

impl SystemClock {
    #[inline]
    fn read(&self, clock: ClockId) -> Time {
        Time(monotonic_nanos(clock).saturating_sub(self.origin))
    }
}

/// The handle that moves a [`Clock::manual`].
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// The virtual time.
    pub fn now(&self) -> Time {
        Time(self.0.load(Ordering::SeqCst))
    }

    /// Moves the clock to `time`; a time in the past leaves it where it is.
    pub fn advance_to(&self, time: Time) {
        self.0.fetch_max(time.0, Ordering::SeqCst);
    }
}

#[cfg(test)]
impl ManualClock {
    /// Sets the clock to `time`, be it in the past, which no clock does that an endpoint can be given.
    pub(crate) fn set(&self, time: Time) {
        self.0.store(time.0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tick_is_a_moment_ago() {
        let clock = Clock::system();
        let mut is_near = false;
        for _ in 0..1000 {
            let (before, tick, after) = (clock.now(), clock.last_tick(), clock.now());
            assert!(tick <= after);
            // The machine may be late with a tick, but not always.
            is_near |= before.since(tick) <= Duration::from_millis(20);
        }
        assert!(is_near);
        let (clock, manual) = Clock::manual();
        manual.advance_to(Time::from_nanos(7));
        assert_eq!(clock.last_tick(), Time::from_nanos(7));
    }

    #[test]
    fn a_manual_clock_moves_forward_only() {
        let (clock, hand) = Clock::manual();
        hand.advance_to(Time::from_nanos(5_000_000));
        hand.advance_to(Time::from_nanos(1));
        assert_eq!(clock.now(), Time::from_nanos(5_000_000));
        assert_eq!(clock.unix_millis(), 5);
    }

    #[test]
    fn sums_and_differences_saturate() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO.since(Time::MAX), Duration::ZERO);
    }
}
