//! What is printed.

use serde_json::{Value, json};

use super::{Join, Joined};
use crate::job::Asked as _;

/// The object that scripts rely on: docs/cli.md.
pub(super) fn object(job: &Join, outcome: &Joined) -> Value {
    json!({
        "left": outcome.left,
        "right": outcome.right,
        "joined": outcome.joined,
        "joined_by_worker": outcome.joined_by_worker,
        "lines_skipped": outcome.lines_skipped,
        "attempts": outcome.usage.attempts,
        "workers": job.common().workers,
        "seconds": outcome.usage.seconds,
        "bytes_shuffled": outcome.usage.bytes_shuffled,
        "bytes_spilled": outcome.usage.bytes_spilled,
        "peak_memory_bytes": outcome.usage.peak_memory_bytes,
    })
}

pub(super) fn text(outcome: &Joined) -> String {
    let Joined { left, right, joined, joined_by_worker, lines_skipped, usage } = outcome;
    format!(
        "{left} pairs and {right} pairs, {joined} with the same key, by worker {joined_by_worker:?}\n\
         skipped           {lines_skipped} malformed lines\n\
         {}",
        usage.text("joined"),
    )
}
