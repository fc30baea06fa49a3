//! `kv cluster accept-loss`: have partitions begin anew whose objects are gone.

use clap::builder::BoolishValueParser;
use serde_json::json;
use weft_protocol::control::v1::AcceptLossRequest;

use super::{failed, listed};
use crate::complaint::note;
use crate::control::Control;
use crate::output::{Format, Output};

/// Accept that what lost partitions held is gone, and have them begin anew, empty
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["partitions", "all"])))]
pub(super) struct AcceptLoss {
    /// The partitions
    #[arg(value_name = "PARTITION")]
    partitions: Vec<u32>,

    /// All that are lost
    #[arg(long, env = "WEFT_CLUSTER_ALL", value_parser = BoolishValueParser::new())]
    all: bool,

    /// Also those that are not lost, but whose members are all down: what these hold is given up
    #[arg(long, env = "WEFT_CLUSTER_GIVE_UP", value_parser = BoolishValueParser::new())]
    give_up: bool,
}

impl AcceptLoss {
    pub(super) fn run(self, control: &Control, output: &mut Output) -> anyhow::Result<()> {
        let Self { partitions, give_up, .. } = self;
        // The same of whichever node, so that none does it a second time.
        let request = AcceptLossRequest { request: rand::random(), partitions, give_up };
        let done = control
            .change(async |mut calls| Ok(calls.accept_loss(request.clone()).await?.into_inner()))
            .map_err(|error| failed(error, "accept the loss", "partitions"))?;
        match output.format {
            Format::Json => output
                .json(&json!({ "partitions": done.partitions, "map_version": done.map_version }))?,
            Format::Raw => {
                for partition in done.partitions {
                    output.line(partition.to_string())?;
                }
            }
            Format::Table if done.partitions.is_empty() => note("no partition is lost"),
            Format::Table => {
                let numbers = listed(done.partitions.into_iter().map(u64::from));
                output.line(format!("begun anew, empty: {numbers}"))?;
            }
        }
        Ok(())
    }
}
