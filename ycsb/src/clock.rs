//! The time of a run, in nanoseconds since it began. The only place that reads a clock.

use std::time::{Duration, Instant};

/// Copied to every requester, so that all of them and the report count from the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    began: Instant,
}

impl RunClock {
    #[expect(clippy::disallowed_methods, reason = "a load generator measures real time")]
    pub(crate) fn start() -> RunClock {
        RunClock { began: Instant::now() }
    }

    /// Nanoseconds since the run began; enough for 584 years.
    pub(crate) fn now_ns(self) -> u64 {
        self.now().as_nanos() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "a load generator measures real time")]
    pub(crate) fn now(self) -> Duration {
        self.began.elapsed()
    }
}

/// Lets the calling thread sleep.
#[expect(clippy::disallowed_methods, reason = "a throttled thread waits for its turn in real time")]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
