//! `shuffle join`: what it is asked, and what of that can be wrong.

mod report;
mod work;

use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use serde::{Deserialize, Serialize};
use weft_object::{Pair, Types};
use weft_shuffle::{EdgeList, Worker};

use crate::args::{Common, check_path};
use crate::how_far::{Phase, Unit};
use crate::job::{Asked, Flags};
use crate::memory::Memory;
use crate::output_folder::OutputFolder;
use crate::output_format::OutputFormat;
use crate::report::{Said, either};
use crate::usage::Usage;
use crate::work::Needs;

/// The phases: one side is read, and then the other.
const READING_LEFT: usize = 0;
const READING_RIGHT: usize = 1;
const WRITING: usize = 2;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Join {
    /// One side: a key and a value a line, two whole numbers with blanks or tabs between; plain, gzip or zstd; or a binary one
    #[arg(long, value_name = "FILE")]
    left: PathBuf,
    /// The other side
    #[arg(long, value_name = "FILE")]
    right: PathBuf,
    /// Malformed lines to skip, of each side, before the job fails
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad: u64,
    /// The right side is small enough for each worker's memory: give it to all workers, and leave the left one where it is
    #[arg(long, value_parser = BoolishValueParser::new())]
    small_right: bool,
    /// Folder for a line for each two pairs with the same key: that, and both values; a file for each worker. It must not be there
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    #[command(flatten)]
    format: OutputFormat,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    common: Common,
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Joined {
    left: u64,
    right: u64,
    joined: u64,
    joined_by_worker: Vec<u64>,
    lines_skipped: u64,
    usage: Usage,
}

impl Asked for Join {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), String> {
        check_path("--left", &self.left)?;
        check_path("--right", &self.right)?;
        check_path("--output", &self.output)?;
        self.memory.check(self.common.workers)
    }

    fn prepare(&self) -> anyhow::Result<Vec<Phase>> {
        let (left, right) = (EdgeList::open(&self.left)?, EdgeList::open(&self.right)?);
        self.output().prepare()?;
        self.memory.prepare(self, Some(&self.output))?;
        let total = |side: EdgeList| side.bytes_to_read(self.common.workers);
        Ok(vec![
            Phase::new("left", total(left), Unit::Bytes),
            Phase::new("right", total(right), Unit::Bytes),
            // As many as come out.
            Phase::new("write", 0, Unit::Records),
        ])
    }

    fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        self.output().end(is_whole)
    }

    fn inputs(&self) -> Vec<&Path> {
        vec![&self.left, &self.right]
    }

    fn add_to(&self, flags: &mut Flags) {
        flags.command("join");
        flags.add("left", &self.left);
        flags.add("right", &self.right);
        flags.add("skip-bad", self.skip_bad.to_string());
        flags.switch("small-right", self.small_right);
        flags.add("output", &self.output);
        self.format.add_to(flags);
        self.memory.add_to(flags, Some(&self.output));
    }

    fn needs(&self) -> Needs {
        let asked = (&self.left, &self.right, self.skip_bad, self.small_right, &self.output);
        Needs {
            types: Types::new().with::<Pair<u64, u64>>().with::<u64>(),
            same: format!("{asked:?}"),
            memory_bytes: self.memory.bytes,
            spill_folder: Some(self.memory.spill_folder(Some(&self.output))),
        }
    }

    fn work(&self, worker: &Worker, report: bool) -> anyhow::Result<()> {
        work::run(self, worker, report)
    }
}

impl Join {
    /// What is said of what came out.
    pub(crate) fn report(&self, outcome: &Joined) -> Said {
        either(self, || report::object(self, outcome), || report::text(outcome))
    }

    fn output(&self) -> OutputFolder<'_> {
        OutputFolder::new(&self.output, &self.common)
    }
}
