//! The account of a job that `--report` asks for: what its workers did, stage by stage, whether it came to its end or not.
//!
//! # Layout
//! - `told`: what a worker tells; `merged`: what all have told, by stage.
//! - `object`: it as JSON; `page`: it as one page to look at.
//! - `wall_clock`: when it was.

mod merged;
mod object;
mod page;
mod told;
mod wall_clock;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::merged::skew;
use self::merged::{Known, Merged};
pub(crate) use self::told::Told;
use crate::args::Common;
use crate::event::Now;
use crate::job::{Asked, Job};
use crate::launch::Stopped;
use crate::output_file::OutputFile;
use crate::site::Site;

/// What is known of a job, while it runs.
pub(crate) struct Account {
    /// Where it is written, if it is.
    files: Option<Files>,
    /// What the job was asked for by.
    arguments: Vec<String>,
    started: SystemTime,
    /// How long the job had been asked for by then.
    before: Duration,
    began: Instant,
    attempts: Vec<Attempt>,
    /// What the workers of the last attempt have told.
    told: Vec<Option<Told>>,
    /// What they were doing when they said so last.
    looks: Vec<Option<Now>>,
}

/// The two files of an account.
struct Files {
    json: PathBuf,
    html: PathBuf,
    /// Of which attempt, where several could be under way.
    attempt: Option<String>,
}

/// An attempt, in seconds from when the command began.
#[derive(Clone, Debug, Serialize)]
struct Attempt {
    attempt: u32,
    began: f64,
    seconds: f64,
    end: End,
    error: Option<String>,
    /// Where it went wrong, if it did.
    failure: Option<Site>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// The job is done.
    Done,
    /// A worker was lost.
    Lost,
    /// The job has failed.
    Failed,
}

/// What an account says in the end.
struct Whole<'a> {
    job: &'a str,
    arguments: &'a [String],
    started: String,
    seconds: f64,
    error: Option<String>,
    attempts: &'a [Attempt],
    told: &'a [Option<Told>],
    merged: Merged,
    result: Option<&'a Value>,
}

/// What no single value can show: an account must not take the place of an input.
pub(crate) fn check(asked: &dyn Asked) -> Result<(), String> {
    let Some(path) = &asked.common().report else { return Ok(()) };
    let files = Files::of(path, asked.common());
    let both = files.both();
    let inputs = asked.inputs();
    let mut pairs = both.iter().flat_map(|file| inputs.iter().map(move |input| (file, input)));
    pairs.try_for_each(|(file, input)| file.check_input("--report", "an input,", input))
}

/// Removes what an attempt has left behind of its account.
pub(crate) fn remove_parts(job: &Job) {
    let common = job.asked().common();
    if let Some(path) = &common.report {
        // There may be nothing.
        let _ = Files::of(path, common).both().map(|file| file.end(false));
    }
}

impl Account {
    /// Begins one, of a job that was asked for by these arguments, so long ago. Looks whether it can be written, if it is to be.
    pub(crate) fn begin(
        job: &Job,
        arguments: Vec<String>,
        since: Duration,
    ) -> anyhow::Result<Account> {
        let common = job.asked().common();
        let files = common.report.as_deref().map(|path| Files::of(path, common));
        if let Some(files) = &files {
            files.prepare()?;
        }
        Ok(Account {
            files,
            arguments,
            started: SystemTime::now() - since,
            before: since,
            began: Instant::now(),
            attempts: Vec::new(),
            told: vec![None; common.workers],
            looks: vec![None; common.workers],
        })
    }

    /// One that is not written.
    #[cfg(test)]
    pub(crate) fn of_nothing(workers: usize) -> Account {
        Account {
            files: None,
            arguments: Vec::new(),
            started: SystemTime::UNIX_EPOCH,
            before: Duration::ZERO,
            began: Instant::now(),
            attempts: Vec::new(),
            told: vec![None; workers],
            looks: vec![None; workers],
        }
    }

    /// Whether it is to be written.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.files.is_some()
    }

    /// An attempt was lost before this account began: `began` and `seconds` as in it, from when the job was asked for.
    pub(crate) fn lost_before(
        &mut self,
        (began, seconds): (f64, f64),
        error: String,
        failure: Option<Site>,
    ) {
        let (attempt, error) = (self.attempts.len() as u32 + 1, Some(error));
        self.attempts.push(Attempt { attempt, began, seconds, end: End::Lost, error, failure });
    }

    /// It is not written: another one will be.
    pub(crate) fn discard(&self) {
        if let Some(files) = &self.files {
            // Nobody looks for it.
            let _ = files.both().map(|file| file.end(false));
        }
    }

    /// Since the job was asked for.
    fn seconds(&self) -> f64 {
        (self.before + self.began.elapsed()).as_secs_f64()
    }

    /// An attempt begins.
    pub(crate) fn begin_attempt(&mut self, attempt: u32) {
        let began = self.seconds();
        let (seconds, end, error, failure) = (0.0, End::Failed, None, None);
        self.attempts.push(Attempt { attempt, began, seconds, end, error, failure });
        self.told.fill(None);
        self.looks.fill(None);
    }

    /// A worker says what it is doing.
    pub(crate) fn look(&mut self, worker: usize, now: Now) {
        self.looks[worker] = Some(now);
    }

    /// What it was doing when it said so last.
    pub(crate) fn last_look(&self, worker: usize) -> Option<&Now> {
        self.looks.get(worker)?.as_ref()
    }

    /// A worker has told what it did.
    pub(crate) fn tell(&mut self, worker: usize, told: Told) {
        self.told[worker] = Some(told);
    }

    /// The attempt has ended.
    pub(crate) fn end_attempt<T>(&mut self, done: &Result<T, Stopped>) {
        let now = self.seconds();
        let Some(attempt) = self.attempts.last_mut() else { return };
        attempt.seconds = now - attempt.began;
        let Err(Stopped { error, is_loss, site }) = done else {
            attempt.end = End::Done;
            return;
        };
        attempt.end = if *is_loss { End::Lost } else { End::Failed };
        attempt.error = Some(format!("{error:#}"));
        attempt.failure = Some(Site::clone(site));
    }

    /// Writes it, if it is to be written: with what came out, or why nothing did.
    pub(crate) fn end(
        &self,
        job: &Job,
        result: Result<&Value, &anyhow::Error>,
    ) -> anyhow::Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let whole = Whole {
            job: job.name(),
            arguments: &self.arguments,
            started: wall_clock::rfc_3339(self.started),
            seconds: self.seconds(),
            error: result.err().map(|error| format!("{error:#}")),
            attempts: &self.attempts,
            told: &self.told,
            merged: Merged::of(&Known {
                told: &self.told,
                looks: &self.looks,
                failed: self.attempts.last().and_then(|attempt| attempt.failure.as_ref()?.stage),
            }),
            result: result.ok(),
        };
        files.write(&format!("{:#}\n", object::of(&whole)), &page::of(&whole))
    }
}

impl Files {
    fn of(path: &Path, common: &Common) -> Files {
        let named = |ending: &str| {
            let mut name = OsString::from(path);
            name.push(ending);
            PathBuf::from(name)
        };
        Files { json: named(".json"), html: named(".html"), attempt: common.part.clone() }
    }

    fn both(&self) -> [OutputFile<'_>; 2] {
        let attempt = self.attempt.as_deref();
        [&self.json, &self.html].map(|path| OutputFile::of_attempt(path, attempt))
    }

    /// Looks whether both can be written; leaves nothing if they cannot.
    fn prepare(&self) -> anyhow::Result<()> {
        let [json, html] = self.both();
        json.prepare()?;
        html.prepare().inspect_err(|_| drop(json.end(false)))
    }

    /// Both, or neither.
    fn write(&self, json: &str, html: &str) -> anyhow::Result<()> {
        let texts = [json, html];
        let written = self.both().iter().zip(texts).try_for_each(|(file, text)| {
            let mut out = file.create()?;
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            written.with_context(|| file.cannot_write())
        });
        let is_whole = written.is_ok();
        let [json, html] = self.both().map(|file| file.end(is_whole));
        written.and(json).and(html)
    }
}
