//! How often the machine itself stops a thread that only reads the clock: its kernel threads, and
//! the host that lends it its processors. No transport has fewer gaps than that.

use std::time::Duration;

use weft_transport::{Clock, Time};

use crate::affinity::{self, Placement};
use crate::tally::Gaps;

/// Spins for `window` on the processors of both sides at once, and returns the worse of the two.
pub(crate) fn measure(placement: Placement, window: Duration) -> anyhow::Result<Gaps> {
    let sides = [placement.server(), placement.client()];
    std::thread::scope(|scope| {
        let spinning = sides.map(|cpu| {
            scope.spawn(move || {
                affinity::pin(cpu)?;
                Ok(spin(&Clock::system(), window))
            })
        });
        spinning.into_iter().try_fold(Gaps::default(), |worst, side| {
            let gaps: anyhow::Result<Gaps> = side.join().expect("reading the clock cannot panic");
            gaps.map(|gaps| worst.worse(gaps))
        })
    })
}

fn spin(clock: &Clock, window: Duration) -> Gaps {
    let start = clock.now();
    let mut last = start;
    let mut gaps = Gaps::default();
    while last.since(start) < window {
        let now: Time = clock.now();
        gaps.note(now.since(last));
        last = now;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::GAP;

    #[test]
    fn a_spinning_thread_counts_only_long_pauses() {
        let gaps = spin(&Clock::system(), GAP / 100);
        assert!(gaps.longest > Duration::ZERO, "time passed");
        assert!(gaps.long == 0 || gaps.longest > GAP);
    }
}
