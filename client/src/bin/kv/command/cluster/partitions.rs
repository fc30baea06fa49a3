//! `kv cluster partitions`: which partitions there are, who holds them, and how each is.

use anyhow::Context;
use clap::builder::BoolishValueParser;
use serde_json::{Value, json};
use weft_protocol::control::health::{Condition, Health};
use weft_protocol::control::v1::{Durability, Partition};

use super::listed_members;
use crate::control::Control;
use crate::output::{Format, Output};

/// List the partitions, and who holds them
#[derive(Debug, clap::Args)]
pub(super) struct Partitions {
    /// Only those that lack something, and that a table is in
    #[arg(long, env = "WEFT_CLUSTER_LACKING", value_parser = BoolishValueParser::new())]
    lacking: bool,
}

const HEADING: [&str; 9] = [
    "partition",
    "slots",
    "class",
    "condition",
    "primary",
    "members",
    "learners",
    "in sync at least",
    "epoch",
];

impl Partitions {
    pub(super) fn run(self, control: &Control, output: &mut Output) -> anyhow::Result<()> {
        let status = control.status().context("cannot list the partitions")?;
        let health = Health::of(&status);
        let told = status.partitions.iter().map(|one| (one, health.condition(one)));
        let told = told.filter(|(_, condition)| !self.lacking || *condition > Condition::Whole);
        match output.format {
            Format::Table => {
                output.table(&HEADING, told.map(|(one, condition)| cells(one, condition)), 7)?;
            }
            Format::Raw => {
                for (one, condition) in told {
                    let primary = one.primary.map_or("-".to_owned(), |one| one.node.to_string());
                    let (members, condition) = (listed_members(&one.members), condition.name());
                    output.line(format!("{}\t{condition}\t{primary}\t{members}", one.partition))?;
                }
            }
            Format::Json => {
                let told = told.map(|(one, condition)| {
                    let mut told = to_json(one);
                    told["condition"] = condition.name().into();
                    told
                });
                output.json(&told.collect::<Value>())?;
            }
        }
        Ok(())
    }
}

fn cells(partition: &Partition, condition: Condition) -> [String; 9] {
    let Partition { replicas, first_slot, last_slot, .. } = partition;
    let plural = if *replicas == 1 { "" } else { "s" };
    [
        partition.partition.to_string(),
        format!("{first_slot} to {last_slot}"),
        format!("{replicas} replica{plural}, {}", durability(partition.durability())),
        condition.to_string(),
        partition.primary.map_or("-".to_owned(), |primary| primary.node.to_string()),
        listed_members(&partition.members),
        listed_members(&partition.learners),
        partition.min_in_sync.to_string(),
        partition.epoch.to_string(),
    ]
}

pub(super) fn to_json(partition: &Partition) -> Value {
    let nodes = |members: &[weft_protocol::control::v1::Member]| {
        members.iter().map(|member| Value::from(member.node)).collect::<Value>()
    };
    json!({
        "partition": partition.partition,
        "first_slot": partition.first_slot,
        "last_slot": partition.last_slot,
        "wanted_replicas": partition.replicas,
        "durability": durability(partition.durability()),
        "epoch": partition.epoch,
        "primary": partition.primary.map(|primary| primary.node),
        "members": nodes(&partition.members),
        "learners": nodes(&partition.learners),
        "min_in_sync": partition.min_in_sync,
        "is_starting": partition.is_starting,
        "is_lost": partition.is_lost,
        "is_unused": partition.is_unused,
    })
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Memory => "memory",
        Durability::Disk => "disk",
        Durability::Fsync => "fsync",
        Durability::Unspecified => "unknown",
    }
}
