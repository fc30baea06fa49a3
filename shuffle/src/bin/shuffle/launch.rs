//! One attempt at a job: starts the workers, tells them of one another, and ends all when one ends early.

use std::ffi::OsString;
use std::io::{BufReader, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use rustix::process::Signal;

use crate::account::Account;
use crate::args::Common;
use crate::event::{Event, Failure, Outcome};
use crate::job::Job;
use crate::progress::{Phase, Progress};
use crate::work::PARTS;

/// What ends a program that does what it may not.
const OWN_FAULTS: [i32; 7] = [
    Signal::ABORT.as_raw(),
    Signal::SEGV.as_raw(),
    Signal::BUS.as_raw(),
    Signal::ILL.as_raw(),
    Signal::FPE.as_raw(),
    Signal::TRAP.as_raw(),
    Signal::SYS.as_raw(),
];

/// How many times longer than the other workers the command waits for one that tells nothing.
const PATIENCE: u32 = 2;

/// When one worker has failed, how long the others may take to say something better.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why an attempt came to nothing.
pub(crate) struct Stopped {
    pub(crate) error: anyhow::Error,
    /// Whether a worker was lost, which says nothing of the job.
    pub(crate) is_loss: bool,
}

impl From<anyhow::Error> for Stopped {
    fn from(error: anyhow::Error) -> Self {
        Self { error, is_loss: false }
    }
}

/// Runs an attempt at the job to its end: when it returns, no worker is left. `kept` is where workers keep what the next attempt goes on with.
pub(crate) fn run(
    job: &Job,
    attempt: u32,
    kept: Option<&Path>,
    phases: Vec<Phase>,
    account: &mut Account,
) -> Result<Outcome, Stopped> {
    let common = job.asked().common();
    let is_shown = std::io::stderr().is_terminal();
    let progress = is_shown.then(|| Progress::new(phases, common.workers));
    let arguments = |worker| job.worker_arguments(worker, attempt, kept, is_shown);
    let (mut workers, events) = Workers::start(common.workers, arguments)?;
    workers.watch(common, &events, progress, account)
}

/// Processes that end with this value.
struct Workers {
    children: Vec<(Child, Option<ChildStdin>)>,
}

/// What one worker did.
struct Told {
    worker: usize,
    what: Happening,
}

enum Happening {
    Event(Event),
    /// A line that is no event: kept for the message.
    Noise(String),
    /// Its output has ended, and with it the process, or soon.
    Ended,
}

impl Workers {
    fn start(
        count: usize,
        arguments: impl Fn(usize) -> Vec<OsString>,
    ) -> anyhow::Result<(Self, Receiver<Told>)> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let (tell, events) = channel();
        let secret: u128 = rand::random();
        let mut workers = Self { children: Vec::with_capacity(count) };
        for worker in 0..count {
            let mut child = Command::new(&program)
                .args(arguments(worker))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .with_context(|| format!("cannot start worker {worker}"))?;
            let stdout = child.stdout.take().expect("it was piped");
            let mut stdin = child.stdin.take().expect("it was piped");
            // Not on the command line, which everybody on the machine can read. One that cannot be
            // told has ended, which its output says too.
            let _ = writeln!(stdin, "{secret:032x}");
            workers.children.push((child, Some(stdin)));
            let tell = tell.clone();
            std::thread::spawn(move || relay(worker, BufReader::new(stdout), &tell));
        }
        Ok((workers, events))
    }

    fn watch(
        &mut self,
        job: &Common,
        events: &Receiver<Told>,
        mut progress: Option<Progress>,
        account: &mut Account,
    ) -> Result<Outcome, Stopped> {
        let mut addresses: Vec<Option<SocketAddr>> = vec![None; job.workers];
        let mut outcome = None;
        let mut has_ended = vec![false; job.workers];
        let mut silence = Silence::new(job);
        while has_ended.contains(&false) {
            let Some(Told { worker, what }) = silence.next(events) else {
                let is_silent = |worker: &usize| {
                    !has_ended[*worker] && silence.is_long(*worker, addresses[*worker])
                };
                match (0..job.workers).find(is_silent) {
                    // All have ended their part when one has: what this one made is whole, too.
                    Some(_) if outcome.is_some() && has_ended.contains(&true) => break,
                    Some(worker) => return Err(self.silent(worker, addresses[worker], job)),
                    None => continue,
                }
            };
            match what {
                Happening::Event(Event::Listening(address)) => {
                    addresses[worker] = Some(address);
                    if let Some(all) = addresses.iter().copied().collect::<Option<Vec<_>>>() {
                        self.introduce(&all);
                    }
                }
                Happening::Event(Event::Alive) => {}
                Happening::Event(Event::Progress { phase, done }) => {
                    if let Some(progress) = &mut progress {
                        progress.tell(worker, phase, done);
                    }
                }
                Happening::Event(Event::Now(now)) => {
                    if let Some(progress) = &mut progress {
                        progress.look(worker, now);
                    }
                }
                Happening::Event(Event::Told(told)) => account.tell(worker, told),
                Happening::Event(Event::Done(done)) => {
                    if let Some(progress) = &progress {
                        progress.finish();
                    }
                    outcome = Some(done);
                }
                Happening::Event(Event::Failed(failure)) => {
                    return Err(self.failed(worker, failure, events));
                }
                Happening::Noise(line) => eprintln!("worker {worker}: {line}"),
                Happening::Ended => {
                    has_ended[worker] = true;
                    if let Some(fate) = self.fate(worker)? {
                        return Err(fate.into());
                    }
                }
            }
        }
        Ok(outcome.context("the workers ended without a result")?)
    }

    /// A worker has told nothing for too long.
    fn silent(&self, worker: usize, address: Option<SocketAddr>, job: &Common) -> Stopped {
        let (id, seconds) = (self.children[worker].0.id(), job.hang_timeout);
        let error = match address {
            None => anyhow!("no address for {seconds} s from worker {worker} (process {id})"),
            Some(_) => {
                let seconds = seconds * u64::from(PATIENCE);
                anyhow!("worker {worker} (process {id}) hangs: it has told nothing for {seconds} s")
            }
        };
        Stopped { error, is_loss: true }
    }

    /// Tells every worker where all are.
    fn introduce(&mut self, addresses: &[SocketAddr]) {
        let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let line = format!("{}\n", texts.join(" "));
        for stdin in self.children.iter_mut().filter_map(|(_, stdin)| stdin.as_mut()) {
            // One that cannot be told has ended, which its output says too.
            let _ = stdin.write_all(line.as_bytes());
        }
    }

    /// A worker has failed: names the one that failed first, which may be another, whose end this one
    /// was the first to notice.
    fn failed(&mut self, worker: usize, failure: Failure, events: &Receiver<Told>) -> Stopped {
        let of = |worker, Failure { is_loss, text, .. }| Stopped {
            error: anyhow!("worker {worker}: {text}"),
            is_loss,
        };
        let is_consequence = failure.is_consequence;
        let mut first = of(worker, failure);
        if !is_consequence {
            return first;
        }
        // Whoever only says that it is alive, or how far, has said nothing better.
        let deadline = Instant::now() + LAST_WORDS;
        loop {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Told { worker, what: Happening::Event(Event::Failed(other)) }) => {
                    if !other.is_consequence {
                        return of(worker, other);
                    }
                    // Who stops because of another one says so, and not what that one has met.
                    first.is_loss |= other.is_loss;
                }
                Ok(Told { worker, what: Happening::Ended }) => {
                    // Who fails ends by itself, and those that it told do.
                    if let Ok(Some(fate)) = self.fate(worker)
                        && fate.status.signal().is_some()
                    {
                        return fate.into();
                    }
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return first,
            }
        }
    }

    /// How the process of a worker ended that has ended, unless its part is done.
    fn fate(&mut self, worker: usize) -> anyhow::Result<Option<Fate>> {
        let (child, _) = &mut self.children[worker];
        let status =
            child.wait().with_context(|| format!("cannot see how worker {worker} ended"))?;
        Ok((!status.success()).then(|| Fate { worker, process: child.id(), status }))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (child, stdin) in &mut self.children {
            drop(stdin.take());
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// For how long workers have told nothing. The time passes in parts, so that a pause of this process counts for one of them only.
struct Silence {
    part: Duration,
    next_part: Instant,
    /// In parts.
    silent: Vec<u32>,
}

impl Silence {
    fn new(job: &Common) -> Silence {
        let part = Duration::from_secs(job.hang_timeout) / PARTS;
        Silence { part, next_part: Instant::now() + part, silent: vec![0; job.workers] }
    }

    /// What is told next; nothing when a part of the time has passed, and all that was told was seen.
    fn next(&mut self, events: &Receiver<Told>) -> Option<Told> {
        let left = self.next_part.saturating_duration_since(Instant::now());
        let Ok(told) = events.recv_timeout(left) else {
            self.next_part = Instant::now() + self.part;
            self.silent.iter_mut().for_each(|parts| *parts += 1);
            return None;
        };
        self.silent[told.worker] = 0;
        Some(told)
    }

    /// Whether that is too long for a worker, which has this address. The others see sooner that it hangs, if there are any, and say so.
    fn is_long(&self, worker: usize, address: Option<SocketAddr>) -> bool {
        let patience = if address.is_some() { PATIENCE } else { 1 };
        self.silent[worker] > PARTS * patience
    }
}

/// How the process of a worker ended before its part was done.
struct Fate {
    worker: usize,
    process: u32,
    status: ExitStatus,
}

impl From<Fate> for Stopped {
    fn from(Fate { worker, process, status }: Fate) -> Self {
        let (how, is_loss) = match (status.signal(), status.code()) {
            (Some(signal), _) if OWN_FAULTS.contains(&signal) => {
                (format!("ended by its own fault, signal {signal}: the job stops"), false)
            }
            (Some(signal), _) => (format!("was killed by signal {signal}"), true),
            (None, Some(code)) => (format!("ended with exit code {code}: the job stops"), false),
            (None, None) => ("ended: the job stops".to_owned(), false),
        };
        Self { error: anyhow!("worker {worker} (process {process}) {how}"), is_loss }
    }
}

/// Passes on what a worker tells, until it ends.
fn relay(worker: usize, stdout: impl std::io::BufRead, tell: &Sender<Told>) {
    for line in stdout.lines().map_while(Result::ok) {
        let what = match serde_json::from_str(&line) {
            Ok(event) => Happening::Event(event),
            Err(_) => Happening::Noise(line),
        };
        // Nobody listens any more once the job has failed.
        let _ = tell.send(Told { worker, what });
    }
    let _ = tell.send(Told { worker, what: Happening::Ended });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_only_alive_is_not_waited_for() {
        let (tell, events) = channel();
        let alive = std::thread::spawn(move || {
            let told = || Told { worker: 1, what: Happening::Event(Event::Alive) };
            while tell.send(told()).is_ok() {
                std::thread::sleep(LAST_WORDS / 10);
            }
        });
        let text = "worker 2 is lost".to_owned();
        let failure = Failure { is_consequence: true, is_loss: true, text };
        let stopped = Workers { children: Vec::new() }.failed(0, failure, &events);
        assert_eq!(stopped.error.to_string(), "worker 0: worker 2 is lost");
        assert!(stopped.is_loss);
        drop(events);
        alive.join().unwrap();
    }

    #[test]
    fn silence_is_noticed_and_what_is_told_late_counts() {
        let (tell, events) = channel();
        let part = Duration::from_millis(20);
        let mut silence = Silence { part, next_part: Instant::now() + part, silent: vec![0, 0] };
        let address = Some(SocketAddr::from(([127, 0, 0, 1], 1)));
        for _ in 0..=PARTS {
            assert!(silence.next(&events).is_none());
        }
        assert!(silence.is_long(0, None) && !silence.is_long(0, address));
        // However long this process was away, what came meanwhile is seen before time passes.
        tell.send(Told { worker: 0, what: Happening::Event(Event::Alive) }).unwrap();
        std::thread::sleep(3 * part);
        assert!(silence.next(&events).is_some());
        assert!(!silence.is_long(0, None) && silence.is_long(1, None));
        while !silence.is_long(1, address) {
            assert!(silence.next(&events).is_none());
        }
        assert_eq!(silence.silent[1], PATIENCE * PARTS + 1);
    }
}
