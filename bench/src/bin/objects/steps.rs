//! How long each step takes.

use std::hint::black_box;

use anyhow::{Result, ensure};
use rustix::time::{ClockId, clock_gettime};

/// What is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Making the objects.
    Build,
    /// From the objects to what is handed to a transport.
    Send,
    /// From what was received to objects that may be used.
    Receive,
    /// Adding up what is in them.
    Use,
}

/// The times of each step, round by round.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) rounds: usize,
    /// What is sent.
    pub(crate) bytes: u64,
    /// In how many pieces.
    pub(crate) segments: u64,
    times_ns: [Vec<f64>; 4],
}

impl Steps {
    pub(crate) fn new(rounds: usize) -> Steps {
        Steps { rounds, bytes: 0, segments: 1, times_ns: Default::default() }
    }

    /// Has a step done.
    pub(crate) fn time<T>(&mut self, step: Step, work: impl FnOnce() -> T) -> T {
        let before = clock_gettime(ClockId::Monotonic);
        let done = black_box(work());
        let after = clock_gettime(ClockId::Monotonic);
        let ns =
            (after.tv_sec - before.tv_sec) as f64 * 1e9 + (after.tv_nsec - before.tv_nsec) as f64;
        self.times_ns[step as usize].push(ns);
        done
    }

    /// The medians, without those of the first round, which warms up.
    pub(crate) fn medians_ns(&self) -> Medians {
        let [build, send, receive, uses] = self.percentiles_ns(0.5);
        Medians { build, send, receive, uses }
    }

    /// What this share of each step's times is not above, in nanoseconds, without those of the first round.
    pub(crate) fn percentiles_ns(&self, share: f64) -> [Option<f64>; 4] {
        self.times_ns.each_ref().map(|times| {
            let mut times = times.get(1..).unwrap_or_default().to_vec();
            times.sort_by(f64::total_cmp);
            let last = times.len().checked_sub(1)?;
            times.get((last as f64 * share).round() as usize).copied()
        })
    }
}

/// What each step took, in nanoseconds, if there was such a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medians {
    pub(crate) build: Option<f64>,
    pub(crate) send: Option<f64>,
    pub(crate) receive: Option<f64>,
    pub(crate) uses: Option<f64>,
}

/// Looks whether what was received is what was built.
pub(crate) fn check(sum: f64, expected: f64) -> Result<()> {
    ensure!((sum - expected).abs() <= expected.abs() * 1e-9, "the sum is {sum}, not {expected}");
    Ok(())
}
