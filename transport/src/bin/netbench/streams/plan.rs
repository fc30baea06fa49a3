//! The options of `netbench streams`, parsed into a [`StreamsPlan`] of which every value is good.

use std::time::Duration;

use weft_transport::{PollPolicy, VerbsOptions};

use super::Case;
use crate::affinity::Placement;
use crate::args::{Benchmark, LinkKind, Links, Plan, Shape};

/// How much of the measured time is run before it.
const WARM_UP_SHARE: f64 = 0.1;

const SIZE_MAX: usize = 1 << 20;
const CONNECTIONS_MAX: usize = 256;
/// The kernel takes no more pieces in one write.
const FLUSH_MAX: usize = 1024;
const RUNS_MAX: usize = 1000;
const SECONDS_MAX: f64 = 3600.0;

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
    /// How an idle stream waits: busy, adaptive or park
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    poll: PollPolicy,
    /// Measured seconds of each method in a run; a tenth of that is run before
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds: f64,
    /// Runs of which mean and standard deviation are taken
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    /// Processor of the server [default: the first this process may use, if there are two]
    #[arg(long, value_name = "CPU")]
    server_cpu: Option<usize>,
    /// Processor of the client [default: the last this process may use, if there are two]
    #[arg(long, value_name = "CPU")]
    client_cpu: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// All cases, checked.
pub(crate) struct StreamsPlan {
    sizes: Vec<usize>,
    connections: Vec<usize>,
    flush: Vec<usize>,
    pub(super) poll: PollPolicy,
    pub(super) window: Duration,
    pub(super) runs: usize,
    pub(super) placement: Placement,
    pub(super) json: bool,
}

impl StreamsOptions {
    pub(crate) fn into_plan(self) -> Result<StreamsPlan, String> {
        all_within("--sizes", &self.sizes, 1, SIZE_MAX)?;
        all_within("--connections", &self.connections, 1, CONNECTIONS_MAX)?;
        all_within("--flush", &self.flush, 0, FLUSH_MAX)?;
        all_within("--runs", &[self.runs], 1, RUNS_MAX)?;
        if !(0.01..=SECONDS_MAX).contains(&self.seconds) {
            return Err(format!(
                "--seconds is {}, but must be from 0.01 to {SECONDS_MAX}",
                self.seconds
            ));
        }
        Ok(StreamsPlan {
            sizes: self.sizes,
            connections: self.connections,
            flush: self.flush,
            poll: self.poll,
            window: Duration::from_secs_f64(self.seconds),
            runs: self.runs,
            placement: Placement::choose(self.server_cpu, self.client_cpu)?,
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
        let links = Links { kind: link, verbs: VerbsOptions::default() };
        Plan {
            benchmark: Benchmark::Bandwidth,
            shape: Shape { size, connections, threads: 1, poll: self.poll, links },
            warm_up: self.window.mul_f64(WARM_UP_SHARE),
            window: self.window,
            runs: 1,
            placement: self.placement,
            can_spin: true,
            json: false,
        }
    }
}

fn all_within(flag: &str, values: &[usize], min: usize, max: usize) -> Result<(), String> {
    match values.iter().find(|value| !(min..=max).contains(*value)) {
        None => Ok(()),
        Some(value) => Err(format!("{flag} is {value}, but must be from {min} to {max}")),
    }
}
