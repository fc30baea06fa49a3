//! `kv cluster nodes`: which nodes there are.

use std::time::Duration;

use anyhow::Context;
use bytesize::ByteSize;
use serde_json::{Value, json};
use weft_protocol::control::v1::{Node, Standing};

use crate::control::Control;
use crate::output::{Format, Output};

const HEADING: [&str; 10] = [
    "node",
    "standing",
    "incarnation",
    "data",
    "control",
    "zone",
    "heard",
    "capacity",
    "primaries",
    "replicas",
];

pub(super) fn run(control: &Control, output: &mut Output) -> anyhow::Result<()> {
    let status = control.status().context("cannot list the nodes")?;
    match output.format {
        Format::Table => output.table(&HEADING, status.nodes.iter().map(cells), 6)?,
        Format::Raw => {
            for node in &status.nodes {
                let standing = standing(node.standing());
                let (data, control) = (&node.data_address, &node.control_address);
                output.line(format!("{}\t{standing}\t{data}\t{control}", id(node)))?;
            }
        }
        Format::Json => output.json(&status.nodes.iter().map(to_json).collect::<Value>())?,
    }
    Ok(())
}

fn cells(node: &Node) -> [String; 10] {
    let heard = node.heard_ms_ago.map_or("-".to_owned(), |ms| {
        format!("{} ago", humantime::format_duration(Duration::from_millis(ms)))
    });
    [
        id(node).to_string(),
        standing(node.standing()).to_owned(),
        node.member.map_or(0, |member| member.incarnation).to_string(),
        node.data_address.clone(),
        node.control_address.clone(),
        if node.zone.is_empty() { "-".to_owned() } else { node.zone.clone() },
        heard,
        ByteSize::b(node.capacity_bytes).display().iec().to_string(),
        node.primaries.to_string(),
        node.replicas.to_string(),
    ]
}

pub(super) fn to_json(node: &Node) -> Value {
    json!({
        "node": id(node),
        "incarnation": node.member.map(|member| member.incarnation.to_string()),
        "standing": standing(node.standing()),
        "data_address": node.data_address,
        "control_address": node.control_address,
        "zone": node.zone,
        "capacity_bytes": node.capacity_bytes,
        "is_diskless": node.is_diskless,
        "heard_ms_ago": node.heard_ms_ago,
        "primaries": node.primaries,
        "replicas": node.replicas,
    })
}

pub(super) fn id(node: &Node) -> u64 {
    node.member.map_or(0, |member| member.node)
}

pub(super) fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Up => "up",
        Standing::Down => "down",
        Standing::Leaving => "leaving",
        Standing::LeavingDown => "leaving-down",
        Standing::Unspecified => "unknown",
    }
}
