//! The options of `netbench streams`, parsed into a [`StreamsPlan`] of which every value is good.

use std::time::Duration;

use weft_transport::{PollPolicy, VerbsOptions};

use super::Case;
use crate::affinity::{Placement, PlacementArgs};
use crate::args::{Benchmark, Plan};
use crate::bounds::{self, all_within};
use crate::links::{DeviceArgs, LinkKind, Links};
use crate::shape::Shape;

/// How much of the measured time is run before it.
const WARM_UP_SHARE: f64 = 0.1;

/// The kernel takes no more pieces in one write.
const FLUSH_MAX: usize = 1024;

#[derive(clap::Args)]
pub(crate) struct StreamsOptions {
    /// Bytes of a message
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_value = "16,1024,65536")]
    sizes: Vec<usize>,
    /// Connections, all in use at once
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4,16")]
    connections: Vec<usize>,
    /// One-way messages that one write gathers; 0 is round trips
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0,64,16,4")]
    flush: Vec<usize>,
    /// Links that streams run over
    #[arg(
        long = "link",
        value_enum,
        value_name = "LINK,…",
        value_delimiter = ',',
        default_value = "tcp,shm"
    )]
    links: Vec<LinkKind>,
    #[command(flatten)]
    device: DeviceArgs,
    /// How an idle stream waits: busy, adaptive or park
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    poll: PollPolicy,
    /// Measured seconds of each method in a run; a tenth of that is run before
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds: f64,
    /// Runs of which mean and standard deviation are taken
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// All cases, checked.
pub(crate) struct StreamsPlan {
    sizes: Vec<usize>,
    connections: Vec<usize>,
    flush: Vec<usize>,
    pub(super) links: Vec<LinkKind>,
    verbs: VerbsOptions,
    pub(super) poll: PollPolicy,
    pub(super) window: Duration,
    pub(super) runs: usize,
    pub(super) placement: Placement,
    pub(super) json: bool,
}

impl StreamsOptions {
    pub(crate) fn into_plan(self) -> Result<StreamsPlan, String> {
        all_within("--sizes", &self.sizes, 1, bounds::SIZE_MAX)?;
        all_within("--connections", &self.connections, 1, bounds::LANES_MAX)?;
        all_within("--flush", &self.flush, 0, FLUSH_MAX)?;
        let verbs = self.device.into_options(&self.links)?;
        Ok(StreamsPlan {
            sizes: self.sizes,
            connections: self.connections,
            flush: self.flush,
            links: self.links,
            verbs,
            poll: self.poll,
            window: bounds::window(self.seconds)?,
            runs: bounds::runs(self.runs)?,
            placement: self.placement.into_placement()?,
            json: self.json,
        })
    }
}

impl StreamsPlan {
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for flush in &self.flush {
            for size in &self.sizes {
                for connections in &self.connections {
                    let flush = (*flush > 0).then_some(*flush);
                    cases.push(Case { size: *size, connections: *connections, flush });
                }
            }
        }
        cases
    }

    /// One method's part of one run.
    pub(super) fn one_run(&self, size: usize, connections: usize, link: LinkKind) -> Plan {
        let verbs =
            if link == LinkKind::Verbs { self.verbs.clone() } else { VerbsOptions::default() };
        let links = Links { kind: link, verbs };
        let shape = Shape { connections, ..Shape::of_one(size, self.poll, links) };
        Plan::one_run(
            Benchmark::Bandwidth,
            shape,
            self.window.mul_f64(WARM_UP_SHARE),
            self.window,
            self.placement,
        )
    }
}
