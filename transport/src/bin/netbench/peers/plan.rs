//! The options of `netbench peers`, parsed into a [`PeersPlan`] of which every value is good.

use std::time::Duration;

use weft_transport::PollPolicy;

use crate::affinity::{Placement, PlacementArgs};
use crate::args::{Benchmark, Plan};
use crate::bounds::{self, fraction, whole, within};
use crate::links::{LinkArgs, LinkKind, Links};
use crate::shape::Shape;

#[derive(clap::Args)]
pub(crate) struct PeersOptions {
    #[command(flatten)]
    links: LinkArgs,
    /// Bytes of a message in round trips and rates, without headers
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = whole)]
    size: usize,
    /// Bytes of a message for bytes a second
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = whole)]
    large_size: usize,
    /// How Weft waits, busy, adaptive or park; the peers spin
    #[arg(long, value_name = "POLICY", default_value = "busy")]
    poll: PollPolicy,
    /// Measured seconds of each figure in a run
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = fraction)]
    seconds: f64,
    /// Runs of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole)]
    runs: usize,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A comparison, checked.
pub(crate) struct PeersPlan {
    pub(super) links: Links,
    pub(super) size: usize,
    pub(super) large_size: usize,
    pub(super) poll: PollPolicy,
    pub(super) window: Duration,
    pub(super) runs: usize,
    pub(super) placement: Placement,
    pub(super) json: bool,
}

impl PeersOptions {
    pub(crate) fn into_plan(self) -> Result<PeersPlan, String> {
        if self.links.kind() == LinkKind::Verbs {
            return Err(
                "--link is verbs, whose peer is perftest: `cargo xtask softroce --release` \
                        runs it beside netbench; here, choose tcp or shm"
                    .to_owned(),
            );
        }
        let links = self.links.into_links()?;
        within("--size", self.size, 1, bounds::SIZE_MAX)?;
        within("--large-size", self.large_size, 1, bounds::SIZE_MAX)?;
        Ok(PeersPlan {
            links,
            size: self.size,
            large_size: self.large_size,
            poll: self.poll,
            window: bounds::window(self.seconds)?,
            runs: bounds::runs(self.runs)?,
            placement: self.placement.into_placement()?,
            json: self.json,
        })
    }
}

impl PeersPlan {
    /// Our part of one run.
    pub(super) fn one_run(&self, benchmark: Benchmark) -> Plan {
        let size = if benchmark == Benchmark::Bandwidth { self.large_size } else { self.size };
        let shape = Shape::of_one(size, self.poll, self.links.clone());
        Plan::one_run(benchmark, shape, self.window / 4, self.window, self.placement)
    }
}
