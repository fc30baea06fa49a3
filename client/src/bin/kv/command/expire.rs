//! `kv expire` and `kv persist`: change when a key's value ceases to be.

use std::time::Duration;

use anyhow::Context;

use crate::args::Global;
use crate::command::exists::tell_existence;
use crate::duration;
use crate::output::Output;
use crate::text::{self, Bytes};

/// Let a key's value cease to be after a while; exit code 1 if there is none
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv expire [OPTIONS] <KEY> <DURATION>")]
pub(crate) struct Expire {
    /// The key
    key: Bytes,

    /// How long from now on, such as 10m
    #[arg(value_parser = duration::any)]
    duration: Duration,
}

/// Let a key's value stay for good; exit code 1 if there is none
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv persist [OPTIONS] <KEY>")]
pub(crate) struct Persist {
    /// The key
    key: Bytes,
}

impl Expire {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let context = || format!("cannot change the expiry of {}", text::quoted(&self.key));
        let client = global.connect().with_context(context)?.blocking();
        let existence = client.expire(&self.key, self.duration).with_context(context)?;
        tell_existence(&self.key, existence, output)
    }
}

impl Persist {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let context = || format!("cannot take the expiry of {} back", text::quoted(&self.key));
        let client = global.connect().with_context(context)?.blocking();
        let existence = client.persist(&self.key).with_context(context)?;
        tell_existence(&self.key, existence, output)
    }
}
