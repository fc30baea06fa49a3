//! `shuffle components`: what it is asked, and what of that can be wrong.

mod report;
mod work;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_object::Types;
use weft_shuffle::job::components;
use weft_shuffle::{EdgeList, Worker};

use crate::args::{Common, check_path};
use crate::checkpointing::Checkpointing;
use crate::how_far::{Phase, Unit};
use crate::job::{Asked, Flags};
use crate::memory::Memory;
use crate::output_folder::OutputFolder;
use crate::output_format::OutputFormat;
use crate::report::{Said, either};
use crate::usage::Usage;
use crate::work::Needs;

/// The phases: the graph is loaded, and vertices learn of less. How many rounds there will be is not known.
const LOADING: usize = 0;
const LEARNING: usize = 1;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Components {
    /// Edge list: two vertices a line, as SNAP has it; plain, gzip or zstd; or a binary one. Edges lead both ways
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Malformed lines to skip, of all the input, before the job fails
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad: u64,
    #[command(flatten)]
    checkpoints: Checkpointing,
    /// How many of the largest components to print
    #[arg(long, value_name = "N", default_value = "10")]
    top: usize,
    /// Folder for every vertex and its component, a file for each worker; it must not be there
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    #[command(flatten)]
    format: OutputFormat,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    common: Common,
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Connected {
    vertices: u64,
    components: u64,
    lines_skipped: u64,
    load_seconds: f64,
    /// With which round the last attempt began, as those before had been kept by an earlier one.
    first_round: usize,
    /// How many rounds it took.
    rounds: usize,
    usage: Usage,
    top: Vec<Component>,
}

/// A component: its least vertex, and how many it has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Component {
    component: u64,
    vertices: u64,
}

impl Asked for Components {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), String> {
        check_path("--input", &self.input)?;
        self.output.iter().try_for_each(|output| check_path("--output", output))?;
        self.memory.check(self.common.workers)
    }

    fn prepare(&self) -> anyhow::Result<Vec<Phase>> {
        let list = EdgeList::open(&self.input)?;
        self.output().map_or(Ok(()), |output| output.prepare())?;
        self.memory.prepare(self, self.output.as_deref())?;
        let read = list.bytes_to_read(self.common.workers);
        // Worker 0 tells of the rounds.
        Ok(vec![Phase::new("read", read, Unit::Bytes), Phase::new("round", 0, Unit::Rounds)])
    }

    fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        self.output().map_or(Ok(()), |output| output.end(is_whole))
    }

    fn checkpoints(&self) -> Option<&Checkpointing> {
        Some(&self.checkpoints)
    }

    fn inputs(&self) -> Vec<&Path> {
        vec![&self.input]
    }

    fn add_to(&self, flags: &mut Flags) {
        flags.command("components");
        flags.add("input", &self.input);
        flags.add("skip-bad", self.skip_bad.to_string());
        self.format.add_to(flags);
        self.checkpoints.add_to(flags);
        flags.add("top", self.top.to_string());
        if let Some(output) = &self.output {
            flags.add("output", output);
        }
        self.memory.add_to(flags, self.output.as_deref());
    }

    fn needs(&self) -> Needs {
        Needs {
            types: components::types(Types::new()),
            same: format!("{:?}", (&self.input, self.skip_bad, self.top, &self.output)),
            memory_bytes: self.memory.bytes,
            spill_folder: Some(self.memory.spill_folder(self.output.as_deref())),
        }
    }

    fn work(&self, worker: &Worker, report: bool) -> anyhow::Result<()> {
        work::run(self, worker, report)
    }
}

impl Components {
    /// What is said of what came out.
    pub(crate) fn report(&self, outcome: &Connected) -> Said {
        either(self, || report::object(self, outcome), || report::text(outcome))
    }

    fn output(&self) -> Option<OutputFolder<'_>> {
        self.output.as_deref().map(|output| OutputFolder::new(output, &self.common))
    }
}
