//! `kv cluster leave` and `kv cluster stay`: relieve a node of what it holds, or not after all.

use serde_json::{Value, json};
use weft_protocol::control::v1::{LeaveRequest, StayRequest};

use super::failed;
use crate::complaint::note;
use crate::control::Control;
use crate::number;
use crate::output::{Format, Output};

/// Have a node leave: what it holds moves to others, and then it is forgotten
#[derive(Debug, clap::Args)]
pub(super) struct Leave {
    /// Its id
    #[arg(value_parser = number::within(0..=u64::MAX))]
    node: u64,
}

/// Have a node stay that was to leave
#[derive(Debug, clap::Args)]
pub(super) struct Stay {
    /// Its id
    #[arg(value_parser = number::within(0..=u64::MAX))]
    node: u64,
}

impl Leave {
    pub(super) fn run(self, control: &Control, output: &mut Output) -> anyhow::Result<()> {
        let node = self.node;
        let request = LeaveRequest { node };
        let done = control.change(async |mut calls| Ok(calls.leave(request).await?.into_inner()));
        let done =
            done.map_err(|error| failed(error, &format!("have node {node} leave"), "nodes"))?;
        let said = match done.has_left {
            true => "has left",
            false => "is leaving; `kv cluster nodes` shows what it still holds",
        };
        let told = json!({
            "node": node,
            "map_version": done.map_version,
            "has_left": done.has_left,
        });
        tell(output, node, said, &told)
    }
}

impl Stay {
    pub(super) fn run(self, control: &Control, output: &mut Output) -> anyhow::Result<()> {
        let node = self.node;
        let request = StayRequest { node };
        let done = control.change(async |mut calls| Ok(calls.stay(request).await?.into_inner()));
        let done =
            done.map_err(|error| failed(error, &format!("have node {node} stay"), "nodes"))?;
        let told = json!({ "node": node, "map_version": done.map_version });
        tell(output, node, "stays", &told)
    }
}

fn tell(output: &mut Output, node: u64, said: &str, told: &Value) -> anyhow::Result<()> {
    match output.format {
        Format::Json => output.json(told)?,
        Format::Table => note(&format!("node {node} {said}")),
        Format::Raw => {}
    }
    Ok(())
}
