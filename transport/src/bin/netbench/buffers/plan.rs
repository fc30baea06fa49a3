//! The options of `netbench buffers`, parsed into a [`BuffersPlan`] of which every value is good.

use std::time::Duration;

use weft_transport::PollPolicy;

use crate::affinity::{Placement, PlacementArgs};
use crate::args::{Benchmark, Plan};
use crate::bounds::{self, all_within, fraction, whole};
use crate::links::{LinkArgs, Links};
use crate::shape::Shape;

const SIZES: &str =
    "64,256,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,1048576,2097152";

/// A word of the raw ring.
const SIZE_MIN: usize = 8;

/// Three buffers of so much, as a round trip has registered, are what the usual limit on locked memory takes: 8 MiB.
const SIZE_MAX: usize = 2 << 20;

#[derive(clap::Args)]
pub(crate) struct BuffersOptions {
    #[command(flatten)]
    links: LinkArgs,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_value = SIZES, value_parser = whole)]
    sizes: Vec<usize>,
    /// How an idle transport waits: busy, adaptive or park
    #[arg(long, value_name = "POLICY", default_value = "busy")]
    poll: PollPolicy,
    /// Measured seconds of each method in a run
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2, value_parser = fraction)]
    seconds: f64,
    /// Seconds each method runs before it is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0.1, value_parser = fraction)]
    warm_up: f64,
    /// Runs of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole)]
    runs: usize,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// All sizes, checked.
pub(crate) struct BuffersPlan {
    pub(super) links: Links,
    pub(super) sizes: Vec<usize>,
    pub(super) poll: PollPolicy,
    pub(super) window: Duration,
    warm_up: Duration,
    pub(super) runs: usize,
    pub(super) placement: Placement,
    pub(super) json: bool,
}

impl BuffersOptions {
    pub(crate) fn into_plan(self) -> Result<BuffersPlan, String> {
        all_within("--sizes", &self.sizes, SIZE_MIN, SIZE_MAX)?;
        let mut sizes = self.sizes;
        sizes.sort_unstable();
        sizes.dedup();
        Ok(BuffersPlan {
            links: self.links.into_links()?,
            sizes,
            poll: self.poll,
            window: bounds::window(self.seconds)?,
            warm_up: bounds::warm_up(self.warm_up)?,
            runs: bounds::runs(self.runs)?,
            placement: self.placement.into_placement()?,
            json: self.json,
        })
    }
}

impl BuffersPlan {
    /// One method's part of one run.
    pub(super) fn one_run(&self, size: usize) -> Plan {
        let (poll, links) = (self.poll, self.links.clone());
        let shape = Shape::of_one(size, poll, links);
        Plan::one_run(Benchmark::Bandwidth, shape, self.warm_up, self.window, self.placement)
    }
}
