//! `shuffle submit`: has a cluster do a job.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use clap::builder::BoolishValueParser;

use super::record::{JobRecord, State};
use super::store::{Store, now_ms};
use super::{Cluster, TIMEOUT};
use crate::how_far::Done;
use crate::job::Job;
use crate::progress::Progress;
use crate::report;

/// How often it is looked whether a job has ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// For how long a cluster may not say how a job is, before that is an error.
const UNSEEN_MAX: Duration = Duration::from_secs(60);

/// A wait that is not worth a word, in milliseconds.
const SILENT_MS: u64 = 2_000;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Submit {
    #[command(flatten)]
    cluster: Cluster,
    /// Whose share of the workers it has: pools share them equally
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = pool)]
    pool: String,
    /// Wait for its end, and print what comes out
    #[arg(long, value_parser = BoolishValueParser::new())]
    wait: bool,
    #[command(subcommand)]
    pub(crate) job: Job,
}

const POOL_NAME_MAX: usize = 64;

fn pool(text: &str) -> Result<String, String> {
    let is_name = (1..=POOL_NAME_MAX).contains(&text.len()) && !text.contains(char::is_control);
    is_name
        .then(|| text.to_owned())
        .ok_or_else(|| format!("not a name of up to {POOL_NAME_MAX} bytes"))
}

pub(crate) fn run(submit: &Submit) -> anyhow::Result<ExitCode> {
    let store = Store::open(&submit.cluster.cluster, TIMEOUT)?;
    let job = submit.job.clone().submitted_to(store.nodes_and(&submit.cluster.cluster));
    let words = job.command_line().into_iter().map(|word| word.into_string());
    let command = words.collect::<Result<Vec<_>, _>>().map_err(|word| {
        anyhow!("{} is no UTF-8, as what a cluster is told has to be", word.display())
    })?;
    let folder = std::env::current_dir().context("cannot see which folder this is")?;
    let folder = folder.into_os_string().into_string();
    let folder = folder.map_err(|folder| anyhow!("{} is no UTF-8", folder.display()))?;
    let common = submit.job.asked().common();
    let record = JobRecord {
        command,
        folder,
        pool: submit.pool.clone(),
        workers: common.workers,
        max_attempts: common.max_attempts,
        submitted_ms: now_ms(),
        state: State::Queued,
        is_cancelled: false,
        lost: Vec::new(),
        inputs: None,
    };
    let id = store.submit(&record)?;
    if submit.wait {
        return wait(&store, id, &submit.job);
    }
    let slots: usize = store.agents()?.iter().map(|(_, agent)| agent.slots).sum();
    if slots < common.workers {
        eprintln!(
            "shuffle: job {id} waits for {} workers: the agents that are there have room for {slots}",
            common.workers
        );
    }
    let text = if common.json {
        format!("{}\n", serde_json::json!({ "job": id }))
    } else {
        format!("{id}\n")
    };
    Ok(report::say(&text))
}

/// Waits until a job has ended, and prints what comes out.
fn wait(store: &Store, id: u64, job: &Job) -> anyhow::Result<ExitCode> {
    eprintln!("shuffle: job {id} is submitted");
    let (mut told, mut waits, mut unseen) = (0, None, None::<Instant>);
    let is_watched = std::io::stderr().is_terminal();
    let mut progress = Progress::default();
    loop {
        let Look { record, why, done } = match look(store, id, is_watched) {
            Ok(found) => found,
            // The job goes on without anybody who looks.
            Err(error) => {
                if unseen.is_none() {
                    let goes_on = format!("job {id} goes on if it can, and is looked for");
                    progress.say(&format!("shuffle: {error:#}: {goes_on}"));
                }
                if unseen.get_or_insert_with(Instant::now).elapsed() > UNSEEN_MAX {
                    return Err(error.context(format!("cannot see what became of job {id}")));
                }
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
        };
        unseen = None;
        let record = record.with_context(|| format!("job {id} is gone"))?;
        if let Some(why) = why
            && now_ms() > record.submitted_ms + SILENT_MS
            && waits.as_ref() != Some(&why)
        {
            progress.say(&format!("shuffle: job {id} waits for {why}"));
            waits = Some(why);
        }
        if record.lost.len() > told {
            // The next one begins anew.
            progress.clear();
        }
        for lost in &record.lost[told..] {
            progress.say(&format!("shuffle: job {id}: {}", lost.why));
        }
        told = record.lost.len();
        match record.state {
            State::Succeeded { outcome, unreported, .. } => {
                progress.finish();
                let code = report::print(&report::of(job, &outcome)?);
                // What came out is said in any case.
                let why = unreported.map(anyhow::Error::msg);
                return Ok(why.map_or(code, |error| report::complain(&error)));
            }
            State::Failed { error, .. } => bail!("job {id}: {error}"),
            State::Cancelled { .. } => bail!("job {id} was cancelled"),
            _ => {
                done.iter().for_each(|done| progress.draw(done));
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

/// A job, as one who waits for it sees it.
struct Look {
    record: Option<JobRecord>,
    /// Why it waits, if it does and somebody has said why.
    why: Option<String>,
    /// How far it is, if it runs, and somebody wants to know.
    done: Option<Done>,
}

fn look(store: &Store, id: u64, is_watched: bool) -> anyhow::Result<Look> {
    let record = store.job(id)?;
    let state = record.as_ref().map(|job| &job.state);
    let why = if let Some(State::Queued) = state { store.waits(id)? } else { None };
    let is_shown = is_watched && matches!(state, Some(State::Running(_)));
    let done = if is_shown { store.progress(id)? } else { None };
    Ok(Look { record, why, done })
}
