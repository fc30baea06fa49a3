//! The jobs, and what the program asks of each.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Subcommand;
use weft_shuffle::{CheckpointPlace, Worker};

use crate::args::{Common, WORKER};
use crate::checkpointing::Checkpointing;
use crate::components::Components;
use crate::how_far::Phase;
use crate::join::Join;
use crate::kmeans::Kmeans;
use crate::pagerank::Pagerank;
use crate::sort::Sort;
use crate::wordcount::Wordcount;
use crate::work::Needs;

/// What workers work on.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Job {
    /// Find which vertices of a graph can be reached from one another
    Components(Components),
    /// Bring pairs of two inputs together that have the same key
    Join(Join),
    /// Find centres that points lie near to (k-means)
    Kmeans(Kmeans),
    /// Rank the vertices of a graph by the edges that lead to them
    Pagerank(Pagerank),
    /// Put records of 100 bytes in the order of their keys, the first 10 (TeraSort)
    Sort(Sort),
    /// Count how often each word of a text is in it
    Wordcount(Wordcount),
}

/// A job, as it was asked for.
pub(crate) trait Asked {
    /// What every job has.
    fn common(&self) -> &Common;

    /// What no single value can show.
    fn check(&self) -> Result<(), String>;

    /// Looks whether it can be done, before any worker is started. Returns what will be done.
    fn prepare(&self) -> anyhow::Result<Vec<Phase>>;

    /// All workers have ended: what they made is whole, or of no use.
    fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        let _ = is_whole;
        Ok(())
    }

    /// The files that it reads.
    fn inputs(&self) -> Vec<&Path>;

    /// How it keeps its state for another attempt, if it has rounds.
    fn checkpoints(&self) -> Option<&Checkpointing> {
        None
    }

    /// What a worker has to be told.
    fn add_to(&self, flags: &mut Flags);

    /// What a worker has to have.
    fn needs(&self) -> Needs;

    /// A worker's part of the job; tells how far it is, if somebody looks.
    fn work(&self, worker: &Worker, report: bool) -> anyhow::Result<()>;
}

impl Job {
    /// Whichever it is.
    pub(crate) fn asked(&self) -> &dyn Asked {
        match self {
            Job::Components(job) => job,
            Job::Join(job) => job,
            Job::Kmeans(job) => job,
            Job::Pagerank(job) => job,
            Job::Sort(job) => job,
            Job::Wordcount(job) => job,
        }
    }

    /// The job, as the cluster with these nodes is to do it.
    pub(crate) fn submitted_to(self, nodes: Vec<String>) -> Job {
        match self {
            Job::Wordcount(job) => Job::Wordcount(job.submitted_to(nodes)),
            other => other,
        }
    }

    /// The job as it could be typed, behind the program's name.
    pub(crate) fn command_line(&self) -> Vec<OsString> {
        let mut flags = Flags(Vec::new());
        self.asked().add_to(&mut flags);
        let Common { workers, hang_timeout, max_attempts, link, report, json: _, part: _ } =
            self.asked().common();
        if let Some(report) = report {
            flags.add("report", report);
        }
        flags.add("workers", workers.to_string());
        flags.add("hang-timeout", hang_timeout.to_string());
        flags.add("max-attempts", max_attempts.to_string());
        flags.add("link", link.to_string());
        flags.0
    }

    /// The command that it is asked for by.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Job::Components(_) => "components",
            Job::Join(_) => "join",
            Job::Kmeans(_) => "kmeans",
            Job::Pagerank(_) => "pagerank",
            Job::Sort(_) => "sort",
            Job::Wordcount(_) => "wordcount",
        }
    }

    /// The command line of a worker, behind the program's name.
    pub(crate) fn worker_arguments(
        &self,
        index: usize,
        attempt: u32,
        kept: Option<&CheckpointPlace>,
        report_progress: bool,
    ) -> Vec<OsString> {
        let mut flags = Flags(vec![WORKER.into()]);
        flags.add("index", index.to_string());
        flags.add("attempt", attempt.to_string());
        match kept {
            None => {}
            Some(CheckpointPlace::Folder(folder)) => flags.add("kept", folder),
            Some(CheckpointPlace::Table { cluster, job }) => {
                flags.add("kept-in", cluster.join(","));
                flags.add("kept-of", job);
            }
        }
        if report_progress {
            flags.0.push("--report-progress".into());
        }
        self.asked().add_to(&mut flags);
        let Common { workers, hang_timeout, max_attempts: _, link, report: _, json: _, part } =
            self.asked().common();
        if let Some(part) = part {
            flags.add("part", part);
        }
        flags.add("workers", workers.to_string());
        flags.add("hang-timeout", hang_timeout.to_string());
        flags.add("link", link.to_string());
        flags.0
    }
}

/// A command line.
pub(crate) struct Flags(Vec<OsString>);

impl Flags {
    /// The name of a command.
    pub(crate) fn command(&mut self, name: &str) {
        self.0.push(name.into());
    }

    /// A flag without a value, if it is set.
    pub(crate) fn switch(&mut self, flag: &str, is_set: bool) {
        self.0.extend(is_set.then(|| OsString::from(format!("--{flag}"))));
    }

    /// A flag and its value, as one argument: a value of its own must not begin with a dash.
    pub(crate) fn add(&mut self, flag: &str, value: impl AsRef<OsStr>) {
        let mut argument = OsString::from(format!("--{flag}="));
        argument.push(value.as_ref());
        self.0.push(argument);
    }
}
