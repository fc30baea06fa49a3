//! `kv cluster leave` and `kv cluster stay`: relieve a node of what it holds, or not after all.

use anyhow::Context;
use serde_json::json;
use weft_protocol::control::v1::{LeaveRequest, StayRequest};

use crate::complaint::note;
use crate::control::Control;
use crate::output::{Format, Output};

/// Have a node leave: what it holds moves to others, and then it is forgotten
#[derive(Debug, clap::Args)]
pub(super) struct Leave {
    /// Its id
    node: u64,
}

/// Have a node stay that was to leave
#[derive(Debug, clap::Args)]
pub(super) struct Stay {
    /// Its id
    node: u64,
}

impl Leave {
    pub(super) fn run(self, control: &Control, output: &mut Output) -> anyhow::Result<()> {
        let node = self.node;
        let request = LeaveRequest { node };
        let done = control.change(async |mut calls| Ok(calls.leave(request).await?.into_inner()));
        let done = done.with_context(|| format!("cannot have node {node} leave"))?;
        let said = "is leaving; `kv cluster nodes` shows what it still holds";
        tell(output, node, done.map_version, said)
    }
}

impl Stay {
    pub(super) fn run(self, control: &Control, output: &mut Output) -> anyhow::Result<()> {
        let node = self.node;
        let request = StayRequest { node };
        let done = control.change(async |mut calls| Ok(calls.stay(request).await?.into_inner()));
        let done = done.with_context(|| format!("cannot have node {node} stay"))?;
        tell(output, node, done.map_version, "stays")
    }
}

fn tell(output: &mut Output, node: u64, map_version: u64, said: &str) -> anyhow::Result<()> {
    match output.format {
        Format::Json => output.json(&json!({ "node": node, "map_version": map_version }))?,
        Format::Table => note(&format!("node {node} {said}")),
        Format::Raw => {}
    }
    Ok(())
}
