//! `kv mput`: store many values.

use anyhow::Context;
use clap::builder::BoolishValueParser;
use serde_json::{Map, Value};

use crate::args::Global;
use crate::complaint::{AlreadySaid, WrongUsage, note};
use crate::output::{Format, Output};
use crate::text::{self, Bytes};
use crate::value::Source;

/// Store many values: KEY VALUE KEY VALUE …; exit code 1 if one is not stored
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv mput [OPTIONS] <KEY> <VALUE>…")]
pub(crate) struct Mput {
    /// A key and its value, and so on; `@FILE` reads a value from a file
    #[arg(required = true, value_name = "KEY VALUE", allow_negative_numbers = true)]
    keys_and_values: Vec<Bytes>,

    /// Take the values as they are typed, `-` and `@` included
    #[arg(long, env = "WEFT_LITERAL", value_parser = BoolishValueParser::new())]
    literal: bool,
}

impl Mput {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let pairs = self.pairs()?;
        let client = global.connect().context("cannot put the keys")?.blocking();
        let outcomes = client.multi_put(&pairs).collect_in_order();
        let mut rows = Vec::new();
        let mut entries = Vec::new();
        let mut all_stored = true;
        for ((key, _), outcome) in pairs.iter().zip(outcomes) {
            let mut entry = Map::new();
            text::insert(&mut entry, "key", key);
            match outcome {
                Ok(version) => {
                    rows.push([text::abridged(key), version.to_string()]);
                    entry.insert("version".to_owned(), version.to_string().into());
                }
                Err(error) => {
                    all_stored = false;
                    let key = text::quoted(key);
                    note(&format!("cannot put {key}: {error} ({})", error.code()));
                    entry.insert("error".to_owned(), error.code().to_string().into());
                }
            }
            entries.push(Value::from(entry));
        }
        match output.format {
            Format::Table => output.table(&["key", "version"], rows, 1)?,
            Format::Raw => {
                for [_, version] in rows {
                    output.line(version)?;
                }
            }
            Format::Json => output.json(&entries)?,
        }
        output.finish()?;
        if all_stored { Ok(()) } else { Err(AlreadySaid.into()) }
    }

    fn pairs(self) -> anyhow::Result<Vec<(Bytes, Vec<u8>)>> {
        let mut left = self.keys_and_values.into_iter();
        let mut pairs = Vec::new();
        let mut stdin_is_taken = false;
        while let Some(key) = left.next() {
            let Some(value) = left.next() else {
                let key = text::quoted(&key);
                return Err(WrongUsage(format!(
                    "the last key, {key}, has no value; give a value behind every key"
                ))
                .into());
            };
            let source = Source::of(value.into_vec(), self.literal);
            if source == Source::Stdin && std::mem::replace(&mut stdin_is_taken, true) {
                return Err(WrongUsage("only one value can be read from stdin".into()).into());
            }
            pairs.push((key, source.read()?));
        }
        Ok(pairs)
    }
}
