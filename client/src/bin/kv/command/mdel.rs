//! `kv mdel`: remove many keys.

use anyhow::Context;
use serde_json::{Map, Value};

use crate::args::Global;
use crate::complaint::{AlreadySaid, note};
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Remove many keys and their values; no error for those that have none
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv mdel [OPTIONS] <KEY>…")]
pub(crate) struct Mdel {
    /// The keys
    #[arg(required = true)]
    keys: Vec<Bytes>,
}

impl Mdel {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect().context("cannot delete the keys")?.blocking();
        let outcomes = client.multi_delete(&self.keys).collect_in_order();
        let mut rows = Vec::new();
        let mut entries = Vec::new();
        let mut all_done = true;
        for (key, outcome) in self.keys.iter().zip(outcomes) {
            let mut entry = Map::new();
            text::insert(&mut entry, "key", key);
            match outcome {
                Ok(deleted) => {
                    let what = if deleted.existed { "deleted" } else { "absent" };
                    rows.push([text::abridged(key), what.to_owned()]);
                    entry.insert("existed".to_owned(), deleted.existed.into());
                    entry.insert("version".to_owned(), deleted.version.to_string().into());
                }
                Err(error) => {
                    all_done = false;
                    let key = text::quoted(key);
                    note(&format!("cannot delete {key}: {error} ({})", error.code()));
                    entry.insert("error".to_owned(), error.code().to_string().into());
                }
            }
            entries.push(Value::from(entry));
        }
        match output.format {
            Format::Table => output.table(&["key", "was"], rows, 2)?,
            Format::Raw => {
                for [_, what] in rows {
                    output.line(what)?;
                }
            }
            Format::Json => output.json(&entries)?,
        }
        output.finish()?;
        if all_done { Ok(()) } else { Err(AlreadySaid.into()) }
    }
}
