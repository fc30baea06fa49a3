//! `kv cluster watch`: print what becomes of the map, as it is committed.

use std::pin::pin;

use anyhow::Context;
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use tonic::Code;
use tonic::Streaming;
use weft_client::Address;
use weft_protocol::control::v1::{MapUpdate, WatchMapRequest};

use super::{listed_members, nodes, partitions};
use crate::complaint::note;
use crate::control::{Control, ControlError, Kind, is_for_another};
use crate::interrupt::Interrupt;
use crate::number;
use crate::output::{Format, Output};

/// Print what becomes of nodes and partitions, as it is committed, until Ctrl-C
#[derive(Debug, clap::Args)]
pub(super) struct Watch {
    /// End after so many versions
    #[arg(long, env = "WEFT_WATCH_COUNT", value_name = "N", value_parser = number::within(1..=u64::MAX))]
    count: Option<u64>,
}

/// The updates of the map, of whichever node tells them.
struct Updates<'c> {
    control: &'c Control,
    /// From the node on that is to be asked next.
    addresses: Vec<Address>,
    open: Option<Streaming<MapUpdate>>,
    /// The version that is known; 0 for none.
    known: u64,
}

impl Watch {
    pub(super) fn run(self, control: &Control, output: &mut Output) -> anyhow::Result<()> {
        let mut interrupt = Interrupt::heed().context("cannot wait for Ctrl-C")?;
        let addresses = control.addresses().to_vec();
        let mut updates = Updates { control, addresses, open: None, known: 0 };
        let (mut told, mut catalog_version) = (0, None);
        while self.count.is_none_or(|count| told < count) {
            let next = pin!(updates.next());
            let update = match control.block_on(select(next, interrupt.pressed())) {
                Either::Left((update, _)) => update.context("cannot watch the cluster")?,
                Either::Right(_) => break,
            };
            let has_other_tables = catalog_version
                .replace(update.catalog_version)
                .is_some_and(|version| version != update.catalog_version);
            if update.is_whole && output.format != Format::Json {
                note(&format!(
                    "watching {} nodes and {} partitions, as of version {}",
                    update.nodes.len(),
                    update.partitions.len(),
                    update.version
                ));
                continue;
            }
            tell(&update, has_other_tables, output)?;
            // Whoever waits for it sees it now.
            output.finish()?;
            told += 1;
        }
        Ok(())
    }
}

impl Updates<'_> {
    /// The next one. Whole, if it is the first, or if nobody knows any more what has changed.
    async fn next(&mut self) -> Result<MapUpdate, ControlError> {
        loop {
            let stream = match &mut self.open {
                Some(stream) => stream,
                None => {
                    let known_version = self.known;
                    let watch = async |mut calls: crate::control::Calls| {
                        let request = WatchMapRequest { known_version };
                        Ok(calls.watch_map(request).await?.into_inner())
                    };
                    let opened =
                        self.control.call_any(&self.addresses, Kind::Question, watch).await?;
                    self.open.insert(opened)
                }
            };
            match stream.message().await {
                Ok(Some(update)) => {
                    self.known = update.version;
                    return Ok(update);
                }
                Ok(None) => {}
                Err(status) if status.code() == Code::Aborted => self.known = 0,
                Err(status) if is_for_another(&status) && self.known > 0 => {}
                Err(status) => return Err(ControlError::refused(&status)),
            }
            // The node has gone, maybe: another one is asked first.
            self.open = None;
            self.addresses.rotate_left(1);
        }
    }
}

/// Version, what, which (of tables: the version of all) and how it is with tabs between, a line each; or a line of JSON.
fn tell(update: &MapUpdate, has_other_tables: bool, output: &mut Output) -> anyhow::Result<()> {
    if output.format == Format::Json {
        return Ok(output.json(&to_json(update))?);
    }
    let version = update.version;
    for node in &update.nodes {
        let standing = nodes::standing(node.standing());
        let id = nodes::id(node);
        let (primaries, replicas) = (node.primaries, node.replicas);
        output.line(format!(
            "{version}\tnode\t{id}\t{standing}, primary of {primaries}, holds {replicas}"
        ))?;
    }
    for node in &update.gone_nodes {
        output.line(format!("{version}\tnode\t{node}\tgone"))?;
    }
    for one in &update.partitions {
        let how = match one.primary {
            _ if one.is_lost => "lost".to_owned(),
            Some(primary) => format!("primary {}", primary.node),
            None => "no primary".to_owned(),
        };
        let mut line =
            format!("{version}\tpartition\t{}\tepoch {}, {how}", one.partition, one.epoch);
        for (name, members) in [("members", &one.members), ("learners", &one.learners)] {
            if !members.is_empty() {
                line.push_str(&format!(", {name} {}", listed_members(members)));
            }
        }
        output.line(line)?;
    }
    for partition in &update.gone_partitions {
        output.line(format!("{version}\tpartition\t{partition}\tgone"))?;
    }
    if has_other_tables {
        output.line(format!("{version}\ttables\t{}\tchanged", update.catalog_version))?;
    }
    Ok(())
}

fn to_json(update: &MapUpdate) -> Value {
    json!({
        "version": update.version,
        "is_whole": update.is_whole,
        "nodes": update.nodes.iter().map(nodes::to_json).collect::<Value>(),
        "gone_nodes": update.gone_nodes,
        "partitions": update.partitions.iter().map(partitions::to_json).collect::<Value>(),
        "gone_partitions": update.gone_partitions,
        "catalog_version": update.catalog_version,
    })
}
