//! `weft-server`: a storage node as a process.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program talks to its user")]

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use weft_server::config::{Args, Config, LogFormat};
use weft_server::node::{Node, OpenLogs, StartError};
use weft_server::process;

/// The configuration cannot be used.
const EXIT_USAGE: u8 = 2;
/// The configuration is good, and the node failed.
const EXIT_FAILED: u8 = 1;

fn main() -> ExitCode {
    let config = match Config::load(Args::from_process()) {
        Ok(config) => config,
        Err(error) => return fail(EXIT_USAGE, &error),
    };
    start_logs(&config);
    match run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(EXIT_FAILED, error.as_ref()),
    }
}

/// Serves until the process is told to end. The signals are caught before anything starts, so that
/// one that comes early ends the node as gracefully as one that comes late.
fn run(config: &Config) -> anyhow::Result<()> {
    let runtime =
        runtime::Builder::new_current_thread().enable_io().build().context("cannot wait")?;
    let mut signals = {
        let _guard = runtime.enter();
        Signals::catch().context("cannot catch signals")?
    };
    tracing::debug!(descriptors = process::raise_descriptor_limit(), "starting");
    // A node may wait long for others. Whoever wants it to end meanwhile takes nothing away but its logs, which are open.
    let logs = OpenLogs::default();
    let starting = starting(config.clone(), logs.clone())?;
    let started = runtime.block_on(async {
        tokio::select! {
            started = starting => Some(started),
            name = signals.next() => {
                tracing::info!(signal = name, "stopped before it served");
                None
            }
        }
    });
    // The thread that starts the node goes on, in the middle of whatever it does.
    let Some(started) = started else {
        let code = logs.close().map_or_else(|error| say(EXIT_FAILED, &error), |()| 0);
        process::leave_at_once(code)
    };
    let node = started.context("the thread that starts the node has ended")??;
    let name = runtime.block_on(signals.next());
    tracing::info!(signal = name, "stopping");
    node.stop()?;
    tracing::info!("stopped");
    Ok(())
}

/// Starts a node on a thread of its own.
fn starting(
    config: Config,
    logs: OpenLogs,
) -> io::Result<oneshot::Receiver<Result<Node, StartError>>> {
    let (sender, receiver) = oneshot::channel();
    // If nobody waits any more, the process ends.
    thread::Builder::new()
        .name("start".to_owned())
        .spawn(move || drop(sender.send(Node::start_with(&config, logs))))?;
    Ok(receiver)
}

/// The signals that end a node.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for either, and says which it was.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn start_logs(config: &Config) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let lines = match config.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(config.log.targets().clone())).init();
}

fn fail(exit_code: u8, error: &(dyn Error + 'static)) -> ExitCode {
    ExitCode::from(say(exit_code, error))
}

/// Says what is wrong, with every cause, where people and scripts look for it. Returns the exit code.
fn say(exit_code: u8, error: &(dyn Error + 'static)) -> u8 {
    let mut message = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    // With nobody to tell, the exit code has to do.
    let _ = writeln!(io::stderr(), "{}", message.trim_end());
    exit_code
}
