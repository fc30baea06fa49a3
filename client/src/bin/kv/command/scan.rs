//! `kv scan`: print all keys, or all objects.

use anyhow::Context;
use clap::builder::BoolishValueParser;
use serde_json::{Map, Value};
use weft_client::{ScanCursor, ScanOptions, Scanned};

use crate::args::Global;
use crate::complaint::note;
use crate::number;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Print all keys, in no particular order
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv scan [OPTIONS] [PREFIX]")]
pub(crate) struct Scan {
    /// Only keys that begin so
    prefix: Option<Bytes>,

    /// Values as well
    #[arg(long, env = "WEFT_SCAN_VALUES", value_parser = BoolishValueParser::new())]
    values: bool,

    /// Stop after so many or some more, up to twice, and say on stderr with which cursor to go on
    #[arg(long, env = "WEFT_SCAN_LIMIT", value_name = "N", value_parser = number::within(1..=u64::MAX))]
    limit: Option<u64>,

    /// Go on where an earlier scan has stopped
    #[arg(long, env = "WEFT_SCAN_CURSOR", value_name = "CURSOR", default_value_t)]
    cursor: ScanCursor,
}

impl Scan {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect().context("cannot scan")?.blocking();
        let key_prefix = self.prefix.map(Bytes::into_vec).unwrap_or_default();
        let mut options = ScanOptions { key_prefix, from: self.cursor, ..ScanOptions::default() };
        options.with_values = self.values;
        let limit = self.limit.unwrap_or(u64::MAX);
        options.page_objects = options.page_objects.min(limit.try_into().unwrap_or(u32::MAX));
        let mut scan = client.scan(options).context("cannot scan")?;
        let mut told = 0;
        // To the end of a page, so that nothing comes again when it goes on.
        while told < limit || !scan.is_between_pages() {
            let Some(scanned) = scan.next() else { return Ok(()) };
            let scanned = scanned.with_context(|| format!("cannot scan on from {}", scan.cursor()));
            match scanned {
                Ok(scanned) => tell(&scanned, output)?,
                Err(error) => {
                    // What was found is not lost.
                    output.finish()?;
                    return Err(error);
                }
            }
            told += 1;
        }
        output.finish()?;
        let cursor = scan.cursor();
        if !cursor.is_end() {
            note(&format!("there may be more: go on with the same and --cursor {cursor}"));
        }
        Ok(())
    }
}

/// Prints an object that a scan or a range has met.
pub(super) fn tell(scanned: &Scanned, output: &mut Output) -> anyhow::Result<()> {
    let Scanned { key, version, value, .. } = scanned;
    match (output.format, value) {
        (Format::Table, None) => output.line(text::abridged(key))?,
        (Format::Table, Some(value)) => {
            output.line(format!("{}\t{}", text::abridged(key), text::abridged(value)))?;
        }
        (Format::Raw, None) => {
            output.bytes(key)?;
            output.line("")?;
        }
        (Format::Raw, Some(value)) => {
            output.bytes(key)?;
            output.bytes(b"\t")?;
            output.bytes(value)?;
            output.line("")?;
        }
        (Format::Json, value) => {
            let mut told = Map::new();
            text::insert(&mut told, "key", key);
            told.insert("version".to_owned(), version.to_string().into());
            told.insert("length".to_owned(), scanned.value_len.into());
            if let Some(expires_at_ms) = scanned.expires_at_ms {
                told.insert("expires_at_ms".to_owned(), expires_at_ms.into());
            }
            if let Some(value) = value {
                text::insert(&mut told, "value", value);
            }
            output.json(&Value::from(told))?;
        }
    }
    Ok(())
}
