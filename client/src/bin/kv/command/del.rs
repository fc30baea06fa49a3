//! `kv del`: remove the value of a key.

use anyhow::Context;
use serde_json::{Map, Value};

use crate::args::Global;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Remove a key and its value; no error if there is none
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv del [OPTIONS] <KEY>")]
pub(crate) struct Del {
    /// The key
    key: Bytes,
}

impl Del {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let context = || format!("cannot delete {key}");
        let client = global.connect().with_context(context)?.blocking();
        let deleted = client.delete(&self.key).with_context(context)?;
        match (output.format, deleted.existed) {
            (Format::Table, true) => output.line(format!("{key} is deleted"))?,
            (Format::Table, false) => output.line(format!("{key} was not there"))?,
            (Format::Raw, true) => output.line("deleted")?,
            (Format::Raw, false) => output.line("absent")?,
            (Format::Json, existed) => {
                let mut object = Map::new();
                text::insert(&mut object, "key", &self.key);
                object.insert("existed".to_owned(), existed.into());
                object.insert("version".to_owned(), deleted.version.to_string().into());
                output.json(&Value::from(object))?;
            }
        }
        Ok(())
    }
}
