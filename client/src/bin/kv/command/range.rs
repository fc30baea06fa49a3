//! `kv range`: print keys of an ordered table in their order.

use std::ops::Bound;

use anyhow::Context;
use clap::builder::BoolishValueParser;
use weft_client::RangeOptions;

use super::scan::tell;
use crate::args::Global;
use crate::number;
use crate::output::Output;
use crate::text::Bytes;

/// Print the keys of an ordered table, in their order
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv range [OPTIONS]")]
pub(crate) struct Range {
    /// Only keys that begin so
    #[arg(long, env = "WEFT_RANGE_PREFIX", value_name = "PREFIX", conflicts_with_all = ["from", "after", "to"])]
    prefix: Option<Bytes>,

    /// Only this key and those above it
    #[arg(long, env = "WEFT_RANGE_FROM", value_name = "KEY", conflicts_with = "after")]
    from: Option<Bytes>,

    /// Only keys above this one
    #[arg(long, env = "WEFT_RANGE_AFTER", value_name = "KEY")]
    after: Option<Bytes>,

    /// Only keys below this one
    #[arg(long, env = "WEFT_RANGE_TO", value_name = "KEY")]
    to: Option<Bytes>,

    /// The largest key first
    #[arg(long, env = "WEFT_RANGE_REVERSE", value_parser = BoolishValueParser::new())]
    reverse: bool,

    /// Values as well
    #[arg(long, env = "WEFT_RANGE_VALUES", value_parser = BoolishValueParser::new())]
    values: bool,

    /// Stop after so many
    #[arg(long, env = "WEFT_RANGE_LIMIT", value_name = "N", value_parser = number::within(1..=u64::MAX))]
    limit: Option<u64>,
}

impl Range {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let context = "cannot read the range";
        let client = global.connect().context(context)?.blocking();
        let mut options = match self.prefix {
            Some(prefix) => RangeOptions::prefix(prefix.into_vec()),
            None => RangeOptions::default(),
        };
        if let Some(from) = self.from {
            options.lower = Bound::Included(from.into_vec());
        }
        if let Some(after) = self.after {
            options.lower = Bound::Excluded(after.into_vec());
        }
        if let Some(to) = self.to {
            options.upper = Bound::Excluded(to.into_vec());
        }
        options.descending = self.reverse;
        options.with_values = self.values;
        let limit = self.limit.unwrap_or(u64::MAX);
        options.page_objects = options.page_objects.min(limit.try_into().unwrap_or(u32::MAX));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        for object in client.range(options).context(context)?.take(limit) {
            match object.context(context) {
                Ok(object) => tell(&object, output)?,
                Err(error) => {
                    // What was found is not lost.
                    output.finish()?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
