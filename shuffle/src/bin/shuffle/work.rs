//! The process of one worker: reads the job's secret and all addresses from standard input, works, and
//! tells what happens on standard output. It ends when whoever started it does.

use std::fs::File;
use std::io::{BufRead as _, BufWriter, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Context as _;
use weft_object::Types;
use weft_shuffle::job::graph::{Edge, Graph};
use weft_shuffle::job::pagerank::{PageRank, Rank};
use weft_shuffle::{
    Dataset, EdgeList, JobError, Listening, Secret, Share, Worker, WorkerConfig, WorkerId, records,
};

use crate::args;
use crate::event::{Event, Failure, Outcome, TopRank, tell};

/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: &args::Worker) -> ExitCode {
    let Err(error) = work(arguments) else { return ExitCode::SUCCESS };
    let is_consequence = error.downcast_ref().is_some_and(JobError::is_consequence);
    let failure = Failure { is_consequence, text: format!("{error:#}") };
    // Nobody is there to be told if this fails.
    let _ = tell(&Event::Failed(failure));
    ExitCode::FAILURE
}

fn work(arguments: &args::Worker) -> anyhow::Result<()> {
    let job = &arguments.job;
    let listening = Listening::start(WorkerConfig {
        id: WorkerId(arguments.index),
        workers: job.workers,
        types: PageRank::types(Graph::types(Types::new())),
        arguments: format!("{:?}", (&job.input, job.iterations, job.damping)),
        secret: secret()?,
        hang_timeout: Duration::from_secs(job.hang_timeout),
        links: job.link,
        memory_bytes: memory_bytes(job.workers),
    })?;
    tell(&Event::Listening(listening.address()))?;
    let worker = listening.join(&addresses()?)?;
    let done = pagerank(&worker, arguments);
    if let Err(error) = &done {
        match error.downcast_ref::<JobError>() {
            Some(error) => worker.stop(error),
            None => worker.stop(&JobError::Job(format!("{error:#}"))),
        }
    }
    done
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
fn memory_bytes(workers: usize) -> u64 {
    let system = rustix::system::sysinfo();
    let total = system.totalram * u64::from(system.mem_unit);
    total / 2 / workers as u64
}

fn pagerank(worker: &Worker, arguments: &args::Worker) -> anyhow::Result<()> {
    let job = &arguments.job;
    let clock = worker.clock();
    let began = clock.now();
    let list = EdgeList::open(&job.input)?;
    let graph = while_telling(arguments.report_progress, |read| load(worker, &list, read))?;
    // All have loaded when all have said so.
    let edges_by_worker = worker.gather(graph.edges())?;
    anyhow::ensure!(graph.vertices() > 0, "{} has no edges", job.input.display());
    let load_seconds = clock.now().since(began).as_secs_f64();

    let sent_before = worker.bytes_sent();
    let tells = worker.id() == WorkerId(0) && arguments.report_progress;
    let mut times = Vec::with_capacity(job.iterations + 1);
    let method = PageRank { iterations: job.iterations, damping: job.damping };
    let mut note = |rounds| {
        times.push(clock.now());
        if tells {
            // Without anybody to tell, the end of standard input ends this process.
            let _ = tell(&Event::Rounds(rounds));
        }
    };
    let ranks = method.rank(worker, &graph, &mut note)?;
    note(job.iterations);
    let sent = worker.gather(worker.bytes_sent() - sent_before)?;

    let mut ranks = records(ranks).collect(worker)?;
    if worker.id() == WorkerId(0) {
        ranks.sort_unstable_by(|one, other| {
            other.rank.total_cmp(&one.rank).then(one.vertex.cmp(&other.vertex))
        });
        if let Some(path) = &job.output {
            write(path, &ranks)?;
        }
        let top = ranks.iter().take(job.top);
        tell(&Event::Done(Outcome {
            vertices: graph.vertices(),
            edges: edges_by_worker.iter().sum(),
            edges_by_worker,
            load_seconds,
            seconds: times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect(),
            bytes_shuffled: sent.iter().sum(),
            top: top.map(|rank| TopRank { vertex: rank.vertex, rank: rank.rank }).collect(),
        }))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}

fn load(worker: &Worker, list: &EdgeList, read: &AtomicU64) -> anyhow::Result<Graph> {
    let share = Share::new(worker.id().0, worker.workers()).context("a share of the input")?;
    let mut edges = Vec::new();
    list.edges(share, read, |key, value| edges.push(Edge { key, value }))?;
    Ok(Graph::spread(worker, records(edges))?)
}

/// Runs `work`; meanwhile, if `report`, tells how far the counter that it gets has come.
fn while_telling<T>(report: bool, work: impl FnOnce(&AtomicU64) -> T) -> T {
    let counter = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        if report {
            let counter = &counter;
            scope.spawn(move || {
                while is_done.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let _ = tell(&Event::Read(counter.load(Ordering::Relaxed)));
                }
                let _ = tell(&Event::Read(counter.load(Ordering::Relaxed)));
            });
        }
        let worked = work(&counter);
        drop(done);
        worked
    })
}

/// Vertex, tab, rank with 17 significant digits, which is every bit of it.
fn write(path: &Path, ranks: &[Rank]) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(failed)?);
    for rank in ranks {
        writeln!(file, "{}\t{:.16e}", rank.vertex, rank.rank).with_context(failed)?;
    }
    file.flush().with_context(failed)
}
