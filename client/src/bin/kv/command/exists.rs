//! `kv exists`: ask whether a key has a value.

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use weft_client::Existence;

use crate::args::Global;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Print the version of a key's value; exit code 1 if there is none
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv exists [OPTIONS] <KEY>")]
pub(crate) struct Exists {
    /// The key
    key: Bytes,
}

impl Exists {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let context = || format!("cannot look for {key}");
        let client = global.connect().with_context(context)?.blocking();
        let Existence { version, exists } = client.exists(&self.key).with_context(context)?;
        if output.format == Format::Json {
            let mut told = Map::new();
            text::insert(&mut told, "key", &self.key);
            told.insert("version".to_owned(), version.to_string().into());
            if !exists {
                told.insert("error".to_owned(), "key not found".into());
            }
            output.json(&Value::from(told))?;
            output.finish()?;
        }
        if !exists {
            bail!("key not found: {key}");
        }
        match output.format {
            Format::Table => {
                output.line(format!("{} is at version {version}", text::readable(&self.key)))?
            }
            Format::Raw => output.line(version.to_string())?,
            Format::Json => {}
        }
        Ok(())
    }
}
