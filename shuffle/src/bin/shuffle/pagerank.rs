//! `shuffle pagerank`: what it is asked, and what of that can be wrong.

mod report;
mod work;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_object::Types;
use weft_shuffle::job::graph::Graph;
use weft_shuffle::job::pagerank::{PageRank, Shape};
use weft_shuffle::{EdgeList, Worker};

use crate::args::{Common, check_path, rounds};
use crate::checkpointing::Checkpointing;
use crate::how_far::{Phase, Unit};
use crate::job::{Asked, Flags};
use crate::memory::Memory;
use crate::output_file::OutputFile;
use crate::output_format::OutputFormat;
use crate::report::{Said, either};
use crate::usage::Usage;
use crate::work::Needs;

/// The phases: the graph is loaded, and the rounds are gone through.
const LOADING: usize = 0;
const RANKING: usize = 1;

const SHAPES: [(&str, Shape); 5] = [
    ("static", Shape::Static),
    ("indexed", Shape::Indexed),
    ("keyed", Shape::Keyed),
    ("naos", Shape::Naos),
    ("naos-sparse", Shape::NaosSparse),
];

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Pagerank {
    /// Edge list: a source and a target vertex a line, as SNAP has it; plain, gzip or zstd; or a binary one
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Malformed lines to skip, of all the input, before the job fails
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad: u64,
    /// Rounds
    #[arg(long, value_name = "K", default_value = "20", value_parser = rounds)]
    iterations: usize,
    /// Part of a rank that follows the edges; the rest goes to all vertices alike
    #[arg(long, value_name = "D", default_value = "0.85", value_parser = damping)]
    damping: f64,
    /// What workers send: static (sums, in an order that was agreed on), indexed or keyed (an update an edge, combined by number or by identifier), naos (an object an edge) or naos-sparse (sums, as arrays in an object)
    #[arg(long, value_name = "static|indexed|keyed|naos|naos-sparse", default_value = "static", value_parser = shape)]
    shape: Shape,
    #[command(flatten)]
    checkpoints: Checkpointing,
    /// How many of the highest ranks to print
    #[arg(long, value_name = "N", default_value = "10")]
    top: usize,
    /// Write every vertex and its rank to FILE, highest first
    #[arg(long, value_name = "FILE")]
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
pub(crate) struct Ranked {
    vertices: u64,
    edges: u64,
    edges_by_worker: Vec<u64>,
    lines_skipped: u64,
    load_seconds: f64,
    /// With which round it began, as those before had been kept by an earlier one.
    first_round: usize,
    /// Of each round that it made.
    seconds: Vec<f64>,
    /// What the links between the workers took in all rounds.
    bytes_shuffled: u64,
    usage: Usage,
    top: Vec<TopRank>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct TopRank {
    vertex: u64,
    rank: f64,
}

fn damping(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

fn shape(text: &str) -> Result<Shape, String> {
    let shape = SHAPES.into_iter().find(|(name, _)| *name == text);
    shape
        .map(|(_, shape)| shape)
        .ok_or_else(|| "not static, indexed, keyed, naos or naos-sparse".to_owned())
}

impl Asked for Pagerank {
    fn common(&self) -> &Common {
        &self.common
    }

    /// What a path means, too: opening the output must not harm the input.
    fn check(&self) -> Result<(), String> {
        check_path("--input", &self.input)?;
        self.memory.check(self.common.workers)?;
        if self.memory.bytes.is_some() && !matches!(self.shape, Shape::Static | Shape::Indexed) {
            let what = "--memory limits graphs of --shape static and indexed only";
            return Err(format!("{what}: others have theirs in memory, whatever they take"));
        }
        let Some(output) = &self.output else { return Ok(()) };
        check_path("--output", output)?;
        OutputFile::new(output, &self.common).check_input("--output", "--input", &self.input)
    }

    fn prepare(&self) -> anyhow::Result<Vec<Phase>> {
        let list = EdgeList::open(&self.input)?;
        self.output().map_or(Ok(()), |output| output.prepare())?;
        self.memory.prepare(self, self.made().as_deref())?;
        // Worker 0 tells of the rounds.
        let read = list.bytes_to_read(self.common.workers);
        let rounds = self.iterations as u64;
        Ok(vec![Phase::new("read", read, Unit::Bytes), Phase::new("round", rounds, Unit::Rounds)])
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
        flags.command("pagerank");
        self.format.add_to(flags);
        self.checkpoints.add_to(flags);
        flags.add("skip-bad", self.skip_bad.to_string());
        flags.add("iterations", self.iterations.to_string());
        flags.add("damping", self.damping.to_string());
        let shape = SHAPES.into_iter().find(|(_, shape)| *shape == self.shape);
        shape.into_iter().for_each(|(name, _)| flags.add("shape", name));
        flags.add("top", self.top.to_string());
        flags.add("input", &self.input);
        if let Some(output) = &self.output {
            flags.add("output", output);
        }
        self.memory.add_to(flags, self.made().as_deref());
    }

    fn needs(&self) -> Needs {
        Needs {
            types: PageRank::types(Graph::types(Types::new())),
            same: format!(
                "{:?}",
                (&self.input, self.skip_bad, self.iterations, self.damping, self.shape)
            ),
            memory_bytes: self.memory.bytes,
            spill_folder: Some(self.memory.spill_folder(self.made().as_deref())),
        }
    }

    fn work(&self, worker: &Worker, report: bool) -> anyhow::Result<()> {
        work::run(self, worker, report)
    }
}

impl Pagerank {
    /// What is said of what came out.
    pub(crate) fn report(&self, outcome: &Ranked) -> Said {
        either(self, || report::object(self, outcome), || report::text(outcome))
    }

    /// The file that is made, if one is.
    fn made(&self) -> Option<PathBuf> {
        self.output()?.made()
    }

    fn output(&self) -> Option<OutputFile<'_>> {
        self.output.as_deref().map(|output| OutputFile::new(output, &self.common))
    }
}
