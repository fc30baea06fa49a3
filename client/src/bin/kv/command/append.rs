//! `kv append`: add to the end of a key's value.

use anyhow::Context;
use serde_json::{Map, Value};

use crate::args::Global;
use crate::duration::Lifetime;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};
use crate::value::ValueArgument;

/// Add to the end of the value under a key, which counts as empty if it is not there, and print how
/// long it is
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv append [OPTIONS] <KEY> <VALUE>")]
pub(crate) struct Append {
    /// The key
    key: Bytes,

    #[command(flatten)]
    tail: ValueArgument,

    #[command(flatten)]
    lifetime: Lifetime,
}

impl Append {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let tail = self.tail.read()?;
        let context = || format!("cannot append to {key}");
        let client = global.connect().with_context(context)?.blocking();
        let appended =
            client.append(&self.key, &tail, self.lifetime.expires_in).with_context(context)?;
        match output.format {
            Format::Table => {
                let readable = text::readable(&self.key);
                output.line(format!("{readable} has {} bytes", appended.value_len))?;
            }
            Format::Raw => output.line(appended.value_len.to_string())?,
            Format::Json => {
                let mut told = Map::new();
                text::insert(&mut told, "key", &self.key);
                told.insert("version".to_owned(), appended.version.to_string().into());
                told.insert("length".to_owned(), appended.value_len.into());
                output.json(&Value::from(told))?;
            }
        }
        Ok(())
    }
}
