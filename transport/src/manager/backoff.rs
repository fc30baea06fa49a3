//! How long an address that could not be connected to, or not for long, is left alone: exponential back-off with full
//! jitter.
//!
//! The pause is drawn from zero to a bound that doubles with each failure in a row ("full jitter":
//! Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015), so that those who lost one
//! node at one moment do not come back to it at one moment.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

/// The bounds of the pauses between attempts to connect to one address. They grow with each failure in a row, and a
/// connection that does not last is one: see [`EndpointConfig::backoff`](crate::EndpointConfig::backoff).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest pause after the first failure. Above zero.
    pub first: Duration,
    /// The longest pause of all; no less than `first`.
    pub max: Duration,
}

impl Default for Backoff {
    /// 50 ms to 5 s: a node that restarts is found soon, and one that does not is no burden.
    fn default() -> Self {
        Self { first: Duration::from_millis(50), max: Duration::from_secs(5) }
    }
}

impl Backoff {
    /// What makes the bounds unusable, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.first.is_zero() {
            return Err("the first pause of its back-off is zero");
        }
        if self.first > self.max {
            return Err("the first pause of its back-off is longer than the longest");
        }
        Ok(())
    }

    /// The longest pause after so many failures in a row.
    pub(crate) fn bound(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.max)
    }

    /// A pause after so many failures in a row.
    pub(crate) fn draw(&self, failures: u32, random: &mut StdRng) -> Duration {
        random.random_range(Duration::ZERO..=self.bound(failures))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const BACKOFF: Backoff = Backoff { first: MS, max: Duration::from_millis(100) };

    #[test]
    fn bounds_double_up_to_the_longest() {
        let bounds: Vec<_> = (1..=9).map(|failures| BACKOFF.bound(failures).as_millis()).collect();
        assert_eq!(bounds, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        assert_eq!(BACKOFF.bound(u32::MAX), BACKOFF.max);
        let longest = Backoff { first: Duration::MAX / 2, max: Duration::MAX };
        assert_eq!(longest.bound(9), Duration::MAX);
    }

    #[test]
    fn pauses_are_drawn_from_all_that_the_bound_allows() {
        let mut random = StdRng::seed_from_u64(1);
        let pauses: Vec<_> = (0..1000).map(|_| BACKOFF.draw(20, &mut random)).collect();
        assert!(pauses.iter().all(|pause| *pause <= BACKOFF.max));
        for tenth in 0..10 {
            let within = |pause: &&Duration| {
                (BACKOFF.max / 10 * tenth..BACKOFF.max / 10 * (tenth + 1)).contains(*pause)
            };
            // A hundred are expected.
            assert!(pauses.iter().filter(within).count() > 50, "{tenth}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_pauses_again() {
        let draw = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            (1..20).map(|failures| BACKOFF.draw(failures, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn bounds_that_would_make_a_storm_are_refused() {
        assert!(BACKOFF.check().is_ok() && Backoff::default().check().is_ok());
        assert!(Backoff { first: Duration::ZERO, ..BACKOFF }.check().is_err());
        assert!(Backoff { first: BACKOFF.max + MS, ..BACKOFF }.check().is_err());
    }
}
