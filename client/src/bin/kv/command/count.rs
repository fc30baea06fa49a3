//! `kv count`: print how many objects a table has.

use anyhow::Context;
use serde_json::json;

use crate::args::Global;
use crate::output::{Format, Output};

/// Print how many objects the table has
#[derive(Debug, clap::Args)]
pub(crate) struct Count {}

impl Count {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect().context("cannot count")?.blocking();
        let count = client.count().context("cannot count")?;
        match output.format {
            Format::Table | Format::Raw => output.line(count.to_string())?,
            Format::Json => output.json(&json!({ "objects": count }))?,
        }
        Ok(())
    }
}
