//! `shuffle job` and `shuffle agents`: what a cluster has to do, and who does it.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use clap::builder::BoolishValueParser;
use serde_json::{Value, json};

use super::record::{JobRecord, State};
use super::store::{Store, now_ms};
use super::{Cluster, TIMEOUT};
use crate::args::Args;
use crate::event::Outcome;
use crate::how_far::Done;
use crate::report::{self, Said, say};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Jobs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// All jobs that are remembered, the newest last
    Ls(Shown),
    /// How far a job is, and what came out
    Show(One),
    /// Have a job end
    Cancel(One),
}

/// What is printed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Shown {
    #[command(flatten)]
    cluster: Cluster,
    /// Print JSON
    #[arg(long, value_parser = BoolishValueParser::new())]
    json: bool,
}

#[derive(Clone, Debug, clap::Args)]
struct One {
    /// Its number
    #[arg(value_name = "JOB")]
    id: u64,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(jobs: &Jobs) -> anyhow::Result<ExitCode> {
    match &jobs.what {
        What::Ls(shown) => list(shown),
        What::Show(one) => show(one),
        What::Cancel(one) => cancel(one),
    }
}

fn list(shown: &Shown) -> anyhow::Result<ExitCode> {
    let jobs = Store::open(&shown.cluster.cluster, TIMEOUT)?.jobs()?;
    if shown.json {
        let jobs: Vec<_> = jobs.iter().map(|(id, job)| summary(*id, job)).collect();
        return Ok(say(&format!("{}\n", Value::from(jobs))));
    }
    let mut rows =
        vec![["JOB", "STATE", "POOL", "WORKERS", "LOST", "SECONDS", "COMMAND"].map(str::to_owned)];
    rows.extend(jobs.iter().map(|(id, job)| {
        [
            id.to_string(),
            job.state_name().to_owned(),
            job.pool.clone(),
            job.workers.to_string(),
            job.lost.len().to_string(),
            format!("{:.1}", seconds(job)),
            job.command.join(" "),
        ]
    }));
    Ok(say(&table(&rows)))
}

/// `shuffle agents`.
pub(crate) fn agents(shown: &Shown) -> anyhow::Result<ExitCode> {
    let store = Store::open(&shown.cluster.cluster, TIMEOUT)?;
    let (agents, jobs) = (store.agents()?, store.open_jobs()?);
    let taken = |id: &_| {
        let places =
            jobs.iter().filter_map(|(_, job)| job.attempt()).flat_map(|attempt| &attempt.places);
        places.filter(|place| *place == id).count()
    };
    if shown.json {
        let object = |(id, agent): &(super::record::AgentId, super::store::AgentRow)| {
            json!({
                "agent": id.0,
                "address": agent.address,
                "slots": agent.slots,
                "slots_taken": taken(id),
                "build": agent.build,
                "process": agent.process,
            })
        };
        return Ok(say(&format!(
            "{}\n",
            Value::from(agents.iter().map(object).collect::<Vec<_>>())
        )));
    }
    let mut rows = vec![["AGENT", "ADDRESS", "SLOTS", "TAKEN", "BUILD"].map(str::to_owned)];
    rows.extend(agents.iter().map(|(id, agent)| {
        let slots = agent.slots.to_string();
        [id.0.to_string(), agent.address.clone(), slots, taken(id).to_string(), agent.build.clone()]
    }));
    Ok(say(&table(&rows)))
}

fn show(one: &One) -> anyhow::Result<ExitCode> {
    let store = Store::open(&one.shown.cluster.cluster, TIMEOUT)?;
    let job = store.job(one.id)?.with_context(|| format!("there is no job {}", one.id))?;
    let told = Told { progress: store.progress(one.id)?, waits: store.waits(one.id)? };
    let text = if one.shown.json {
        format!("{}\n", object(one.id, &job, &told)?)
    } else {
        text(one.id, &job, &told)?
    };
    Ok(say(&text))
}

fn cancel(one: &One) -> anyhow::Result<ExitCode> {
    let store = Store::open(&one.shown.cluster.cluster, TIMEOUT)?;
    let changed = store.change(one.id, |job| job.cancel(now_ms()))?;
    let (job, changed) = changed.with_context(|| format!("there is no job {}", one.id))?;
    if !changed {
        bail!("job {} is over: it is {}", one.id, job.state_name());
    }
    let text = match job.is_ended() {
        true => format!("job {} is cancelled\n", one.id),
        false => format!("job {} ends\n", one.id),
    };
    let object = json!({ "job": one.id, "state": job.state_name(), "is_cancelled": true });
    Ok(say(&if one.shown.json { format!("{object}\n") } else { text }))
}

/// What was said of a job while it was not over.
struct Told {
    progress: Option<Done>,
    waits: Option<String>,
}

/// What scripts are told of a job: docs/cli.md.
fn summary(id: u64, job: &JobRecord) -> Value {
    json!({
        "job": id,
        "state": job.state_name(),
        "pool": job.pool,
        "workers": job.workers,
        "command": job.command,
        "folder": job.folder,
        "submitted_ms": job.submitted_ms,
        "ended_ms": job.ended_ms(),
        "seconds": seconds(job),
        "is_cancelled": job.is_cancelled,
        "attempts_lost": job.lost.iter().map(|lost| lost.why.as_str()).collect::<Vec<_>>(),
        "losses": job.lost.iter().map(|lost| &lost.site).collect::<Vec<_>>(),
    })
}

fn object(id: u64, job: &JobRecord, told: &Told) -> anyhow::Result<Value> {
    let mut object = summary(id, job);
    if let Some(attempt) = job.attempt() {
        object["attempt"] = attempt.number.into();
        object["agents"] = attempt.places.iter().map(|place| place.0).collect();
        object["progress"] = serde_json::to_value(&told.progress)?;
    }
    match &job.state {
        State::Queued => object["waits_for"] = told.waits.as_deref().into(),
        State::Succeeded { attempt, outcome, unreported, .. } => {
            object["attempt"] = (*attempt).into();
            object["result"] = result(job, outcome)?.object;
            object["unreported"] = unreported.as_deref().into();
        }
        State::Failed { error, site, .. } => {
            object["error"] = error.as_str().into();
            object["failure"] = serde_json::to_value(site)?;
        }
        _ => {}
    }
    Ok(object)
}

fn text(id: u64, job: &JobRecord, told: &Told) -> anyhow::Result<String> {
    let mut text = format!(
        "job               {id}, {}\n\
         command           {}\n\
         folder            {}\n\
         pool              {}, {} workers\n\
         since submitted   {:.1} s\n",
        job.state_name(),
        job.command.join(" "),
        job.folder,
        job.pool,
        job.workers,
        seconds(job),
    );
    for (number, lost) in job.lost.iter().enumerate() {
        text += &format!("attempt {:<9} {}\n", number + 1, lost.why);
    }
    if let Some(attempt) = job.attempt() {
        let places: Vec<_> = attempt.places.iter().map(|place| place.0.to_string()).collect();
        text += &format!(
            "attempt {:<9} of {}, at {}\n",
            attempt.number,
            job.max_attempts,
            places.join(" ")
        );
        if let Some(Done { phase, unit, done, total, stage, .. }) = &told.progress {
            let of_total = if *total > 0 { format!(" of {total}") } else { String::new() };
            text += &format!("{phase:<17} {done}{of_total} {unit}\n");
            text += &format!("stage             {stage}\n");
        }
    }
    match &job.state {
        State::Queued => {
            let waits = told.waits.iter().map(|why| format!("waits for         {why}\n"));
            text += &waits.collect::<String>();
        }
        State::Succeeded { outcome, unreported, .. } => {
            let unreported = unreported.iter().map(|why| format!("no report         {why}\n"));
            text += &unreported.collect::<String>();
            text += "\n";
            text += &result(job, outcome)?.text;
        }
        State::Failed { error, site, .. } => {
            text += &format!("error             {error}\n");
            let site = site.iter().map(|site| format!("failed in         {site}\n"));
            text += &site.collect::<String>();
        }
        _ => {}
    }
    Ok(text)
}

/// What came out, as the job itself would say it.
fn result(job: &JobRecord, outcome: &Outcome) -> anyhow::Result<Said> {
    report::of(&Args::job_of(job.command.iter().map(String::as_str))?, outcome)
}

/// From its submission to its end, or until now.
fn seconds(job: &JobRecord) -> f64 {
    let until = job.ended_ms().unwrap_or_else(now_ms);
    until.saturating_sub(job.submitted_ms) as f64 / 1000.0
}

/// Columns of words, of which the last is as wide as it likes.
fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<_> =
            row.iter().zip(&widths).map(|(word, width)| format!("{word:<width$}")).collect();
        text += line.join("  ").trim_end();
        text += "\n";
    }
    text
}
