//! `kv incr`: add to the number that a key holds.

use anyhow::Context;
use serde_json::{Map, Value};

use crate::args::Global;
use crate::duration::Lifetime;
use crate::number;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};

/// Add to the number under a key, which counts as 0 if it is not there, and print the sum
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv incr [OPTIONS] <KEY> [DELTA]")]
pub(crate) struct Incr {
    /// The key
    key: Bytes,

    /// What to add
    #[arg(default_value_t = 1, allow_negative_numbers = true,
          value_parser = number::within(i64::MIN..=i64::MAX))]
    delta: i64,

    #[command(flatten)]
    lifetime: Lifetime,
}

impl Incr {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let context = || format!("cannot add to {}", text::quoted(&self.key));
        let client = global.connect().with_context(context)?.blocking();
        let sum = client
            .increment(&self.key, self.delta, self.lifetime.expires_in)
            .with_context(context)?;
        match output.format {
            Format::Table | Format::Raw => output.line(sum.number.to_string())?,
            Format::Json => {
                let mut told = Map::new();
                text::insert(&mut told, "key", &self.key);
                told.insert("version".to_owned(), sum.version.to_string().into());
                // Text, since a number of 64 bits does not fit that of every JSON reader.
                told.insert("number".to_owned(), sum.number.to_string().into());
                output.json(&Value::from(told))?;
            }
        }
        Ok(())
    }
}
