//! `shuffle kmeans`: what it is asked, and what of that can be wrong.

mod report;
mod work;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_object::Types;
use weft_shuffle::job::kmeans::KMeans;
use weft_shuffle::{PointFile, Worker};

use crate::args::{Common, check_path, rounds};
use crate::checkpointing::Checkpointing;
use crate::how_far::{Phase, Unit};
use crate::job::{Asked, Flags};
use crate::memory::Memory;
use crate::output_file::OutputFile;
use crate::report::{Said, either};
use crate::usage::Usage;
use crate::work::Needs;

/// The phases: the points are read, and the rounds are gone through.
const READING: usize = 0;
const MOVING: usize = 1;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Kmeans {
    /// A point a line: numbers with commas, blanks or tabs between; plain, gzip or zstd
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Malformed lines to skip, of all the input, before the job fails
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad: u64,
    /// How many centres to look for
    #[arg(long, value_name = "N", value_parser = clusters)]
    clusters: usize,
    /// The most rounds; it ends before if no centre moves
    #[arg(long, value_name = "K", default_value = "100", value_parser = rounds)]
    iterations: usize,
    /// Another number begins with other points as centres
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    checkpoints: Checkpointing,
    /// Write each centre to FILE, its numbers with commas between
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    common: Common,
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Clustered {
    points: u64,
    dimensions: usize,
    lines_skipped: u64,
    load_seconds: f64,
    /// With which round the last attempt began, as those before had been kept by an earlier one.
    first_round: usize,
    /// How many rounds it took.
    rounds: usize,
    is_settled: bool,
    cost: f64,
    usage: Usage,
    clusters: Vec<Cluster>,
}

/// A centre, and how many points are nearest to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cluster {
    points: u64,
    centre: Vec<f64>,
}

/// More than anybody looks at, and few enough that all workers can have all sums.
const CLUSTERS_MAX: usize = 10_000;

fn clusters(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=CLUSTERS_MAX).contains(number));
    number.ok_or_else(|| format!("not a number from 1 to {CLUSTERS_MAX}"))
}

impl Asked for Kmeans {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), String> {
        check_path("--input", &self.input)?;
        self.memory.check(self.common.workers)?;
        let Some(output) = &self.output else { return Ok(()) };
        check_path("--output", output)?;
        OutputFile::new(output, &self.common).check_input("--output", "--input", &self.input)
    }

    fn prepare(&self) -> anyhow::Result<Vec<Phase>> {
        let file = PointFile::open(&self.input)?;
        self.output().map_or(Ok(()), |output| output.prepare())?;
        self.memory.prepare(self, self.made().as_deref())?;
        let read = file.bytes_to_read(self.common.workers);
        Ok(vec![
            Phase::new("read", read, Unit::Bytes),
            Phase::new("round", self.iterations as u64, Unit::Rounds),
        ])
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
        flags.command("kmeans");
        flags.add("input", &self.input);
        flags.add("skip-bad", self.skip_bad.to_string());
        flags.add("clusters", self.clusters.to_string());
        flags.add("iterations", self.iterations.to_string());
        flags.add("seed", self.seed.to_string());
        self.checkpoints.add_to(flags);
        if let Some(output) = &self.output {
            flags.add("output", output);
        }
        self.memory.add_to(flags, self.made().as_deref());
    }

    fn needs(&self) -> Needs {
        Needs {
            types: KMeans::types(Types::new()),
            same: format!("{:?}", (&self.input, self.skip_bad, self.method())),
            memory_bytes: self.memory.bytes,
            spill_folder: Some(self.memory.spill_folder(self.made().as_deref())),
        }
    }

    fn work(&self, worker: &Worker, report: bool) -> anyhow::Result<()> {
        work::run(self, worker, report)
    }
}

impl Kmeans {
    /// What is said of what came out.
    pub(crate) fn report(&self, outcome: &Clustered) -> Said {
        either(self, || report::object(self, outcome), || report::text(outcome))
    }

    /// The file that is made, if one is.
    fn made(&self) -> Option<PathBuf> {
        self.output()?.made()
    }

    fn output(&self) -> Option<OutputFile<'_>> {
        self.output.as_deref().map(|output| OutputFile::new(output, &self.common))
    }

    fn method(&self) -> KMeans {
        KMeans { clusters: self.clusters, iterations: self.iterations, seed: self.seed }
    }
}
