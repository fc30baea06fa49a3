//! `kv bigkeys`: print the keys with the largest values.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::Context;
use bytesize::ByteSize;
use serde_json::{Map, Value};
use weft_client::ScanOptions;

use crate::args::Global;
use crate::number;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Print the keys with the largest values; looks at all keys
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv bigkeys [OPTIONS] [PREFIX]")]
pub(crate) struct Bigkeys {
    /// Only keys that begin so
    prefix: Option<Bytes>,

    /// How many
    #[arg(
        long,
        env = "WEFT_BIGKEYS_TOP",
        value_name = "N",
        default_value_t = 10,
        value_parser = number::within(1..=1_000_000_usize)
    )]
    top: usize,
}

impl Bigkeys {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect().context("cannot look at the keys")?.blocking();
        let key_prefix = self.prefix.map(Bytes::into_vec).unwrap_or_default();
        let options = ScanOptions { key_prefix, ..ScanOptions::default() };
        // The smallest of them on top, to make way.
        let mut largest = BinaryHeap::with_capacity(self.top + 1);
        for scanned in client.scan(options).context("cannot look at the keys")? {
            let scanned = scanned.context("cannot look at all keys")?;
            largest.push((Reverse(scanned.value_len), scanned.key));
            if largest.len() > self.top {
                largest.pop();
            }
        }
        let largest = largest.into_sorted_vec();
        let size = |len: u64| ByteSize::b(len).display().iec().to_string();
        match output.format {
            Format::Table => {
                let rows =
                    largest.iter().map(|(Reverse(len), key)| [text::abridged(key), size(*len)]);
                output.table(&["key", "value"], rows, 1)?;
            }
            Format::Raw => {
                for (Reverse(len), key) in &largest {
                    output.bytes(key)?;
                    output.line(format!("\t{len}"))?;
                }
            }
            Format::Json => {
                let told = largest.iter().map(|(Reverse(len), key)| {
                    let mut told = Map::new();
                    text::insert(&mut told, "key", key);
                    told.insert("length".to_owned(), (*len).into());
                    Value::from(told)
                });
                output.json(&told.collect::<Value>())?;
            }
        }
        Ok(())
    }
}
