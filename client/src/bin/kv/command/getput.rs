//! `kv getput` and `kv getdel`: replace or remove a key's value, and print what it was.

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use weft_client::Replaced;

use crate::args::Global;
use crate::duration::Lifetime;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};
use crate::value::ValueArgument;

/// Store a value under a key, and print the one that was there, if there was one
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv getput [OPTIONS] <KEY> <VALUE>")]
pub(crate) struct Getput {
    /// The key
    key: Bytes,

    #[command(flatten)]
    value: ValueArgument,

    #[command(flatten)]
    lifetime: Lifetime,
}

/// Remove a key and its value, and print the value; exit code 1 if there is none
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv getdel [OPTIONS] <KEY>")]
pub(crate) struct Getdel {
    /// The key
    key: Bytes,
}

impl Getput {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let value = self.value.read()?;
        let context = || format!("cannot put {key}");
        let client = global.connect().with_context(context)?.blocking();
        let lifetime = self.lifetime.expires_in;
        let replaced = client.get_and_put(&self.key, &value, lifetime).with_context(context)?;
        tell_previous(&self.key, &replaced, output)
    }
}

impl Getdel {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let context = || format!("cannot delete {key}");
        let client = global.connect().with_context(context)?.blocking();
        let removed = client.get_and_delete(&self.key).with_context(context)?;
        tell_previous(&self.key, &removed, output)?;
        if removed.previous.is_none() {
            output.finish()?;
            bail!("key not found: {key}");
        }
        Ok(())
    }
}

fn tell_previous(key: &Bytes, replaced: &Replaced, output: &mut Output) -> anyhow::Result<()> {
    let previous = replaced.previous.as_ref();
    match output.format {
        Format::Table => previous.map_or(Ok(()), |value| output.line(text::readable(value)))?,
        Format::Raw => previous.map_or(Ok(()), |value| output.bytes(value))?,
        Format::Json => {
            let mut told = Map::new();
            text::insert(&mut told, "key", key);
            told.insert("version".to_owned(), replaced.version.to_string().into());
            let previous = previous.map(|object| {
                let mut told = Map::new();
                told.insert("version".to_owned(), object.version().to_string().into());
                text::insert(&mut told, "value", object);
                Value::from(told)
            });
            told.insert("previous".to_owned(), previous.into());
            output.json(&Value::from(told))?;
        }
    }
    Ok(())
}
