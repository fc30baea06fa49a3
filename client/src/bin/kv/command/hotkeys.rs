//! `kv hotkeys`: print the keys that are asked for the most.

use anyhow::Context;
use serde_json::{Value, json};
use weft_client::HotKey;
use weft_protocol::limits::HOT_KEYS_MAX;

use crate::args::Global;
use crate::complaint::{AlreadySaid, note};
use crate::number;
use crate::output::{Format, Output};
use crate::text;

/// Print the keys of all tables that are asked for the most; exit code 1 if a node does not answer
#[derive(Debug, clap::Args)]
pub(crate) struct Hotkeys {
    /// How many
    #[arg(
        long,
        env = "WEFT_HOTKEYS_COUNT",
        value_name = "N",
        default_value_t = 10,
        value_parser = number::within(1..=HOT_KEYS_MAX)
    )]
    count: usize,
}

const HEADING: [&str; 8] =
    ["key", "table", "node", "requests/s", "at least", "at most", "writes/s", "of the node's"];

impl Hotkeys {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let context = "cannot look for hot keys";
        let client = global.connect_cluster().context(context)?.blocking();
        let hot_keys = client.hot_keys(self.count).context(context)?;
        match output.format {
            Format::Table => output.table(&HEADING, hot_keys.keys.iter().map(cells), 2)?,
            Format::Raw => {
                for key in &hot_keys.keys {
                    output.bytes(&key.key)?;
                    let mark = if key.is_whole_key() { "" } else { "…" };
                    let rate = key.requests_per_second();
                    output.line(format!("{mark}\t{}\t{rate:.0}", key.table_name))?;
                }
            }
            Format::Json => output.json(&hot_keys.keys.iter().map(to_json).collect::<Value>())?,
        }
        output.finish()?;
        for error in &hot_keys.unanswered {
            note(&format!("{error} ({})", error.code()));
        }
        if hot_keys.unanswered.is_empty() { Ok(()) } else { Err(AlreadySaid.into()) }
    }
}

fn cells(key: &HotKey) -> [String; 8] {
    let rate = |rate: f64| format!("{rate:.0}");
    let name = if key.is_whole_key() {
        text::abridged(&key.key)
    } else {
        // The checksum tells it from others that begin alike.
        format!("{}, CRC {:08x}", text::abridged_of(&key.key, key.key_len), key.checksum)
    };
    [
        name,
        key.table_name.clone(),
        key.node.id.0.to_string(),
        rate(key.requests_per_second()),
        rate(key.least_per_second),
        rate(key.most_per_second),
        rate(key.writes_per_second),
        format!("{:.1} %", key.share * 100.0),
    ]
}

fn to_json(key: &HotKey) -> Value {
    let mut told = json!({
        "is_whole_key": key.is_whole_key(),
        "key_length": key.key_len,
        "crc32c": key.checksum,
        "table": key.table_name,
        "node": key.node.id.0,
        "requests_per_second": key.requests_per_second(),
        "reads_per_second": key.reads_per_second,
        "writes_per_second": key.writes_per_second,
        "least_per_second": key.least_per_second,
        "most_per_second": key.most_per_second,
        "share": key.share,
    });
    text::insert(told.as_object_mut().expect("it was made as one"), "key", &key.key);
    told
}
