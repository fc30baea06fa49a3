//! UCX, by its own `ucx_perftest`: tag matching over TCP or shared memory.

use std::process::Command;

use anyhow::Context as _;

use super::plan::PeersPlan;
use super::program::{self, Missing};
use super::{FIGURES, Figure, Reached};
use crate::links::LinkKind;

const PROGRAM: &str = "ucx_perftest";

/// Iterations of the test from which the number for the measured time is worked out.
const TRIAL: u64 = 2000;
const ITERATIONS_MAX: u64 = 50_000_000;

pub(super) struct Ucx {
    link: LinkKind,
    version: String,
}

impl Ucx {
    pub(super) fn find(link: LinkKind) -> Result<Self, Missing> {
        program::find(PROGRAM, "ucx-utils")?;
        Ok(Self { link, version: program::version("ucx_info", "-v") })
    }

    pub(super) fn name(&self) -> String {
        format!("{PROGRAM} {} ({})", self.version, self.transports())
    }

    fn transports(&self) -> &'static str {
        if self.link == LinkKind::Shm { "posix" } else { "tcp" }
    }

    pub(super) fn measure(&self, plan: &PeersPlan) -> anyhow::Result<Reached> {
        let mut reached = Reached::default();
        for figure in FIGURES {
            let size = if figure == Figure::Bytes { plan.large_size } else { plan.size };
            let trial = self.test(plan, figure, size, TRIAL)?;
            let iterations = plan.window.as_secs_f64() * trial.iterations_per_second;
            let iterations = (iterations as u64).clamp(TRIAL, ITERATIONS_MAX);
            let result = self.test(plan, figure, size, iterations)?;
            *reached.figure(figure) = Some(match figure {
                // What it calls latency is one way.
                Figure::RoundTrip => 2.0 * result.median_latency_us,
                Figure::Messages => result.iterations_per_second,
                Figure::Bytes => result.iterations_per_second * size as f64,
            });
        }
        Ok(reached)
    }

    fn test(
        &self,
        plan: &PeersPlan,
        figure: Figure,
        size: usize,
        iterations: u64,
    ) -> anyhow::Result<Outcome> {
        let test = if figure == Figure::RoundTrip { "tag_lat" } else { "tag_bw" };
        let port = program::free_port()?.to_string();
        let command = || {
            let mut command = Command::new(PROGRAM);
            command.args(["-p", &port]).env("UCX_LOG_LEVEL", "error");
            command.env("UCX_TLS", format!("{},self", self.transports()));
            if self.link == LinkKind::Tcp {
                command.env("UCX_NET_DEVICES", "lo");
            }
            command
        };
        let (size, iterations) = (size.to_string(), iterations.to_string());
        let mut client = command();
        client.args(["127.0.0.1", "-t", test, "-s", &size, "-n", &iterations]);
        client.args(["-w", "1000", "-f", "-v"]);
        let printed = program::run_pair(plan.placement, &mut command(), &mut client)?;
        Outcome::parse(&printed)
    }
}

/// The last line of a test.
#[derive(Debug, PartialEq)]
struct Outcome {
    median_latency_us: f64,
    iterations_per_second: f64,
}

impl Outcome {
    /// Reads a header of names and a line of values, separated by commas.
    fn parse(printed: &str) -> anyhow::Result<Self> {
        let lines: Vec<&str> = printed.lines().filter(|line| line.contains(',')).collect();
        let column = |name: &str| {
            let (header, values) = (lines.first()?, lines.last()?);
            let index = header.split(',').position(|column| column == name)?;
            values.split(',').nth(index)?.parse().ok()
        };
        let read = |name: &str| {
            column(name).with_context(|| format!("{PROGRAM} printed no {name}: {printed}"))
        };
        Ok(Self {
            median_latency_us: read("50.0_percentile_lat")?,
            iterations_per_second: read("overall_mr")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_found_by_their_names() {
        let printed = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n\
                       20000,4.667,37.919,49.480,1.61,1.23,26372,20210\n";
        let expected = Outcome { median_latency_us: 4.667, iterations_per_second: 20210.0 };
        assert_eq!(Outcome::parse(printed).unwrap(), expected);
        assert!(Outcome::parse("connection refused").is_err());
    }
}
