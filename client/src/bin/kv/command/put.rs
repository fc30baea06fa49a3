//! `kv put`: store a value under a key.

use std::time::Duration;

use anyhow::Context;
use clap::builder::BoolishValueParser;
use serde_json::{Map, Value};

use crate::args::Global;
use crate::duration;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};
use crate::value::Source;

/// Store a value under a key
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv put [OPTIONS] <KEY> <VALUE>")]
pub(crate) struct Put {
    /// The key
    key: Bytes,

    /// The value; `-` reads it from stdin, `@FILE` from a file
    #[arg(allow_negative_numbers = true)]
    value: Bytes,

    /// Take the value as it is typed, `-` and `@` included
    #[arg(long, env = "WEFT_LITERAL", value_parser = BoolishValueParser::new())]
    literal: bool,

    /// Let the object cease to be after this long, such as 10m
    #[arg(
        long,
        env = "WEFT_EXPIRES_IN",
        value_name = "DURATION",
        value_parser = duration::any
    )]
    expires_in: Option<Duration>,
}

impl Put {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let value = Source::of(self.value.into_vec(), self.literal).read()?;
        let context = || format!("cannot put {key}");
        let client = global.connect().with_context(context)?.blocking();
        let version = match self.expires_in {
            Some(lifetime) => client.put_expiring(&self.key, &value, lifetime),
            None => client.put(&self.key, &value),
        };
        let version = version.with_context(context)?.to_string();
        match output.format {
            Format::Table => {
                output.line(format!("{} is at version {version}", text::readable(&self.key)))?
            }
            Format::Raw => output.line(version)?,
            Format::Json => {
                let mut object = Map::new();
                text::insert(&mut object, "key", &self.key);
                object.insert("version".to_owned(), version.into());
                output.json(&Value::from(object))?;
            }
        }
        Ok(())
    }
}
