//! Runs the requesters on their threads, shows progress, and gathers what they measured.

use std::convert::Infallible;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;

use crate::clock::RunClock;
use crate::cpu::{self, CpuSeconds};
use crate::crowd::Crowd;
use crate::failure_log::FailureLog;
use crate::measurement::Measurements;
use crate::requester::{Requester, Shared};
use crate::say::say;
use crate::settings::{Settings, StatusSettings};
use crate::status::StatusLine;
use crate::target::{Crew, Target};
use crate::workload::Workload;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) runtime: Duration,
    pub(crate) measurements: Measurements,
    pub(crate) cpu: CpuSeconds,
}

/// Runs `workload` by `crews`, which are connected already; returns when all are done.
pub(crate) fn run(
    workload: Workload,
    settings: &Settings,
    target: &mut Target,
    crews: Vec<Crew>,
) -> anyhow::Result<Outcome> {
    let operations = workload.operations;
    let shared = Arc::new(Shared {
        workload,
        pace: settings.pace,
        spin: settings.spin,
        stop_at_ns: stop_at_ns(settings.longest),
        failures: FailureLog::default(),
    });
    let team = Team::start(&shared, settings, operations, crews)?;

    let server_before = server_seconds(settings, target);
    let driver_before = cpu::driver_seconds();
    let clock = team.release();
    let (measurements, runtime) = team.watch(clock, settings.status.as_ref(), operations);
    let driver = cpu::driver_seconds() - driver_before;
    let server = server_seconds(settings, target)
        .and_then(|after| server_before.map(|before| after - before));
    Ok(Outcome { runtime, measurements, cpu: CpuSeconds { driver, server } })
}

fn stop_at_ns(longest: Option<Duration>) -> u64 {
    longest.map_or(u64::MAX, |longest| u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX))
}

fn server_seconds(settings: &Settings, target: &mut Target) -> Result<f64, String> {
    match &settings.server_pids {
        Some(pids) => cpu::processes_seconds(pids),
        None => target.server_cpu_seconds(),
    }
}

/// The threads, and what connects the main thread to them.
struct Team {
    threads: Vec<JoinHandle<()>>,
    measurements: Vec<Arc<Mutex<Measurements>>>,
    start: Arc<Start>,
    /// Never receives anything: it is disconnected when the last thread has ended.
    ended: mpsc::Receiver<Infallible>,
}

/// Holds the threads back until all are ready.
struct Start {
    ready: Barrier,
    clock: OnceLock<RunClock>,
}

impl Start {
    fn wait(&self) -> RunClock {
        self.ready.wait();
        *self.clock.get().expect("the clock starts before the barrier falls")
    }
}

impl Team {
    fn start(
        shared: &Arc<Shared>,
        settings: &Settings,
        operations: Option<u64>,
        crews: Vec<Crew>,
    ) -> anyhow::Result<Team> {
        let ready = Barrier::new(crews.len() + 1);
        let start = Arc::new(Start { ready, clock: OnceLock::new() });
        let (running, ended) = mpsc::channel();
        let seed = settings.seed.unwrap_or_else(rand::random);
        let mut threads = Vec::new();
        let mut measurements = Vec::new();
        let mut requesters_before = 0;
        for Crew { driver, sessions } in crews {
            let measured = Arc::new(Mutex::new(Measurements::new(settings.interval)));
            let requesters: Vec<Requester> = sessions
                .into_iter()
                .zip(requesters_before..)
                .map(|(session, number)| {
                    let quota = operations.map(|all| share(all, number, settings.requesters));
                    let (shared, measured) = (Arc::clone(shared), Arc::clone(&measured));
                    let seed = seed.wrapping_add(number as u64);
                    Requester::new(shared, session, measured, quota, seed)
                })
                .collect();
            requesters_before += requesters.len();
            let (start, running) = (Arc::clone(&start), running.clone());
            let work = move || {
                let clock = start.wait();
                let requests = requesters.into_iter().map(|requester| requester.run(clock));
                driver.drive(Crowd::new(requests));
                drop(running);
            };
            let thread = thread::Builder::new().name("ycsb requests".to_owned()).spawn(work);
            threads.push(thread.context("cannot start a thread; lower -threads")?);
            measurements.push(measured);
        }
        Ok(Team { threads, measurements, start, ended })
    }

    /// Lets the threads begin.
    fn release(&self) -> RunClock {
        let clock = *self.start.clock.get_or_init(RunClock::start);
        self.start.wait();
        clock
    }

    /// Shows progress until all threads have ended; returns what they measured, and when.
    #[expect(clippy::disallowed_methods, reason = "a status line comes by the clock on the wall")]
    fn watch(
        self,
        clock: RunClock,
        settings: Option<&StatusSettings>,
        operations: Option<u64>,
    ) -> (Measurements, Duration) {
        let mut sum = Measurements::default();
        let mut status = settings.map(|settings| StatusLine::new(&settings.label, operations));
        let mut next_line = Duration::ZERO;
        let ended_at = loop {
            let rest = match settings {
                Some(_) => next_line.saturating_sub(clock.now()),
                None => Duration::MAX,
            };
            let ended = self.ended.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected);
            let now = clock.now();
            if let Some(status) = &mut status {
                let recent = self.take();
                say(status.next(chrono::Local::now(), now, &recent));
                sum.merge(&recent);
            }
            if ended {
                break now;
            }
            next_line += settings.map_or(Duration::MAX, |settings| settings.every);
        };
        sum.merge(&self.take());
        for thread in self.threads {
            thread.join().expect("a requester that panics ends the process");
        }
        (sum, ended_at)
    }

    /// What was measured since the last call.
    fn take(&self) -> Measurements {
        let mut recent = Measurements::default();
        self.measurements.iter().for_each(|measured| recent.merge(&measured.lock().take()));
        recent
    }
}

/// How many of `all` operations requester `number` of `requesters` does.
fn share(all: u64, number: usize, requesters: usize) -> u64 {
    let (number, requesters) = (number as u64, requesters as u64);
    all / requesters + u64::from(number < all % requesters)
}
