//! `kv watch`: print what happens to a key, or to the keys with a prefix, as it happens.

use std::pin::pin;

use anyhow::Context;
use bytesize::ByteSize;
use clap::ArgGroup;
use clap::builder::BoolishValueParser;
use futures_util::future::{Either, select};
use serde_json::{Map, Value};
use weft_client::{
    Client, ClientError, KeyChange, Lookup, Watch as Events, WatchEvent, WatchOptions,
};

use crate::args::Global;
use crate::complaint::note;
use crate::interrupt::Interrupt;
use crate::number;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Print what happens to a key, or to the keys with a prefix, until Ctrl-C; exit code 1 if changes were missed
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "kv watch [OPTIONS] <KEY>\n       kv watch [OPTIONS] --prefix <PREFIX>",
    group = ArgGroup::new("watched").required(true).args(["key", "prefix"])
)]
pub(crate) struct Watch {
    /// The key
    key: Option<Bytes>,

    /// All keys that begin so
    #[arg(long, env = "WEFT_WATCH_PREFIX", value_name = "PREFIX")]
    prefix: Option<Bytes>,

    /// Values as well: what a key has when its change is printed, which may be newer
    #[arg(long, env = "WEFT_WATCH_VALUES", value_parser = BoolishValueParser::new())]
    values: bool,

    /// End after so many changes
    #[arg(long, env = "WEFT_WATCH_COUNT", value_name = "N", value_parser = number::within(1..=u64::MAX))]
    count: Option<u64>,

    /// How much of changes each node keeps until they are printed, 16 bytes and the key for each: from 4KiB to 16MiB [default: 1MiB, less
    /// on small nodes]
    #[arg(long, env = "WEFT_WATCH_QUEUE", value_name = "SIZE", value_parser = queue_bytes)]
    queue: Option<u32>,
}

impl Watch {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect().context("cannot watch")?;
        // Before anybody is told that it has begun.
        let mut interrupt = Interrupt::heed().context("cannot wait for Ctrl-C")?;
        let mut events = client.block_on(self.begin(&client)).context("cannot watch")?;
        let mut told = 0;
        while self.count.is_none_or(|count| told < count) {
            let next = async {
                let event = events.next().await?;
                let value = self.value_of(&client, &event).await?;
                Ok::<_, ClientError>((event, value))
            };
            let next = pin!(next);
            let (event, value) = match client.block_on(select(next, interrupt.pressed())) {
                Either::Left((next, _)) => next.context("cannot watch on")?,
                Either::Right(_) => break,
            };
            tell(&event, value.as_ref(), output)?;
            // Whoever waits for it sees it now.
            output.finish()?;
            told += 1;
        }
        Ok(())
    }

    /// Opens the watch, and says that it is open.
    async fn begin(&self, client: &Client) -> Result<Events, ClientError> {
        let options = WatchOptions { queue_bytes: self.queue };
        let Some(key) = &self.key else {
            let prefix = self.prefix.as_deref().unwrap_or_default();
            let events = client.watch_prefix(prefix, options).await?;
            note(&format!("watching the keys that begin with {}", text::quoted(prefix)));
            return Ok(events);
        };
        let events = client.watch(key, options).await?;
        let key = text::quoted(key);
        note(&match events.found() {
            Some(found) if found.exists => format!("watching {key}, which is at {}", found.version),
            _ => format!("watching {key}, which has no value"),
        });
        Ok(events)
    }

    async fn value_of(
        &self,
        client: &Client,
        event: &WatchEvent,
    ) -> Result<Option<Lookup>, ClientError> {
        match event {
            WatchEvent::Key { key, change: KeyChange::Written, .. } if self.values => {
                client.get(key).await.map(Some)
            }
            _ => Ok(None),
        }
    }
}

fn queue_bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse::<ByteSize>().ok().map(|size| size.as_u64());
    let bytes = bytes.filter(|bytes| (4 << 10..=16 << 20).contains(bytes));
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| "give a size from 4KiB to 16MiB".to_owned())
}

/// Change, version, key and value with tabs between, or a line of JSON.
fn tell(event: &WatchEvent, value: Option<&Lookup>, output: &mut Output) -> anyhow::Result<()> {
    if output.format == Format::Json {
        return Ok(output.json(&to_json(event, value))?);
    }
    let is_table = output.format == Format::Table;
    match event {
        WatchEvent::Key { key, change, version } => {
            output.bytes(format!("{}\t{version}\t", change.name()).as_bytes())?;
            let shown = |bytes: &[u8]| match is_table {
                true => text::abridged(bytes).into_bytes(),
                false => bytes.to_vec(),
            };
            output.bytes(&shown(key))?;
            if let Some(Lookup::Found(object)) = value {
                output.bytes(b"\t")?;
                output.bytes(&shown(object))?;
            }
        }
        WatchEvent::Table { first_slot, last_slot, change, version } => {
            let told = format!("{}\t{version}\tslots {first_slot} to {last_slot}", change.name());
            output.bytes(told.as_bytes())?;
        }
    }
    Ok(output.line("")?)
}

fn to_json(event: &WatchEvent, value: Option<&Lookup>) -> Value {
    let mut told = Map::new();
    let change = match event {
        WatchEvent::Key { change, .. } => change.name(),
        WatchEvent::Table { change, .. } => change.name(),
    };
    told.insert("change".to_owned(), change.into());
    told.insert("version".to_owned(), event.version().to_string().into());
    match event {
        WatchEvent::Key { key, .. } => text::insert(&mut told, "key", key),
        WatchEvent::Table { first_slot, last_slot, .. } => {
            told.insert("first_slot".to_owned(), first_slot.number().into());
            told.insert("last_slot".to_owned(), last_slot.number().into());
        }
    }
    match value {
        Some(Lookup::Found(object)) => {
            text::insert(&mut told, "value", object);
            told.insert("value_version".to_owned(), object.version().to_string().into());
        }
        // It is gone again.
        Some(Lookup::Absent { .. }) => drop(told.insert("value".to_owned(), Value::Null)),
        None => {}
    }
    told.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_a_size_that_nodes_take() {
        assert_eq!(queue_bytes("4KiB"), Ok(4 << 10));
        assert_eq!(queue_bytes("16MiB"), Ok(16 << 20));
        for text in ["", "4095", "17MiB", "99999999999GiB", "much"] {
            assert_eq!(queue_bytes(text), Err("give a size from 4KiB to 16MiB".to_owned()));
        }
    }
}
