//! `kv get`: print the value of a key.

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use weft_client::{Lookup, RangeLookup};

use crate::args::Global;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Print the value of a key
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv get [OPTIONS] <KEY>")]
pub(crate) struct Get {
    /// The key
    key: Bytes,

    /// Leave out so many bytes at the beginning of the value
    #[arg(long, env = "WEFT_GET_OFFSET", value_name = "BYTES")]
    offset: Option<u64>,

    /// Print at most so many bytes
    #[arg(long, env = "WEFT_GET_LENGTH", value_name = "BYTES")]
    length: Option<u32>,
}

impl Get {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let context = || format!("cannot get {key}");
        let client = global.connect().with_context(context)?.blocking();
        let lookup = match (self.offset, self.length) {
            (None, None) => client.get(&self.key),
            (offset, length) => client
                .get_range(&self.key, offset.unwrap_or(0), length.unwrap_or(u32::MAX))
                .map(|found| match found {
                    RangeLookup::Found { bytes, .. } => Lookup::Found(bytes),
                    RangeLookup::Absent { version } => Lookup::Absent { version },
                }),
        };
        let lookup = lookup.with_context(context)?;
        if output.format == Format::Json {
            output.json(&lookup_to_json(&self.key, &lookup))?;
            output.finish()?;
        }
        let Some(object) = lookup.into_object() else {
            bail!("key not found: {key}");
        };
        match output.format {
            Format::Table => output.line(text::readable(&object))?,
            Format::Raw => output.bytes(&object)?,
            Format::Json => {}
        }
        Ok(())
    }
}

/// The key with its version, and with its value or that there is none.
pub(super) fn lookup_to_json(key: &[u8], lookup: &Lookup) -> Value {
    let mut told = Map::new();
    text::insert(&mut told, "key", key);
    told.insert("version".to_owned(), lookup.version().to_string().into());
    match lookup {
        Lookup::Found(object) => text::insert(&mut told, "value", object),
        Lookup::Absent { .. } => {
            told.insert("error".to_owned(), "key not found".into());
        }
    }
    told.into()
}
