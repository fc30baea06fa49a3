//! `kv mget`: print the values of many keys.

use anyhow::Context;
use serde_json::{Map, Value};
use weft_client::{ClientError, Lookup};

use crate::args::Global;
use crate::command::get::lookup_to_json;
use crate::complaint::{AlreadySaid, note};
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Print the values of many keys, in their order; exit code 1 if one is missing
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv mget [OPTIONS] <KEY>…")]
pub(crate) struct Mget {
    /// The keys
    #[arg(required = true)]
    keys: Vec<Bytes>,
}

impl Mget {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect().context("cannot get the keys")?.blocking();
        let outcomes = client.multi_get(&self.keys).collect_in_order();
        let found = self.keys.iter().zip(&outcomes);
        match output.format {
            Format::Raw => {
                for lookup in outcomes.iter().flatten() {
                    if let Lookup::Found(object) = lookup {
                        output.bytes(object)?;
                        output.line("")?;
                    }
                }
            }
            Format::Table => {
                let objects = found.clone().filter_map(|(key, outcome)| {
                    let Ok(Lookup::Found(object)) = outcome else { return None };
                    let version = object.version().to_string();
                    Some([text::abridged(key), version, text::abridged(object)])
                });
                output.table(&["key", "version", "value"], objects, 3)?;
            }
            Format::Json => {
                let all = found.clone().map(|(key, outcome)| to_json(key, outcome));
                output.json(&all.collect::<Vec<_>>())?;
            }
        }
        output.finish()?;
        let mut all_found = true;
        for (key, outcome) in found {
            let key = text::quoted(key);
            match outcome {
                Ok(Lookup::Found(_)) => continue,
                Ok(Lookup::Absent { .. }) => note(&format!("key not found: {key}")),
                Err(error) => note(&format!("cannot get {key}: {error} ({})", error.code())),
            }
            all_found = false;
        }
        if all_found { Ok(()) } else { Err(AlreadySaid.into()) }
    }
}

fn to_json(key: &[u8], outcome: &Result<Lookup, ClientError>) -> Value {
    match outcome {
        Ok(lookup) => lookup_to_json(key, lookup),
        Err(error) => {
            let mut entry = Map::new();
            text::insert(&mut entry, "key", key);
            entry.insert("error".to_owned(), error.code().to_string().into());
            entry.into()
        }
    }
}
