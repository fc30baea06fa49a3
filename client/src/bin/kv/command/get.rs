//! `kv get`: print the value of a key.

use anyhow::{Context, bail};
use serde_json::{Map, Value};

use crate::args::Global;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Print the value of a key
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv get [OPTIONS] <KEY>")]
pub(crate) struct Get {
    /// The key
    key: Bytes,
}

impl Get {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let context = || format!("cannot get {key}");
        let client = global.connect().with_context(context)?.blocking();
        let Some(object) = client.get(&self.key).with_context(context)? else {
            bail!("key not found: {key}");
        };
        match output.format {
            Format::Table => output.line(text::readable(&object))?,
            Format::Raw => output.bytes(&object)?,
            Format::Json => {
                let mut found = Map::new();
                text::insert(&mut found, "key", &self.key);
                found.insert("version".to_owned(), object.version().to_string().into());
                text::insert(&mut found, "value", &object);
                output.json(&Value::from(found))?;
            }
        }
        Ok(())
    }
}
