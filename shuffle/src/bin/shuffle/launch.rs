//! One attempt at a job: starts the workers, tells them of one another, and ends all when one ends early.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use rustix::process::Signal;
use weft_shuffle::CheckpointPlace;

use crate::account::Account;
use crate::args::Common;
use crate::event::{Event, Failure, Outcome};
use crate::job::Job;
use crate::onlooker::Onlooker;
use crate::process::{End, Launcher, Process};
use crate::site::Site;
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
    pub(crate) site: Box<Site>,
}

impl From<anyhow::Error> for Stopped {
    fn from(error: anyhow::Error) -> Self {
        Self { error, is_loss: false, site: Box::default() }
    }
}

/// Runs an attempt at the job to its end: when it returns, no worker is left. `kept` is where workers keep what the next attempt goes on with.
pub(crate) fn run(
    job: &Job,
    attempt: u32,
    kept: Option<&CheckpointPlace>,
    launcher: &Launcher,
    onlooker: Onlooker,
    account: &mut Account,
) -> Result<Outcome, Stopped> {
    let common = job.asked().common();
    // A report says what was counted of stages that a worker had no time to tell of.
    let is_shown = onlooker.is_there() || account.is_asked_for();
    let arguments = |worker| job.worker_arguments(worker, attempt, kept, is_shown);
    let (mut workers, events) = Workers::start(common.workers, launcher, arguments)?;
    workers.watch(common, &events, onlooker, account).map_err(|stopped| {
        let mut site = Site { attempt, ..*stopped.site };
        if let Some(worker) = site.worker {
            site = site.or_at(account.last_look(worker));
            workers.processes.get(worker).inspect(|process| process.locate(&mut site));
        }
        Stopped { site: Box::new(site), ..stopped }
    })
}

/// Processes that end with this value.
struct Workers {
    processes: Vec<Process>,
}

/// What one worker did.
pub(crate) struct Told {
    pub(crate) worker: usize,
    pub(crate) what: Happening,
}

pub(crate) enum Happening {
    Event(Event),
    /// A line that is no event: kept for the message.
    Noise(String),
    /// Its output has ended, and with it the process, or soon.
    Ended,
    /// Nothing of the worker's: somebody wants the job to end.
    Cancelled,
}

impl Told {
    /// What a line of a worker's output says.
    pub(crate) fn of_line(worker: usize, line: String) -> Told {
        let what = match serde_json::from_str(&line) {
            Ok(event) => Happening::Event(event),
            Err(_) => Happening::Noise(line),
        };
        Told { worker, what }
    }
}

impl Workers {
    fn start(
        count: usize,
        launcher: &Launcher,
        arguments: impl Fn(usize) -> Vec<OsString>,
    ) -> anyhow::Result<(Self, Receiver<Told>)> {
        let (tell, events) = channel();
        launcher.listen(&tell);
        let secret: u128 = rand::random();
        let mut workers = Self { processes: Vec::with_capacity(count) };
        for worker in 0..count {
            let mut process = launcher.start(worker, arguments(worker), tell.clone())?;
            // Not on the command line, which everybody on the machine can read.
            process.tell(&format!("{secret:032x}"));
            workers.processes.push(process);
        }
        Ok((workers, events))
    }

    fn watch(
        &mut self,
        job: &Common,
        events: &Receiver<Told>,
        mut onlooker: Onlooker,
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
                    onlooker.tell(worker, phase, done);
                }
                Happening::Event(Event::Now(now)) => {
                    account.look(worker, now.clone());
                    onlooker.look(worker, now);
                }
                Happening::Event(Event::Told(told)) => account.tell(worker, *told),
                Happening::Event(Event::Done(done)) => {
                    onlooker.finish();
                    outcome = Some(done);
                }
                Happening::Event(Event::Failed(failure)) => {
                    return Err(self.failed(worker, failure, events, account));
                }
                Happening::Noise(line) => eprintln!("worker {worker}: {line}"),
                Happening::Cancelled => return Err(anyhow!("the job was cancelled").into()),
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
        let (name, seconds) = (self.processes[worker].name(), job.hang_timeout);
        let error = match address {
            None => anyhow!("no address for {seconds} s from worker {worker} ({name})"),
            Some(_) => {
                let seconds = seconds * u64::from(PATIENCE);
                anyhow!("worker {worker} ({name}) hangs: it has told nothing for {seconds} s")
            }
        };
        Stopped { error, is_loss: true, site: Box::new(Site::of_worker(worker)) }
    }

    /// Tells every worker where all are.
    fn introduce(&mut self, addresses: &[SocketAddr]) {
        let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let line = texts.join(" ");
        self.processes.iter_mut().for_each(|process| process.tell(&line));
    }

    /// A worker has failed: names the one that failed first, which may be another, whose end this one
    /// was the first to notice.
    fn failed(
        &mut self,
        worker: usize,
        failure: Failure,
        events: &Receiver<Told>,
        account: &mut Account,
    ) -> Stopped {
        let is_consequence = failure.is_consequence;
        let mut first = self.failure_of(worker, failure);
        if !is_consequence {
            return first;
        }
        // Whoever only says that it is alive, or how far, has said nothing better.
        let deadline = Instant::now() + LAST_WORDS;
        loop {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Told { worker, what: Happening::Event(Event::Failed(other)) }) => {
                    if !other.is_consequence {
                        return self.failure_of(worker, other);
                    }
                    // Who stops because of another one says so, and not what that one has met.
                    first.is_loss |= other.is_loss;
                }
                Ok(Told { worker, what: Happening::Ended }) => {
                    // Who fails ends by itself, and those that it told do.
                    if let Ok(Some(fate)) = self.fate(worker)
                        && fate.is_violent()
                    {
                        return fate.into();
                    }
                }
                Ok(Told { worker, what: Happening::Event(Event::Told(told)) }) => {
                    account.tell(worker, *told);
                }
                Ok(Told { worker, what: Happening::Event(Event::Now(now)) }) => {
                    account.look(worker, now);
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return first,
            }
        }
    }

    /// What a worker has told of its end: where it was, and of which worker it is, if it has only noticed it.
    fn failure_of(&self, worker: usize, failure: Failure) -> Stopped {
        let Failure { is_loss, about, stage, text, .. } = failure;
        let place = |worker: usize| {
            let process = self.processes.get(worker).filter(|process| process.is_elsewhere());
            process.map(|process| process.name())
        };
        let mut error = match place(worker) {
            Some(place) => format!("worker {worker} ({place}): {text}"),
            None => format!("worker {worker}: {text}"),
        };
        if let Some((about, place)) = about.and_then(|about| Some((about, place(about)?))) {
            error += &format!("; worker {about} is {place}");
        }
        let mut site = Site::of_worker(about.unwrap_or(worker));
        site.told_by = about.map(|_| worker);
        if let Some((stage, verb)) = stage {
            site = site.in_stage(stage, &verb);
        }
        Stopped { error: anyhow!(error), is_loss, site: Box::new(site) }
    }

    /// How the process of a worker ended that has ended, unless its part is done.
    fn fate(&mut self, worker: usize) -> anyhow::Result<Option<Fate>> {
        let process = &mut self.processes[worker];
        let end = process.end().with_context(|| format!("cannot see how worker {worker} ended"))?;
        let is_done = matches!(end, End::Exited(status) if status.success());
        Ok((!is_done).then(|| Fate { worker, process: process.name(), end }))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // All at once; each is waited for when it is dropped.
        self.processes.iter_mut().for_each(Process::kill);
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
    process: String,
    end: End,
}

impl Fate {
    /// Whether it cannot have failed by itself.
    fn is_violent(&self) -> bool {
        match self.end {
            End::Exited(status) => status.signal().is_some(),
            End::Gone(_) => true,
        }
    }
}

impl From<Fate> for Stopped {
    fn from(Fate { worker, process, end }: Fate) -> Self {
        let (how, is_loss) = match end {
            End::Exited(status) => of_status(status),
            End::Gone(why) => (format!("is lost: {why}"), true),
        };
        let error = anyhow!("worker {worker} ({process}) {how}");
        Self { error, is_loss, site: Box::new(Site::of_worker(worker)) }
    }
}

/// What a status says, and whether another attempt may have another.
fn of_status(status: ExitStatus) -> (String, bool) {
    match (status.signal(), status.code()) {
        (Some(signal), _) if OWN_FAULTS.contains(&signal) => {
            (format!("ended by its own fault, signal {signal}: the job stops"), false)
        }
        (Some(signal), _) => (format!("was killed by signal {signal}"), true),
        (None, Some(code)) => (format!("ended with exit code {code}: the job stops"), false),
        (None, None) => ("ended: the job stops".to_owned(), false),
    }
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
        let (about, stage) = (Some(2), Some((3, "join".to_owned())));
        let failure = Failure { is_consequence: true, is_loss: true, about, stage, text };
        let mut account = Account::of_nothing(1);
        let stopped = Workers { processes: Vec::new() }.failed(0, failure, &events, &mut account);
        assert_eq!(stopped.error.to_string(), "worker 0: worker 2 is lost");
        assert!(stopped.is_loss);
        let Site { worker, told_by, stage, partition, .. } = *stopped.site;
        assert_eq!((worker, told_by), (Some(2), Some(0)));
        assert_eq!((stage, partition), (Some(3), Some(2)));
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
