//! What is printed in the end.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use crate::event::Outcome;
use crate::job::{Asked, Job};

/// What is said of what a job came to.
pub(crate) struct Said {
    /// For scripts: docs/cli.md.
    pub(crate) object: Value,
    /// For people.
    pub(crate) text: String,
    /// Which of the two is printed.
    is_json: bool,
}

/// What is said of what came out.
pub(crate) fn of(job: &Job, outcome: &Outcome) -> anyhow::Result<Said> {
    let said = match (job, outcome) {
        (Job::Components(job), Outcome::Components(connected)) => job.report(connected),
        (Job::Join(job), Outcome::Join(joined)) => job.report(joined),
        (Job::Kmeans(job), Outcome::Kmeans(clustered)) => job.report(clustered),
        (Job::Pagerank(job), Outcome::Pagerank(ranked)) => job.report(ranked),
        (Job::Sort(job), Outcome::Sort(sorted)) => job.report(sorted),
        (Job::Wordcount(job), Outcome::Wordcount(counted)) => job.report(counted),
        _ => bail!("the workers did another job"),
    };
    Ok(said)
}

/// What is said of what a job came to: an object for scripts, which is printed if that was asked for, and else a text.
pub(crate) fn either(
    job: &impl Asked,
    object: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> Said {
    Said { object: object(), text: text(), is_json: job.common().json }
}

/// Prints what came out.
pub(crate) fn print(said: &Said) -> ExitCode {
    if said.is_json { say(&format!("{}\n", said.object)) } else { say(&said.text) }
}

/// Prints a text.
pub(crate) fn say(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&anyhow::Error::new(error).context("cannot print the result")),
    }
}

/// Prints why there is nothing to print.
pub(crate) fn complain(error: &anyhow::Error) -> ExitCode {
    // If standard error is gone too, the exit code still tells.
    let _ = writeln!(std::io::stderr(), "shuffle: {error:#}");
    ExitCode::FAILURE
}
