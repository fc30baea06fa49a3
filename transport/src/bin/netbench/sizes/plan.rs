//! The options of `netbench sizes`, parsed into a [`SizesPlan`] of which every value is good.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use weft_transport::PollPolicy;

use crate::affinity::{Cpu, Placement, PlacementArgs};
use crate::args::{Benchmark, Plan};
use crate::bounds::{self, all_within, fraction, whole, within};
use crate::links::{LinkArgs, Links};
use crate::mesh;
use crate::shape::Shape;

/// The powers of two up to the longest message that goes in one frame.
const SIZES: [usize; 21] = {
    let mut sizes = [1; 21];
    let mut at = 1;
    while at < sizes.len() {
        sizes[at] = 1 << at;
        at += 1;
    }
    sizes
};

/// Who sends to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Pattern {
    /// One process to another
    OneWay,
    /// Two processes to each other
    Bidirectional,
    /// All processes to all others
    AllToAll,
}

#[derive(clap::Args)]
pub(crate) struct SizesOptions {
    /// Who sends to whom
    #[arg(long, value_enum, default_value_t = Pattern::OneWay)]
    pattern: Pattern,
    /// Processes of --pattern all-to-all [default: 4]
    #[arg(long, value_name = "N", value_parser = whole)]
    nodes: Option<usize>,
    /// Bytes of a message, in ascending order [default: the powers of two from 1 to 1048576]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = whole)]
    sizes: Option<Vec<usize>>,
    #[command(flatten)]
    links: LinkArgs,
    /// Threads that produce
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    senders: usize,
    /// Threads that handle messages: 1 is the thread that receives, more are a pool beside it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    handlers: usize,
    /// How an idle transport waits: busy, adaptive or park
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    poll: PollPolicy,
    /// Measured seconds of each half of a run, a size
    #[arg(long, value_name = "SECONDS", default_value_t = 0.25, value_parser = fraction)]
    seconds: f64,
    /// Seconds each half runs before it is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0.1, value_parser = fraction)]
    warm_up: f64,
    /// Runs of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole)]
    runs: usize,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Draw the figure into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A sweep over sizes, checked.
pub(crate) struct SizesPlan {
    pub(super) pattern: Pattern,
    pub(super) nodes: usize,
    pub(super) sizes: Vec<usize>,
    pub(super) links: Links,
    pub(super) senders: usize,
    pub(super) handlers: usize,
    pub(super) poll: PollPolicy,
    pub(super) window: Duration,
    pub(super) warm_up: Duration,
    pub(super) runs: usize,
    pub(super) placement: Placement,
    /// The processors that nodes take turns over, of patterns with nodes.
    pub(super) cpus: Vec<Cpu>,
    pub(super) svg: Option<PathBuf>,
    pub(super) json: bool,
}

impl SizesOptions {
    pub(crate) fn into_plan(self) -> Result<SizesPlan, String> {
        let sizes = self.sizes.unwrap_or_else(|| SIZES.to_vec());
        all_within("--sizes", &sizes, 1, bounds::SIZE_MAX)?;
        if !sizes.is_sorted_by(|a, b| a < b) {
            return Err(format!("--sizes is {sizes:?}, but each has to be larger than the last"));
        }
        within("--senders", self.senders, 1, bounds::LANES_MAX)?;
        within("--handlers", self.handlers, 1, bounds::HANDLERS_MAX)?;
        let nodes = match (self.pattern, self.nodes) {
            (Pattern::AllToAll, nodes) => nodes.unwrap_or(4),
            (_, None) => 2,
            (_, Some(_)) => return Err("--nodes is of --pattern all-to-all".to_owned()),
        };
        within("--nodes", nodes, 2, mesh::plan::NODES_MAX)?;
        let sending = if self.pattern == Pattern::OneWay { 1 } else { nodes };
        for size in &sizes {
            bounds::producers(*size, self.senders * sending)?;
        }
        let placement = self.placement.into_placement()?;
        let cpus = match self.pattern {
            Pattern::AllToAll => mesh::plan::usable()?,
            _ => [placement.server(), placement.client()].into_iter().flatten().collect(),
        };
        mesh::plan::spinners(self.poll, nodes, mesh::plan::usable()?.len().max(1))?;
        Ok(SizesPlan {
            pattern: self.pattern,
            nodes,
            sizes,
            links: self.links.into_links()?,
            senders: self.senders,
            handlers: self.handlers,
            poll: self.poll,
            window: bounds::window(self.seconds)?,
            warm_up: bounds::warm_up(self.warm_up)?,
            runs: bounds::runs(self.runs)?,
            placement,
            cpus,
            svg: self.svg,
            json: self.json,
        })
    }
}

impl SizesPlan {
    /// The measurement of one size.
    pub(super) fn one_run(&self, size: usize) -> Plan {
        let shape = Shape {
            senders: self.senders,
            handlers: self.handlers,
            ..Shape::of_one(size, self.poll, self.links.clone())
        };
        Plan::one_run(Benchmark::Rate, shape, self.warm_up, self.window, self.placement)
    }
}

impl Pattern {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pattern::OneWay => "one-way",
            Pattern::Bidirectional => "bidirectional",
            Pattern::AllToAll => "all-to-all",
        }
    }
}
