//! The processes that an agent has for drivers: workers of jobs.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use weft_transport::{Batch, Connection, Handler, IncomingKind};

use super::message::{FromAgent, Task, ToAgent, encode};

/// What an agent has running.
#[derive(Clone, Debug)]
pub(crate) struct Hosting {
    slots: usize,
    /// The address that workers listen on.
    listen: String,
    state: Arc<Mutex<Hosted>>,
}

#[derive(Debug, Default)]
struct Hosted {
    processes: HashMap<Task, Process>,
    /// The newest attempt that was seen of each job.
    newest: HashMap<u64, u32>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    /// To the driver, whose end is the end of the process.
    driver: Connection,
}

/// Bytes of a line that are told at once: as JSON, they fit a message of a megabyte whatever they are.
const PART_BYTES: usize = 128 << 10;

/// Of how many jobs an agent remembers which attempt was the newest.
const JOBS_MAX: usize = 10_000;

impl Hosting {
    pub(crate) fn new(slots: usize, listen: String) -> Hosting {
        Hosting { slots, listen, state: Arc::default() }
    }

    /// Kills what drivers have left behind that are gone. Called now and then.
    pub(crate) fn sweep(&self) {
        let mut state = self.state.lock();
        for process in state.processes.values_mut().filter(|process| !process.driver.is_open()) {
            process.kill();
        }
    }

    /// Kills everything, and waits until it is gone.
    pub(crate) fn end(&self) {
        let processes = std::mem::take(&mut self.state.lock().processes);
        for mut process in processes.into_values() {
            process.kill();
            let _ = process.child.wait();
        }
    }

    /// Kills a process, if it is there.
    pub(crate) fn kill(&self, task: Task) {
        if let Some(process) = self.state.lock().processes.get_mut(&task) {
            process.kill();
        }
    }

    fn take(&self, message: ToAgent, driver: &Connection) {
        match message {
            ToAgent::Start { task, folder, arguments } => {
                if let Err(error) = self.start(task, &folder, &arguments, driver) {
                    let (driver, why) = (driver.clone(), format!("{error:#}"));
                    // A handler waits for nobody.
                    std::thread::spawn(move || tell(&driver, &FromAgent::Refused { task, why }));
                }
            }
            ToAgent::Input { task, line } => {
                let mut state = self.state.lock();
                if let Some(process) = state.processes.get_mut(&task)
                    && let Some(stdin) = &mut process.stdin
                {
                    // One that cannot be told has ended, which is told.
                    let _ = writeln!(stdin, "{line}");
                }
            }
            ToAgent::Kill { task } => self.kill(task),
        }
    }

    fn start(
        &self,
        task: Task,
        folder: &str,
        arguments: &[String],
        driver: &Connection,
    ) -> anyhow::Result<()> {
        let mut state = self.state.lock();
        let newest = state.newest.get(&task.job).copied().unwrap_or(0);
        anyhow::ensure!(
            task.attempt >= newest,
            "attempt {} of job {} has begun since",
            newest,
            task.job
        );
        if state.newest.len() >= JOBS_MAX {
            // The oldest jobs are over.
            let oldest = state.newest.keys().min().copied();
            oldest.map(|oldest| state.newest.remove(&oldest));
        }
        state.newest.insert(task.job, task.attempt);
        let stale = |other: &Task| other.job == task.job && other.attempt < task.attempt;
        state
            .processes
            .iter_mut()
            .filter(|(other, _)| stale(other))
            .for_each(|(_, process)| process.kill());
        // Those of drivers that are gone are about to be killed.
        let lives =
            |(other, process): &(&Task, &Process)| !stale(other) && process.driver.is_open();
        let living = state.processes.iter().filter(lives).count();
        anyhow::ensure!(living < self.slots, "all {} slots are taken", self.slots);
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut child = Command::new(&program)
            .args(arguments)
            .arg(format!("--listen={}", self.listen))
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start a worker in {folder}"))?;
        let stdout = child.stdout.take().expect("it was piped");
        let stdin = child.stdin.take();
        let process = child.id();
        state.processes.insert(task, Process { child, stdin, driver: driver.clone() });
        let (hosting, driver) = (self.clone(), driver.clone());
        std::thread::spawn(move || {
            if tell(&driver, &FromAgent::Started { task, process }) {
                relay(task, BufReader::new(stdout), &driver);
            }
            hosting.reap(task);
        });
        Ok(())
    }

    /// The output of a process has ended, or nobody is there for it.
    fn reap(&self, task: Task) {
        let Some(mut process) = self.state.lock().processes.remove(&task) else { return };
        if !process.driver.is_open() {
            process.kill();
        }
        drop(process.stdin.take());
        if let Ok(status) = process.child.wait() {
            tell(&process.driver, &FromAgent::Ended { task, status: status.into_raw() });
        }
    }
}

impl Process {
    fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
    }
}

impl Handler for Hosting {
    fn handle(&self, batch: &mut Batch<'_>) {
        let driver = batch.connection();
        while let Some(incoming) = batch.next() {
            // Who knows the secret and says something else is another version of this program, whose build would not fit anyhow.
            if let (IncomingKind::Message, Ok(message)) =
                (incoming.kind, serde_json::from_slice(incoming.body))
            {
                self.take(message, &driver);
            }
        }
    }
}

/// Tells the driver what a process says, until it ends or nobody is there to be told.
fn relay(task: Task, stdout: impl BufRead, driver: &Connection) {
    for line in stdout.lines().map_while(Result::ok) {
        let mut rest = line.as_str();
        loop {
            let (part, behind) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
            rest = behind;
            let (part, is_last) = (part.to_owned(), rest.is_empty());
            if !tell(driver, &FromAgent::Line { task, part, is_last }) {
                return;
            }
            if is_last {
                break;
            }
        }
    }
}

/// Whether the driver could be told.
fn tell(driver: &Connection, message: &FromAgent) -> bool {
    let message = encode(message);
    driver.block_on(driver.send(message.as_slice())).is_ok()
}
