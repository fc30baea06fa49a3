//! The options of `netbench bidirectional` and `netbench all-to-all`, parsed into a [`MeshPlan`] of
//! which every value is good.

use std::time::Duration;

use weft_transport::PollPolicy;

use crate::affinity::{self, Cpu, PlacementArgs};
use crate::bounds::{self, fraction, whole, within};
use crate::links::LinkArgs;
use crate::shape::Shape;

/// Nodes of one measurement: each is a process with connections to all others.
pub(crate) const NODES_MAX: usize = 64;

#[derive(clap::Args)]
pub(crate) struct BidirectionalOptions {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    placement: PlacementArgs,
}

#[derive(clap::Args)]
pub(crate) struct AllToAllOptions {
    /// Nodes, a process each, that all send to all others
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2,4", value_parser = whole)]
    nodes: Vec<usize>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    links: LinkArgs,
    /// Bytes of a message, without headers
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = whole)]
    size: usize,
    /// Threads of each node that produce, for all others in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    senders: usize,
    /// Threads of each node that handle messages: 1 is the thread that receives, more are a pool beside it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    handlers: usize,
    /// How an idle transport waits: busy, adaptive or park
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    poll: PollPolicy,
    /// Measured seconds of each half of a run
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = fraction)]
    seconds: f64,
    /// Seconds each half runs before it is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3, value_parser = fraction)]
    warm_up: f64,
    /// Runs of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole)]
    runs: usize,
    /// Leave all nodes to the scheduler
    #[arg(long)]
    unpinned: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How many nodes, and which of them send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    pub(crate) nodes: usize,
    /// All send; otherwise the last one does.
    pub(crate) both_ways: bool,
}

/// A measurement of nodes, checked.
pub(crate) struct MeshPlan {
    pub(crate) benchmark: &'static str,
    /// The first one is what the others are compared with.
    pub(crate) cases: Vec<Case>,
    pub(crate) shape: Shape,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    pub(crate) runs: usize,
    /// The processors that nodes take turns over; none if they are left to the scheduler.
    pub(crate) cpus: Vec<Cpu>,
    /// Processors that all nodes have together.
    pub(crate) processors: usize,
    pub(crate) json: bool,
}

impl BidirectionalOptions {
    pub(crate) fn into_plan(self) -> Result<MeshPlan, String> {
        let case = |both_ways| Case { nodes: 2, both_ways };
        let placement = self.placement.into_placement()?;
        let cpus = [placement.server(), placement.client()].into_iter().flatten().collect();
        self.common.into_plan("bidirectional", vec![case(false), case(true)], cpus)
    }
}

impl AllToAllOptions {
    pub(crate) fn into_plan(self) -> Result<MeshPlan, String> {
        bounds::all_within("--nodes", &self.nodes, 2, NODES_MAX)?;
        let cases = self.nodes.iter().map(|nodes| Case { nodes: *nodes, both_ways: true });
        self.common.into_plan("all-to-all", cases.collect(), usable()?)
    }
}

/// The processors that nodes are pinned to; with one there is nothing to pin.
pub(crate) fn usable() -> Result<Vec<Cpu>, String> {
    let usable =
        affinity::usable().map_err(|error| format!("cannot read the affinity: {error}"))?;
    Ok(if usable.len() > 1 { usable.into_iter().map(Cpu).collect() } else { Vec::new() })
}

impl Common {
    fn into_plan(
        self,
        benchmark: &'static str,
        cases: Vec<Case>,
        cpus: Vec<Cpu>,
    ) -> Result<MeshPlan, String> {
        within("--size", self.size, 1, bounds::SIZE_MAX)?;
        within("--senders", self.senders, 1, bounds::LANES_MAX)?;
        within("--handlers", self.handlers, 1, bounds::HANDLERS_MAX)?;
        let nodes = cases.iter().map(|case| case.nodes).max().unwrap_or(0);
        bounds::producers(self.size, self.senders * nodes)?;
        let cpus = if self.unpinned { Vec::new() } else { cpus };
        let processors = match cpus.len() {
            0 => usable()?.len().max(1),
            pinned => pinned.min(nodes),
        };
        spinners(self.poll, nodes, processors)?;
        Ok(MeshPlan {
            benchmark,
            cases,
            shape: Shape {
                size: self.size,
                connections: 1,
                senders: self.senders,
                handlers: self.handlers,
                poll: self.poll,
                links: self.links.into_links()?,
                body: None,
            },
            warm_up: bounds::warm_up(self.warm_up)?,
            window: bounds::window(self.seconds)?,
            runs: bounds::runs(self.runs)?,
            cpus,
            processors,
            json: self.json,
        })
    }
}

/// Nodes that never sleep need a processor each, or they measure the scheduler.
pub(crate) fn spinners(poll: PollPolicy, nodes: usize, processors: usize) -> Result<(), String> {
    if poll != PollPolicy::Busy || nodes <= processors {
        return Ok(());
    }
    Err(format!(
        "{nodes} nodes with --poll busy need a processor each, and there are {processors}: more that \
         spin measure the scheduler; give fewer nodes, or --poll adaptive or park"
    ))
}
