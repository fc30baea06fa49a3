//! The process of one worker: reads the job's secret and all addresses from standard input, works, and
//! tells what happens on standard output. It ends when whoever started it does.

use std::io::BufRead as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Context as _;
use weft_object::Types;
use weft_shuffle::{
    CheckpointConfig, CheckpointPlace, InputError, JobError, LineProblem, Listening, Live, Secret,
    Worker, WorkerConfig, WorkerId,
};

use crate::account::Told;
use crate::args;
use crate::checkpointing::Checkpointing;
use crate::event::{Event, Failure, Now, tell};
use crate::panics;

/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Into how many parts the time is cut after which a worker counts as hung.
pub(crate) const PARTS: u32 = 10;

/// What a job asks of a worker before it begins.
pub(crate) struct Needs {
    /// The types of the records that it exchanges.
    pub(crate) types: Types,
    /// What has to be the same on all workers.
    pub(crate) same: String,
    /// What records may take of memory, if that is said.
    pub(crate) memory_bytes: Option<u64>,
    /// Where those go that it has no room for, if there may be any.
    pub(crate) spill_folder: Option<PathBuf>,
}

pub(crate) fn run(arguments: &args::Worker) -> ExitCode {
    tell_alive(Duration::from_secs(arguments.job.asked().common().hang_timeout));
    let failed = match start(arguments) {
        Err(error) => {
            tell_failure(&error, None);
            true
        }
        Ok(worker) => {
            panics::tell_of(&worker);
            if arguments.report_progress {
                tell_now(worker.live());
            }
            let worked = arguments.job.asked().work(&worker, arguments.report_progress);
            // Whatever it came to. Without anybody to tell, the end of standard input ends this process.
            let _ = tell(&Event::Told(Box::new(Told::of(&worker))));
            if let Err(error) = &worked {
                // Before the others, of whom one may take nothing any more: who started this process ends them.
                tell_failure(error, Some(&worker));
                match error.downcast_ref::<JobError>() {
                    Some(error) => worker.stop(error),
                    None => worker.stop(&JobError::Job(format!("{error:#}"))),
                }
            }
            worked.is_err()
        }
    };
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Tells now and then that this process is not stopped.
fn tell_alive(hang_timeout: Duration) {
    std::thread::spawn(move || {
        // Without anybody to tell, the end of standard input ends this process.
        while tell(&Event::Alive).is_ok() {
            std::thread::sleep(hang_timeout / PARTS);
        }
    });
}

/// Tells now and then what a worker is doing.
fn tell_now(live: Arc<Live>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(PROGRESS_EVERY);
            if tell(&Event::Now(Now::of(&live))).is_err() {
                return;
            }
        }
    });
}

/// Tells why a worker ends, which may have met the others.
fn tell_failure(error: &anyhow::Error, worker: Option<&Worker>) {
    let is_consequence = error.downcast_ref().is_some_and(JobError::is_consequence);
    let is_loss = error.downcast_ref().is_some_and(JobError::is_loss);
    let about = error.downcast_ref().and_then(JobError::about).map(|other| other.0);
    let mut text = format!("{error:#}");
    if may_be_skipped(error) {
        text += "; --skip-bad N skips up to N malformed lines";
    }
    let unfinished = worker.and_then(|worker| worker.stages().unfinished);
    let mut stage = unfinished.map(|stage| (stage.number, stage.verb));
    if let (Some((number, verb)), Some(worker)) = (stage, worker) {
        text = match about {
            // Which partition that one had is known by its number.
            Some(_) => format!("in stage {number} ({verb}): {text}"),
            None => format!("in stage {number} ({verb}), on partition {}: {text}", worker.id().0),
        };
    } else {
        stage = worker.and_then(|worker| worker.live().now().ended);
    }
    let stage = stage.map(|(number, verb)| (number, verb.name().to_owned()));
    let failure = Failure { is_consequence, is_loss, about, stage, text };
    // Nobody is there to be told if this fails.
    let _ = tell(&Event::Failed(failure));
}

/// Whether a job would have gone on that skips more malformed lines.
fn may_be_skipped(error: &anyhow::Error) -> bool {
    let input = match error.downcast_ref() {
        Some(JobError::Input(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    match input {
        Some(InputError::MalformedLine { problem, .. }) => *problem != LineProblem::MatrixMarket,
        Some(InputError::TooManyMalformed { .. }) => true,
        _ => false,
    }
}

/// The worker, when it has met the others.
fn start(arguments: &args::Worker) -> anyhow::Result<Worker> {
    let job = arguments.job.asked();
    let common = job.common();
    let Needs { types, same, memory_bytes, spill_folder } = job.needs();
    let every = job.checkpoints().and_then(Checkpointing::every);
    let in_table = arguments.kept_in.clone().zip(arguments.kept_of.clone());
    let in_table = in_table.map(|(cluster, job)| CheckpointPlace::Table { cluster, job });
    let place = arguments.kept.clone().map(CheckpointPlace::Folder).or(in_table);
    let checkpoints = place.zip(every);
    let listening = Listening::start(WorkerConfig {
        id: WorkerId(arguments.index),
        workers: common.workers,
        types,
        arguments: same,
        secret: secret()?,
        hang_timeout: Duration::from_secs(common.hang_timeout),
        listen: arguments.listen,
        attempt: arguments.attempt,
        checkpoints: checkpoints.map(|(place, every)| CheckpointConfig { place, every }),
        links: common.link,
        memory_bytes: memory_bytes.unwrap_or_else(|| share_of_memory(common.workers)),
        spill_folder: spill_folder.unwrap_or_else(std::env::temp_dir),
    })?;
    tell(&Event::Listening(listening.address()))?;
    Ok(listening.join(&addresses()?)?)
}

/// The first line: the job's secret, in hexadecimal.
fn secret() -> anyhow::Result<Secret> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    // The error does not quote what it is about.
    let bits = u128::from_str_radix(line.trim_end(), 16).ok();
    bits.map(Secret::new).context("the job's secret cannot be read: workers are started by shuffle")
}

/// The second line: the addresses of all workers. What comes after it is the end of whoever started this
/// process, and then of this one.
fn addresses() -> anyhow::Result<Vec<SocketAddr>> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let addresses = line.split_whitespace().map(str::parse).collect::<Result<_, _>>();
    std::thread::spawn(|| {
        // Whatever comes, an end or an error, nobody waits for this job any more.
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        std::process::exit(1);
    });
    addresses.context("the addresses of the workers cannot be read")
}

/// Half of the machine's memory, in equal parts.
fn share_of_memory(workers: usize) -> u64 {
    let system = rustix::system::sysinfo();
    let total = system.totalram * u64::from(system.mem_unit);
    total / 2 / workers as u64
}

/// Runs `work`; meanwhile, if `report`, tells how far the counter that it gets has come, which is what is done of a phase.
pub(crate) fn while_telling<T>(
    report: bool,
    phase: usize,
    work: impl FnOnce(&AtomicU64) -> T,
) -> T {
    let counter = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        if report {
            let counter = &counter;
            let tell_done = move |counter: &AtomicU64| {
                let done = counter.load(Ordering::Relaxed);
                // Without anybody to tell, the end of standard input ends this process.
                let _ = tell(&Event::Progress { phase, done });
            };
            scope.spawn(move || {
                while is_done.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
                    tell_done(counter);
                }
                tell_done(counter);
            });
        }
        let worked = work(&counter);
        drop(done);
        worked
    })
}
