//! libfabric, by its own `fi_pingpong`, which knows round trips only.

use std::process::Command;

use anyhow::Context as _;

use super::Reached;
use super::plan::PeersPlan;
use super::program::{self, Missing};
use crate::links::LinkKind;

const PROGRAM: &str = "fi_pingpong";

/// Iterations of the test from which the number for the measured time is worked out.
const TRIAL: u64 = 1000;
const ITERATIONS_MAX: u64 = 20_000_000;

pub(super) struct Libfabric {
    link: LinkKind,
    version: String,
}

impl Libfabric {
    pub(super) fn find(link: LinkKind) -> Result<Self, Missing> {
        program::find(PROGRAM, "libfabric-bin")?;
        Ok(Self { link, version: program::version("fi_info", "--version") })
    }

    pub(super) fn name(&self) -> String {
        format!("{PROGRAM} {} ({}, mean)", self.version, self.link.name())
    }

    pub(super) fn measure(&self, plan: &PeersPlan) -> anyhow::Result<Reached> {
        let trial = self.one_way_us(plan, TRIAL)?;
        let iterations = plan.window.as_secs_f64() * 1e6 / (2.0 * trial);
        let one_way = self.one_way_us(plan, (iterations as u64).clamp(TRIAL, ITERATIONS_MAX))?;
        Ok(Reached { round_trip_us: Some(2.0 * one_way), ..Reached::default() })
    }

    fn one_way_us(&self, plan: &PeersPlan, iterations: u64) -> anyhow::Result<f64> {
        let port = program::free_port()?.to_string();
        let command = |port_flag: &str| {
            let mut command = Command::new(PROGRAM);
            command.args(["-p", self.link.name(), "-e", "rdm", port_flag, &port]);
            command.args(["-I", &iterations.to_string(), "-S", &plan.size.to_string()]);
            command
        };
        let mut client = command("-P");
        client.arg("127.0.0.1");
        parse(&program::run_pair(plan.placement, &mut command("-B"), &mut client)?)
    }
}

/// Reads the column `usec/xfer` of the last line.
fn parse(printed: &str) -> anyhow::Result<f64> {
    let read = || {
        let mut lines = printed.lines().filter(|line| !line.trim().is_empty());
        let header = lines.find(|line| line.contains("usec/xfer"))?;
        let index = header.split_whitespace().position(|column| column == "usec/xfer")?;
        lines.next_back()?.split_whitespace().nth(index)?.parse().ok()
    };
    read().with_context(|| format!("{PROGRAM} printed no usec/xfer: {printed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_is_found_by_its_name() {
        let printed = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                       64      5k      =5k      625k        1.67s      0.38     166.65       0.01\n";
        assert_eq!(parse(printed).unwrap(), 166.65);
        assert!(parse("").is_err());
    }
}
