//! `kv exists`: ask whether a key has a value.

use anyhow::{Context, bail};
use weft_client::Existence;

use crate::args::Global;
use crate::command::put::tell_version;
use crate::output::Output;
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
        let existence = client.exists(&self.key).with_context(context)?;
        tell_existence(&self.key, existence, output)
    }
}

/// Prints the version of a key's value, or fails if there is none.
pub(super) fn tell_existence(
    key: &Bytes,
    Existence { version, exists }: Existence,
    output: &mut Output,
) -> anyhow::Result<()> {
    tell_version(key, version, (!exists).then_some("key not found"), output)?;
    if !exists {
        bail!("key not found: {}", text::quoted(key));
    }
    Ok(())
}
