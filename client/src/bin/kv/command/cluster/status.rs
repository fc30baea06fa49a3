//! `kv cluster status`: how the cluster is as a whole.

use anyhow::Context;
use serde_json::json;
use weft_protocol::control::health::{Condition, Health};
use weft_protocol::control::v1::{Coordinator, Standing, StatusResponse};

use super::nodes;
use crate::control::Control;
use crate::output::{Format, Output};

pub(super) fn run(control: &Control, output: &mut Output) -> anyhow::Result<()> {
    let status = control.status().context("cannot see how the cluster is")?;
    if output.format == Format::Json {
        return Ok(output.json(&to_json(&status))?);
    }
    let health = Health::of(&status);
    let lines = [
        ("cluster", cluster_id(&status)),
        ("map version", status.map_version.to_string()),
        ("health", health.verdict().to_string()),
        ("nodes", nodes_in_short(&status, &health)),
        ("partitions", partitions_in_short(&status, &health)),
        ("coordinators", coordinators_in_short(&status, &health)),
    ];
    for (name, value) in lines {
        output.line(match output.format {
            Format::Table => format!("{name:<14}{value}"),
            Format::Raw | Format::Json => format!("{name}\t{value}"),
        })?;
    }
    Ok(())
}

/// `64: 60 whole, 4 lost`
pub(super) fn partitions_in_short(status: &StatusResponse, health: &Health<'_>) -> String {
    let conditions = health.conditions();
    let counted = Condition::ALL.into_iter().filter_map(|condition| {
        conditions.get(&condition).map(|count| format!("{count} {condition}"))
    });
    in_short(status.partitions.len(), counted.collect())
}

fn nodes_in_short(status: &StatusResponse, health: &Health<'_>) -> String {
    let standings = [Standing::Up, Standing::Leaving, Standing::LeavingDown, Standing::Down];
    let counted = standings.into_iter().filter_map(|standing| {
        let name = super::nodes::standing(standing);
        let count = health.nodes_in(standing).len();
        (count > 0).then(|| format!("{count} {name}"))
    });
    in_short(status.nodes.len(), counted.collect())
}

fn coordinators_in_short(status: &StatusResponse, health: &Health<'_>) -> String {
    let missing = health.missing_coordinators();
    let down = health.down_nodes();
    let told = status.coordinators.iter().map(|coordinator| {
        let Coordinator { node, is_leader, is_voter, behind, is_missed } = coordinator;
        match () {
            () if missing.contains(node) && (!is_missed || down.contains(node)) => {
                format!("node {node} is down")
            }
            () if *is_missed => format!("node {node} does not follow, {behind} entries behind"),
            () if *is_leader => format!("node {node} leads"),
            () if !is_voter => format!("node {node} learns, {behind} entries behind"),
            () => format!("node {node}"),
        }
    });
    in_short(status.coordinators.len(), told.collect())
}

fn in_short(count: usize, parts: Vec<String>) -> String {
    if parts.is_empty() { count.to_string() } else { format!("{count}: {}", parts.join(", ")) }
}

fn cluster_id(status: &StatusResponse) -> String {
    status.cluster_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn to_json(status: &StatusResponse) -> serde_json::Value {
    let health = Health::of(status);
    let missing = health.missing_coordinators();
    let coordinators = status.coordinators.iter().map(|coordinator| {
        json!({
            "node": coordinator.node,
            "leader": coordinator.is_leader,
            "voter": coordinator.is_voter,
            "behind": coordinator.behind,
            "missing": missing.contains(&coordinator.node),
        })
    });
    json!({
        "cluster": cluster_id(status),
        "map_version": status.map_version,
        "health": health.verdict().name(),
        "partitions": conditions_to_json(status, &health),
        "coordinators": coordinators.collect::<serde_json::Value>(),
        "nodes": status.nodes.iter().map(nodes::to_json).collect::<serde_json::Value>(),
    })
}

/// How many partitions are in each condition, and all together.
pub(super) fn conditions_to_json(
    status: &StatusResponse,
    health: &Health<'_>,
) -> serde_json::Value {
    let counts = health.conditions();
    let mut told = serde_json::Map::new();
    told.insert("total".to_owned(), status.partitions.len().into());
    for condition in Condition::ALL {
        let count = counts.get(&condition).copied().unwrap_or(0);
        told.insert(condition.name().replace('-', "_"), count.into());
    }
    told.into()
}
