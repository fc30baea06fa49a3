//! `kv put`: store a value under a key.

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use weft_client::{Compared, Version};

use crate::args::Global;
use crate::duration::Lifetime;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};
use crate::value::ValueArgument;

/// Store a value under a key
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv put [OPTIONS] <KEY> <VALUE>")]
pub(crate) struct Put {
    /// The key
    key: Bytes,

    #[command(flatten)]
    value: ValueArgument,

    #[command(flatten)]
    lifetime: Lifetime,

    /// Only if the key has no value; exit code 1 if it has
    #[arg(long, env = "WEFT_IF_ABSENT", value_parser = clap::builder::BoolishValueParser::new())]
    if_absent: bool,

    /// Only if the value that is there has this version; exit code 1 if it has not
    #[arg(long, env = "WEFT_IF_VERSION", value_name = "VERSION", conflicts_with = "if_absent")]
    if_version: Option<Version>,
}

impl Put {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let value = self.value.read()?;
        let context = || format!("cannot put {key}");
        let client = global.connect().with_context(context)?.blocking();
        let lifetime = self.lifetime.expires_in;
        let expected = if self.if_absent { Some(Version::NONE) } else { self.if_version };
        let written = match (expected, lifetime) {
            (Some(expected), _) => client.compare_and_set(&self.key, expected, &value, lifetime),
            (None, Some(lifetime)) => client
                .put_expiring(&self.key, &value, lifetime)
                .map(|version| Compared::Written { version }),
            (None, None) => {
                client.put(&self.key, &value).map(|version| Compared::Written { version })
            }
        };
        let (version, refusal) = match written.with_context(context)? {
            Compared::Written { version } => (version, None),
            Compared::Conflict { version } => {
                (version, Some(format!("it is at version {version}")))
            }
            Compared::Absent { version } => (version, Some("it has no value".to_owned())),
        };
        tell_version(&self.key, version, refusal.as_deref(), output)?;
        match refusal {
            Some(refusal) => bail!("cannot put {key}: {refusal}"),
            None => Ok(()),
        }
    }
}

/// Prints at which version a key is, or in JSON also why it is not the one that was wanted.
pub(super) fn tell_version(
    key: &Bytes,
    version: Version,
    refusal: Option<&str>,
    output: &mut Output,
) -> anyhow::Result<()> {
    match (output.format, refusal) {
        (Format::Json, _) => {
            let mut told = Map::new();
            text::insert(&mut told, "key", key);
            told.insert("version".to_owned(), version.to_string().into());
            if let Some(refusal) = refusal {
                told.insert("error".to_owned(), refusal.into());
            }
            output.json(&Value::from(told))?;
            // Before anything on stderr.
            output.finish()?;
        }
        (Format::Table | Format::Raw, Some(_)) => {}
        (Format::Table, None) => {
            output.line(format!("{} is at version {version}", text::readable(key)))?;
        }
        (Format::Raw, None) => output.line(version.to_string())?,
    }
    Ok(())
}
