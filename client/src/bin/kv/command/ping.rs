//! `kv ping`: ask every node for next to nothing, and time it.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use weft_client::{Client, ClientError, NodeId};

use crate::args::Global;
use crate::complaint::{AlreadySaid, note};
use crate::number;
use crate::output::{Format, Output};

/// Time a round trip to every node; exit code 1 if one does not answer
#[derive(Debug, clap::Args)]
pub(crate) struct Ping {
    /// How many round trips; the shortest counts
    #[arg(long, env = "WEFT_PING_COUNT", value_name = "N", default_value = "5",
          value_parser = number::within(1..=u32::MAX))]
    count: u32,
}

struct Pinged {
    node: NodeId,
    address: String,
    round_trip: Result<Duration, ClientError>,
}

impl Ping {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect_cluster().context("cannot ping")?;
        let map = client.map();
        let pinged = map.nodes().iter().map(|entry| Pinged {
            node: entry.id,
            address: entry.address.clone(),
            round_trip: self.shortest(&client, entry.id),
        });
        let pinged: Vec<_> = pinged.collect();
        match output.format {
            Format::Table => {
                let rows = pinged.iter().map(|Pinged { node, address, round_trip }| {
                    let time = round_trip.as_ref().map_or("-".to_owned(), |time| micros(*time));
                    [node.0.to_string(), address.clone(), time]
                });
                output.table(&["node", "address", "round trip"], rows, 2)?;
            }
            Format::Raw => {
                for Pinged { node, round_trip, .. } in &pinged {
                    let time = round_trip.as_ref().map_or("-".to_owned(), |time| micros(*time));
                    output.line(format!("{}\t{time}", node.0))?;
                }
            }
            Format::Json => output.json(&pinged.iter().map(Pinged::to_json).collect::<Vec<_>>())?,
        }
        output.finish()?;
        let mut all_answered = true;
        for error in pinged.iter().filter_map(|pinged| pinged.round_trip.as_ref().err()) {
            note(&format!("{error} ({})", error.code()));
            all_answered = false;
        }
        if all_answered { Ok(()) } else { Err(AlreadySaid.into()) }
    }

    fn shortest(&self, client: &Client, node: NodeId) -> Result<Duration, ClientError> {
        let mut shortest = Duration::MAX;
        for _ in 0..self.count {
            shortest = shortest.min(client.block_on(client.ping(node))?);
        }
        Ok(shortest)
    }
}

impl Pinged {
    fn to_json(&self) -> serde_json::Value {
        let round_trip_us = self.round_trip.as_ref().ok().map(|time| time.as_nanos() as f64 / 1e3);
        json!({
            "id": self.node.0,
            "address": self.address,
            "round_trip_us": round_trip_us,
            "error": self.round_trip.as_ref().err().map(|error| error.code().to_string()),
        })
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1} us", time.as_nanos() as f64 / 1e3)
}
