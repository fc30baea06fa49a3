//! Workers of Timely as processes of this machine, one thread each, connected by TCP over loopback.
//!
//! Timely can connect processes by itself, but from fixed ports, with pauses of a second, and with
//! what it does printed among the results. So the sockets are made here, and Timely is handed them,
//! which it offers for this purpose.
//!
//! A program starts itself once more for each worker. A worker says on standard output where it
//! listens, hears on standard input where all do, and says in the end what it found.

#![expect(clippy::disallowed_methods, reason = "a shell: it starts processes and connects them")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::PanicHookInfo;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use timely::WorkerConfig;
use timely::communication::Hooks;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::execute::execute_from;
use timely::worker::Worker;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// Starts `workers` processes of this program, each with the arguments of this one and its number
/// behind `--worker`, and returns what they report, by their numbers.
///
/// # Errors
/// What a worker failed with, or that it ended without a word. The others have been ended then.
pub fn start<R: DeserializeOwned + Send>(workers: usize) -> anyhow::Result<Vec<R>> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut running = Running::default();
    let mut inputs = Vec::with_capacity(workers);
    let mut outputs = Vec::with_capacity(workers);
    for worker in 0..workers {
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1)).args(["--worker", &worker.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start worker {worker}"))?;
        inputs.push(child.stdin.take().expect("it is piped"));
        outputs.push(BufReader::new(child.stdout.take().expect("it is piped")));
        running.0.push(child);
    }
    introduce(&mut inputs, &mut outputs)?;
    let (sender, found) = mpsc::channel();
    let reports = std::thread::scope(|scope| {
        for (worker, output) in outputs.into_iter().enumerate() {
            let sender = sender.clone();
            scope.spawn(move || sender.send((worker, report(worker, output))));
        }
        drop(sender);
        let mut reports: Vec<Option<R>> = (0..workers).map(|_| None).collect();
        for (worker, report) in found {
            // Those who read the others' reports wait until these have ended.
            let report: R = report.inspect_err(|_| running.end())?;
            reports[worker] = Some(report);
        }
        anyhow::Ok(reports)
    })?;
    running.wait()?;
    Ok(reports.into_iter().map(|report| report.expect("each reports or fails")).collect())
}

/// Is worker number `worker` of `workers`: meets the others, does `work`, and reports what it
/// returns to the process that called [`start`].
///
/// # Errors
/// That the others, or the process that started this one, cannot be reached. What `work` fails
/// with is reported, and not returned.
pub fn join<R, W>(worker: usize, workers: usize, work: W) -> anyhow::Result<()>
where
    R: Serialize + Send + 'static,
    W: Fn(&mut Worker) -> anyhow::Result<R> + Send + Sync + 'static,
{
    std::panic::set_hook(hook_for_lost_workers(std::panic::take_hook()));
    let sockets = meet(worker, workers)?;
    let threads = ProcessBuilder::new_typed_vector(1, Hooks::default().refill, None);
    let (builders, connections) =
        initialize_networking_from_sockets(threads, sockets, worker, 1, Hooks::default())?;
    let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
    let working = execute_from(builders, Box::new(connections), WorkerConfig::default(), {
        move |worker| say(&work(worker).map_err(|error| format!("{error:#}")))
    });
    let said = working.map_err(anyhow::Error::msg)?.join();
    said.into_iter().try_for_each(|said| said.map_err(anyhow::Error::msg)?)
}

/// The workers' processes, which end with this.
#[derive(Default)]
struct Running(Vec<Child>);

impl Running {
    /// Waits until all have ended by themselves.
    fn wait(&mut self) -> anyhow::Result<()> {
        for (worker, child) in self.0.iter_mut().enumerate() {
            let status = child.wait()?;
            ensure!(status.success(), "worker {worker} ended with {status} after its report");
        }
        Ok(())
    }

    fn end(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself is none to end.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Tells every worker where all of them listen.
fn introduce(
    inputs: &mut [ChildStdin],
    outputs: &mut [BufReader<ChildStdout>],
) -> anyhow::Result<()> {
    let mut addresses = Vec::with_capacity(outputs.len());
    for (worker, output) in outputs.iter_mut().enumerate() {
        let mut address = String::new();
        output.read_line(&mut address)?;
        ensure!(!address.is_empty(), "worker {worker} ended before it listened");
        addresses.push(address.trim_end().to_owned());
    }
    for (worker, input) in inputs.iter_mut().enumerate() {
        writeln!(input, "{}", addresses.join(" "))
            .with_context(|| format!("worker {worker} ended before it had met the others"))?;
    }
    Ok(())
}

/// What a worker reports in the end.
fn report<R: DeserializeOwned>(
    worker: usize,
    mut output: BufReader<ChildStdout>,
) -> anyhow::Result<R> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    if line.is_empty() {
        bail!("worker {worker} ended without a report");
    }
    let report: Result<R, String> =
        serde_json::from_str(&line).with_context(|| format!("worker {worker} printed {line}"))?;
    report.map_err(|error| anyhow::anyhow!("worker {worker}: {error}"))
}

/// Reports to the process that started this one.
fn say<R: Serialize>(report: &Result<R, String>) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{}", serde_json::to_string(report)?)?;
    if report.is_err() {
        wait_to_be_ended();
    }
    Ok(())
}

/// Has who sees another worker gone wait: Timely panics then, and the one that is gone is the one
/// to be told of.
fn hook_for_lost_workers(tell: Hook) -> Hook {
    Box::new(move |panic| match panic.payload_as_str() {
        Some(message) if message.starts_with("timely communication error") => wait_to_be_ended(),
        _ => tell(panic),
    })
}

/// The process that started this one ends all workers when one fails, and closes what it writes to
/// them when it ends itself.
fn wait_to_be_ended() {
    // Nobody is left to be told of an error.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A socket for each worker but this one: the one with the higher number connects.
fn meet(worker: usize, workers: usize) -> anyhow::Result<Vec<Option<TcpStream>>> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let addresses: Vec<SocketAddr> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("no addresses on standard input, but {line}"))?;
    ensure!(addresses.len() == workers, "of {workers} workers, {} listen", addresses.len());
    let mut sockets: Vec<Option<TcpStream>> = (0..workers).map(|_| None).collect();
    for (other, address) in addresses[..worker].iter().enumerate() {
        let mut socket = TcpStream::connect(address)
            .with_context(|| format!("cannot connect to worker {other}"))?;
        socket.write_all(&(worker as u64).to_le_bytes())?;
        sockets[other] = Some(socket);
    }
    for _ in worker + 1..workers {
        let (mut socket, _) = listener.accept()?;
        let mut number = [0; 8];
        socket.read_exact(&mut number)?;
        let other = u64::from_le_bytes(number) as usize;
        let is_awaited = other > worker && other < workers && sockets[other].is_none();
        ensure!(is_awaited, "who connected says that it is worker {other}");
        sockets[other] = Some(socket);
    }
    for socket in sockets.iter().flatten() {
        socket.set_nodelay(true)?;
    }
    Ok(sockets)
}
