//! `kv cluster health`: whether all is well, in an exit code.

use anyhow::Context;
use serde_json::json;
use weft_protocol::control::health::{Condition, Health, Verdict};

use super::listed;
use super::status::{conditions_to_json, partitions_in_short};
use crate::complaint::{self, EndsWith};
use crate::control::{Control, ControlError};
use crate::output::{Format, Output};

/// The exit code when nobody could be asked.
const UNREACHABLE: u8 = 4;

pub(super) fn run(control: &Control, output: &mut Output) -> anyhow::Result<()> {
    let status = match control.status() {
        Ok(status) => status,
        Err(error @ ControlError::Unanswered { .. }) => {
            let error = anyhow::Error::new(error).context("cannot see how the cluster is");
            complaint::say(&error);
            return Err(EndsWith(UNREACHABLE).into());
        }
        Err(error) => return Err(error).context("cannot see how the cluster is"),
    };
    let health = Health::of(&status);
    let verdict = health.verdict();
    let (down, missing) = (health.down_nodes(), health.missing_coordinators());
    match output.format {
        Format::Json => output.json(&json!({
            "health": verdict.name(),
            "map_version": status.map_version,
            "partitions": conditions_to_json(&status, &health),
            "down_nodes": down,
            "missing_coordinators": missing,
            "voters": status.coordinators.iter().filter(|one| one.is_voter).count(),
            "wanted_voters": status.wanted_voters,
            "unplaced_kinds": status.unplaced_kinds,
        }))?,
        Format::Raw => output.line(verdict.name())?,
        Format::Table => {
            output.line(verdict.to_string())?;
            let conditions = health.conditions();
            if conditions.keys().last().is_none_or(|worst| *worst > Condition::Whole) {
                output.line(format!("  partitions {}", partitions_in_short(&status, &health)))?;
            }
            if !down.is_empty() {
                output.line(format!("  nodes that are down: {}", listed(down)))?;
            }
            if !missing.is_empty() {
                output.line(format!("  coordinators that are missing: {}", listed(missing)))?;
            }
            if health.has_unplaced() {
                let count = status.unplaced_kinds;
                output.line(format!("  kinds of tables that no node holds yet: {count}"))?;
            }
            if let Some(voters) = health.lacking_voters() {
                let wanted = status.wanted_voters;
                output.line(format!("  coordinators that vote: {voters} of {wanted}"))?;
            }
        }
    }
    output.finish()?;
    match verdict {
        Verdict::Healthy => Ok(()),
        Verdict::Degraded => Err(EndsWith(1).into()),
        Verdict::NotServing => Err(EndsWith(3).into()),
    }
}
