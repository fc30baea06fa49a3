//! The process that drives one attempt at a job of a cluster: started by an agent, which it does not outlive.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weft_shuffle::CheckpointPlace;

use super::fleet::{Fleet, Known, Place};
use super::record::{Attempt, JobRecord, State};
use super::store::{Store, now_ms};
use crate::account::{self, Account};
use crate::args::Args;
use crate::checkpointing::Checkpointing;
use crate::event::Outcome;
use crate::how_far::HowFar;
use crate::inputs::state_of_inputs;
use crate::job::{Asked, Job};
use crate::launch::{self, Stopped};
use crate::onlooker::Onlooker;
use crate::process::Launcher;
use crate::report;
use crate::site::{Site, in_attempt};

/// How long an operation of the store may take: nodes may have to change roles meanwhile.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How often a driver looks whether the job is still its own, and says how far that is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What a driver is told by its standard input, which ends with the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) cluster: Vec<String>,
    pub(crate) job: u64,
    pub(crate) attempt: u32,
    pub(crate) secret: u128,
    /// The agent that has started this driver.
    pub(crate) driver: Place,
    /// By worker.
    pub(crate) places: Vec<Place>,
}

/// What a driver's own thread looks after.
struct Look {
    /// The driver is about to write down how the attempt ended, or the job was over when it began.
    is_over: AtomicBool,
    store: Store,
    job: u64,
    attempt: u32,
    known: Arc<Known>,
    how_far: Mutex<Option<Arc<Mutex<HowFar>>>>,
}

pub(crate) fn run() -> ExitCode {
    let driven = order().and_then(|order| drive(&order));
    match driven {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The agent sees that it has ended, and that the job has not.
            eprintln!("shuffle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn order() -> anyhow::Result<Order> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let order = serde_json::from_str(&line).context("drivers are started by shuffle agent")?;
    std::thread::spawn(|| {
        // Whatever comes, an end or an error, the agent is gone.
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        std::process::exit(1);
    });
    std::thread::spawn(say_alive);
    Ok(order)
}

fn drive(order: &Order) -> anyhow::Result<()> {
    let store = Store::open(&order.cluster, TIMEOUT)?;
    let record = store.job(order.job)?.context("the job is gone")?;
    let (known, how_far) = (Arc::default(), Mutex::default());
    let (job, attempt) = (order.job, order.attempt);
    let is_over = AtomicBool::new(record.is_ended());
    let look = Arc::new(Look { is_over, store: store.clone(), job, attempt, known, how_far });
    {
        let look = Arc::clone(&look);
        std::thread::spawn(move || look.run());
    }
    let job = match parse(&record, order.job, order.attempt) {
        Ok(job) => job,
        Err(error) => return fail(&look, order, error.into()).map(drop),
    };
    if record.is_ended() {
        return tidy_up(order, &record);
    }
    if let State::Finishing { outcome, .. } = &record.state {
        // Its driver was lost, and with it what workers had told: the report has the attempts, and what came out.
        account::remove_parts(&job);
        let account = account(&record, &job).map(|mut account| {
            account.begin_attempt(order.attempt);
            account.end_attempt(&Ok(()));
            account
        });
        return finish(&look, order, &job, outcome.clone(), account, true);
    }
    let mut account = match account(&record, &job) {
        Ok(account) => account,
        Err(error) => return fail(&look, order, error.into()).map(drop),
    };
    account.begin_attempt(order.attempt);
    let done = attempt_it(&look, order, &record, &job, &mut account);
    account.end_attempt(&done);
    match done {
        Ok(outcome) => finish(&look, order, &job, outcome, Ok(account), false),
        Err(stopped) => {
            // What it made is of no use; why it failed is told.
            let _ = job.asked().end(false);
            if let Some(error) = fail(&look, order, stopped)? {
                return account.end(&job, Err(&anyhow!(error)));
            }
            account.discard();
            Ok(())
        }
    }
}

/// The account of what workers do, with the attempts before this one.
fn account(record: &JobRecord, job: &Job) -> anyhow::Result<Account> {
    let since = |ms: u64| ms.saturating_sub(record.submitted_ms) as f64 / 1000.0;
    let waited = Duration::from_millis(now_ms().saturating_sub(record.submitted_ms));
    let mut account = Account::begin(job, record.command.clone(), waited)?;
    for lost in &record.lost {
        let (began, ended) = (since(lost.began_ms), since(lost.ended_ms));
        account.lost_before((began, ended - began), lost.why.clone(), lost.site.clone());
    }
    Ok(account)
}

/// The attempt came to nothing. Why the job has failed, or was cancelled, if it is over by that.
fn fail(look: &Look, order: &Order, stopped: Stopped) -> anyhow::Result<Option<String>> {
    let Stopped { error, is_loss, site } = stopped;
    let (error, site) = (format!("{error:#}"), order.site(*site));
    look.is_over.store(true, Ordering::Relaxed);
    let changed = look.store.change(order.job, |job| {
        let is_own = job.is_at(order.attempt);
        if is_own && job.is_cancelled {
            job.state = State::Cancelled { ended_ms: now_ms() };
        } else if is_own && is_loss {
            job.lose(error.clone(), site.clone(), now_ms());
        } else if is_own {
            let (error, site) = (order.named(&error, job.max_attempts, &site), Some(site.clone()));
            job.state = State::Failed { ended_ms: now_ms(), error, site };
        }
        is_own
    })?;
    let ended = changed.filter(|(job, is_own)| *is_own && job.is_ended());
    Ok(ended.map(|(job, _)| match job.state {
        State::Failed { error, .. } => error,
        _ => error,
    }))
}

impl Order {
    /// Where something went wrong: what was no worker's is this driver's.
    fn site(&self, site: Site) -> Site {
        let mut site = Site { attempt: self.attempt, ..site };
        if site.worker.is_none() {
            self.driver.locate(&mut site);
            site.process = Some(std::process::id());
        }
        site
    }

    /// Why the job has failed, with the attempt, and the agent if it was no worker's.
    fn named(&self, error: &str, max_attempts: u32, site: &Site) -> String {
        let error = match site.worker {
            Some(_) => error.to_owned(),
            None => format!("agent {} at {}: {error}", self.driver.agent, self.driver.address),
        };
        in_attempt(&error, self.attempt, max_attempts)
    }
}

/// The job, as workers of the attempt are told.
fn parse(record: &JobRecord, id: u64, attempt: u32) -> anyhow::Result<Job> {
    let part = format!("--part=job{id}-{attempt}");
    Args::job_of(record.command.iter().map(String::as_str).chain([part.as_str()]))
}

/// The job is over, and whoever drove its last attempt was lost: removes what that has left behind, and writes the report.
fn tidy_up(order: &Order, record: &JobRecord) -> anyhow::Result<()> {
    remove_left(record, order, order.attempt + 1);
    let why = match &record.state {
        State::Failed { error, .. } => anyhow!("{error}"),
        _ => anyhow!("the job was cancelled"),
    };
    let job = parse(record, order.job, order.attempt)?;
    account(record, &job)?.end(&job, Err(&why))
}

/// Removes what attempts before this one have left behind: whoever drove them may have been killed before it could.
fn remove_left(record: &JobRecord, order: &Order, before: u32) {
    for attempt in 1..before {
        if let Ok(job) = parse(record, order.job, attempt) {
            let _ = job.asked().end(false);
            account::remove_parts(&job);
        }
    }
}

/// Has the workers work.
fn attempt_it(
    look: &Look,
    order: &Order,
    record: &JobRecord,
    job: &Job,
    account: &mut Account,
) -> Result<Outcome, Stopped> {
    let asked = job.asked();
    remove_left(record, order, order.attempt);
    let phases = asked.prepare()?;
    check_inputs(look, asked)?;
    let how_far = Arc::new(Mutex::new(HowFar::new(phases, record.workers)));
    *look.how_far.lock() = Some(Arc::clone(&how_far));
    let folder = record.folder.clone();
    let places = order.places.clone();
    let is_lost = |error| Stopped { error, is_loss: true, site: Box::default() };
    if places.len() != record.workers {
        return Err(is_lost(anyhow!("an agent is gone that was to have a worker")));
    }
    let number = (order.job, order.attempt);
    let fleet = Fleet::connect(order.secret, number, folder, places, Arc::clone(&look.known));
    let launcher = Launcher::Cluster(fleet.map_err(is_lost)?);
    let every = asked.checkpoints().and_then(Checkpointing::every);
    let (cluster, id) = (order.cluster.clone(), order.job.to_string());
    let kept = every.map(|_| CheckpointPlace::Table { cluster, job: id });
    let onlooker = Onlooker::Reader(how_far);
    launch::run(job, order.attempt, kept.as_ref(), &launcher, onlooker, account)
}

/// What attempts before have kept is of what they read.
fn check_inputs(look: &Look, asked: &dyn Asked) -> anyhow::Result<()> {
    let inputs = state_of_inputs(asked);
    let changed = look.store.change(look.job, |job| {
        let is_first = job.inputs.is_none();
        job.inputs.get_or_insert_with(|| inputs.clone());
        is_first
    })?;
    let (job, _) = changed.context("the job is gone")?;
    anyhow::ensure!(
        job.inputs == Some(inputs),
        "an input has changed since the first attempt began: the job stops"
    );
    Ok(())
}

/// All workers are done: what they made gets its name, once it is written down that it does, and then the report. Of one that is taken over, another driver was lost meanwhile.
fn finish(
    look: &Look,
    order: &Order,
    job: &Job,
    outcome: Outcome,
    account: anyhow::Result<Account>,
    is_taken_over: bool,
) -> anyhow::Result<()> {
    look.is_over.store(true, Ordering::Relaxed);
    let (store, asked) = (&look.store, job.asked());
    let changed = store.change(order.job, |job| match &job.state {
        State::Running(attempt) if attempt.number == order.attempt => {
            job.state = if job.is_cancelled {
                State::Cancelled { ended_ms: now_ms() }
            } else {
                State::Finishing { attempt: Attempt::clone(attempt), outcome: outcome.clone() }
            };
            true
        }
        _ => false,
    })?;
    let (record, _) = changed.context("the job is gone")?;
    let is_own = matches!(&record.state, State::Finishing { attempt, .. } if attempt.number == order.attempt);
    if !is_own {
        account.iter().for_each(Account::discard);
        return asked.end(false);
    }
    let named = match asked.end(true) {
        // Whoever drove it before has come so far.
        Err(error) if is_taken_over && is_not_found(&error) => Ok(()),
        other => other,
    };
    let reported = report::of(job, &outcome).and_then(|said| account?.end(job, Ok(&said.object)));
    let unreported = reported.err().map(|error| format!("{error:#}"));
    let ended_ms = now_ms();
    store.change(order.job, |job| {
        let is_own = job.is_at(order.attempt);
        if is_own {
            job.state = match &named {
                Ok(()) => {
                    let (outcome, unreported) = (outcome.clone(), unreported.clone());
                    State::Succeeded { attempt: order.attempt, ended_ms, outcome, unreported }
                }
                Err(error) => {
                    let site = order.site(Site::default());
                    let error = order.named(&format!("{error:#}"), job.max_attempts, &site);
                    State::Failed { ended_ms, error, site: Some(site) }
                }
            };
        }
        is_own
    })?;
    Ok(())
}

fn is_not_found(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    let errno = error.downcast_ref::<rustix::io::Errno>();
    kind == Some(std::io::ErrorKind::NotFound) || errno == Some(&rustix::io::Errno::NOENT)
}

/// Says now and then that this process is not stopped, whether the store answers or not. Without an agent to hear it, the end of standard input ends this process.
fn say_alive() {
    loop {
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "alive").and_then(|()| stdout.flush());
        drop(stdout);
        std::thread::sleep(LOOK_EVERY);
    }
}

impl Look {
    /// Looks, until the process ends.
    fn run(&self) {
        let mut told = None;
        loop {
            match self.store.job(self.job) {
                Ok(Some(job)) if job.is_at(self.attempt) => {
                    if job.is_cancelled {
                        self.known.cancel();
                    }
                }
                // Another attempt has begun, or the job is over: the agents end what is left when this process has.
                Ok(_) if !self.is_over.load(Ordering::Relaxed) => std::process::exit(1),
                Ok(_) => {}
                // The store may come back, and the workers go on meanwhile.
                Err(_) => {}
            }
            let done = self.how_far.lock().as_ref().and_then(|how_far| how_far.lock().now());
            if let Some(done) = &done
                && told.as_ref() != Some(done)
                && self.store.tell_progress(self.job, done).is_ok()
            {
                told = Some(done.clone());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
