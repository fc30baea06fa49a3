//! The options of `netbench beside`, parsed into a [`BesidePlan`] of which every value is good.

use std::time::Duration;

use weft_transport::PollPolicy;
use weft_transport::limits::LARGE_MAX;

use crate::affinity::Placement;
use crate::args::{Benchmark, Plan};
use crate::bounds::{self, fraction, whole, within};
use crate::links::LinkArgs;
use crate::shape::Shape;
use crate::weft::beside::SMALL_MIN;

/// Large ones are counted a second, and none would be rarer than a run is long.
const RATE_MAX: usize = 1000;

#[derive(clap::Args)]
pub(crate) struct BesideOptions {
    #[command(flatten)]
    links: LinkArgs,
    /// Bytes of a small call and of its reply, without headers
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = whole)]
    size: usize,
    /// Bytes of a large reply, and bytes of the streamed body that are read at once
    #[arg(long, value_name = "BYTES", default_value_t = 10_000_000, value_parser = whole)]
    large_size: usize,
    /// How often they are taken, a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole)]
    large_rate: usize,
    /// How an idle transport waits: busy, adaptive or park
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    poll: PollPolicy,
    /// Measured seconds of each case in a run
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = fraction)]
    seconds: f64,
    /// Seconds each case runs before it is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3, value_parser = fraction)]
    warm_up: f64,
    /// Runs of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole)]
    runs: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A measurement of small calls beside large transfers, checked.
pub(crate) struct BesidePlan {
    pub(super) shape: Shape,
    pub(super) large_size: usize,
    /// From the beginning of one large transfer to that of the next.
    pub(super) interval: Duration,
    pub(super) warm_up: Duration,
    pub(super) window: Duration,
    pub(super) runs: usize,
    /// Between which the threads of both sides go to and fro.
    pub(super) processors: Placement,
    pub(super) json: bool,
}

impl BesideOptions {
    pub(crate) fn into_plan(self) -> Result<BesidePlan, String> {
        within("--size", self.size, SMALL_MIN, bounds::SIZE_MAX)?;
        within("--large-size", self.large_size, 1, LARGE_MAX)?;
        within("--large-rate", self.large_rate, 1, RATE_MAX)?;
        Ok(BesidePlan {
            shape: Shape::of_one(self.size, self.poll, self.links.into_links()?),
            large_size: self.large_size,
            interval: Duration::from_secs_f64(1.0 / self.large_rate as f64),
            warm_up: bounds::warm_up(self.warm_up)?,
            window: bounds::window(self.seconds)?,
            runs: bounds::runs(self.runs)?,
            processors: Placement::by_default()?,
            json: self.json,
        })
    }
}

impl BesidePlan {
    /// The server's part. Nothing is pinned: the two threads of the client would share a processor, and the
    /// figures be the scheduler's.
    pub(super) fn one_run(&self) -> Plan {
        let links = self.shape.links.clone();
        let shape = Shape::of_one(self.large_size, self.shape.poll, links);
        Plan::one_run(Benchmark::Latency, shape, self.warm_up, self.window, Placement::Unpinned)
    }
}
