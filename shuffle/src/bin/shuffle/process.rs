//! The process of a worker, here or at an agent of a cluster.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::Context as _;

use crate::cluster::fleet::{Fleet, Hosted};
use crate::interrupt::Interrupt;
use crate::launch::{Happening, Told};
use crate::site::Site;

/// Where processes are started.
pub(crate) enum Launcher {
    Here(Arc<Interrupt>),
    Cluster(Fleet),
}

/// A process that ends with this value.
pub(crate) enum Process {
    Child { child: Child, stdin: Option<ChildStdin> },
    Hosted(Hosted),
}

/// How one has ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Exited(ExitStatus),
    /// That is not known: why.
    Gone(String),
}

impl Launcher {
    /// Has whoever listens to the workers told when the job is to end.
    pub(crate) fn listen(&self, tell: &Sender<Told>) {
        if let Self::Here(interrupt) = self {
            interrupt.wake(tell.clone());
        }
    }

    /// Starts the process of a worker, whose output is told, and its end.
    pub(crate) fn start(
        &self,
        worker: usize,
        arguments: Vec<OsString>,
        tell: Sender<Told>,
    ) -> anyhow::Result<Process> {
        let Launcher::Cluster(fleet) = self else { return start_here(worker, arguments, tell) };
        fleet.start(worker, arguments, tell).map(Process::Hosted)
    }
}

fn start_here(
    worker: usize,
    arguments: Vec<OsString>,
    tell: Sender<Told>,
) -> anyhow::Result<Process> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start worker {worker}"))?;
    let stdout = child.stdout.take().expect("it was piped");
    let stdin = child.stdin.take();
    std::thread::spawn(move || relay(worker, BufReader::new(stdout), &tell));
    Ok(Process::Child { child, stdin })
}

/// Passes on what a worker tells, until it ends.
fn relay(worker: usize, stdout: impl BufRead, tell: &Sender<Told>) {
    for line in stdout.lines().map_while(Result::ok) {
        // Nobody listens any more once the job has failed.
        let _ = tell.send(Told::of_line(worker, line));
    }
    let _ = tell.send(Told { worker, what: Happening::Ended });
}

impl Process {
    /// Writes a line to its standard input. One that cannot be told has ended, which its output says too.
    pub(crate) fn tell(&mut self, line: &str) {
        match self {
            Self::Child { stdin, .. } => {
                let written = stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
                drop(written);
            }
            Self::Hosted(hosted) => hosted.tell(line),
        }
    }

    /// Has it end, if it has not by itself.
    pub(crate) fn kill(&mut self) {
        match self {
            Self::Child { child, stdin } => {
                drop(stdin.take());
                let _ = child.kill();
            }
            Self::Hosted(hosted) => hosted.kill(),
        }
    }

    /// Waits until it has ended.
    pub(crate) fn end(&mut self) -> std::io::Result<End> {
        match self {
            Self::Child { child, .. } => child.wait().map(End::Exited),
            Self::Hosted(hosted) => Ok(hosted.end()),
        }
    }

    /// Which it is, as in "worker 1 (process 7)".
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Child { child, .. } => format!("process {}", child.id()),
            Self::Hosted(hosted) => hosted.name(),
        }
    }

    /// The same for what goes wrong there: which process it is, and whose.
    pub(crate) fn locate(&self, site: &mut Site) {
        match self {
            Self::Child { child, .. } => site.process = Some(child.id()),
            Self::Hosted(hosted) => hosted.locate(site),
        }
    }

    /// Whether it may be on another machine.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Hosted(_))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        match self {
            Self::Child { child, .. } => drop(child.wait()),
            Self::Hosted(hosted) => hosted.wait_until_killed(),
        }
    }
}
