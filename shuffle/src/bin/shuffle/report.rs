//! What is printed in the end.

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use crate::event::Outcome;
use crate::job::{Asked, Job};

/// Prints what came out.
pub(crate) fn print(job: &Job, outcome: &Outcome) -> ExitCode {
    match text_of(job, outcome) {
        Ok(text) => say(&text),
        Err(error) => complain(&error),
    }
}

/// What came out, as the job was asked to print it.
pub(crate) fn text_of(job: &Job, outcome: &Outcome) -> anyhow::Result<String> {
    Ok(match (job, outcome) {
        (Job::Components(job), Outcome::Components(connected)) => job.report(connected),
        (Job::Join(job), Outcome::Join(joined)) => job.report(joined),
        (Job::Kmeans(job), Outcome::Kmeans(clustered)) => job.report(clustered),
        (Job::Pagerank(job), Outcome::Pagerank(ranked)) => job.report(ranked),
        (Job::Sort(job), Outcome::Sort(sorted)) => job.report(sorted),
        (Job::Wordcount(job), Outcome::Wordcount(counted)) => job.report(counted),
        _ => anyhow::bail!("the workers did another job"),
    })
}

/// What is printed of what a job came to: an object for scripts, if it was asked for that, and else a text.
pub(crate) fn either(
    job: &impl Asked,
    object: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> String {
    if job.common().json { format!("{}\n", object()) } else { text() }
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
