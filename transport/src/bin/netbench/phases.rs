//! Worker threads taken through warm-up and measurement together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What the workers are to do now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    WarmUp,
    Measure,
    Stop,
}

/// The phase, as the workers see it.
pub(crate) struct Phases(AtomicU8);

impl Phases {
    pub(crate) fn new() -> Self {
        Phases(AtomicU8::new(Phase::WarmUp as u8))
    }

    #[inline]
    pub(crate) fn now(&self) -> Phase {
        match self.0.load(Ordering::Relaxed) {
            0 => Phase::WarmUp,
            1 => Phase::Measure,
            _ => Phase::Stop,
        }
    }

    pub(crate) fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }
}

/// Runs `worker` on as many threads until the window is over, and returns what they return, by
/// thread.
///
/// `at_edge` is called when the window begins and when it ends, while the workers run. The first
/// error of a worker or of `at_edge` ends the run.
pub(crate) fn run<T: Send>(
    threads: usize,
    warm_up: Duration,
    window: Duration,
    worker: impl Fn(usize, &Arc<Phases>) -> anyhow::Result<T> + Sync,
    mut at_edge: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<T>> {
    let phases = Arc::new(Phases::new());
    std::thread::scope(|scope| {
        let (ended, endings) = channel();
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (ended, phases, worker) = (ended.clone(), &phases, &worker);
                scope.spawn(move || {
                    let outcome = worker(thread, phases);
                    // The receiver is gone once the window is over, and then nobody needs to know.
                    let _ = ended.send(());
                    outcome
                })
            })
            .collect();
        // A worker ends by itself only when it failed, so an ending cuts the wait short.
        let wait = |time: Duration| endings.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        let mut edges = || {
            if wait(warm_up) {
                at_edge()?;
                phases.set(Phase::Measure);
                if wait(window) {
                    at_edge()?;
                }
            }
            Ok(())
        };
        let edges: anyhow::Result<()> = edges();
        phases.set(Phase::Stop);
        let results: anyhow::Result<Vec<T>> = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        edges.and(results)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_taken_through_all_phases_and_the_edges_lie_between_them() {
        let mut edges = 0;
        let counts = run(
            2,
            Duration::ZERO,
            Duration::ZERO,
            |thread, phases| {
                while phases.now() != Phase::Stop {
                    std::thread::yield_now();
                }
                Ok(thread)
            },
            || {
                edges += 1;
                Ok(())
            },
        );
        assert_eq!(counts.unwrap(), [0, 1]);
        assert_eq!(edges, 2);
    }

    #[test]
    fn a_failed_worker_ends_the_run_with_its_error() {
        let hour = Duration::from_secs(3600);
        let broken =
            |_, _: &Arc<Phases>| anyhow::Result::<()>::Err(anyhow::anyhow!("the thread broke"));
        let error = run(1, hour, hour, broken, || Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "the thread broke");
    }

    #[test]
    fn a_failed_edge_stops_the_workers() {
        let patient = |_, phases: &Arc<Phases>| {
            while phases.now() != Phase::Stop {
                std::thread::yield_now();
            }
            Ok(())
        };
        let error = run(1, Duration::ZERO, Duration::ZERO, patient, || anyhow::bail!("no sample"));
        assert_eq!(error.unwrap_err().to_string(), "no sample");
    }
}
