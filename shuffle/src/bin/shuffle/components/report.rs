//! What is printed.

use serde_json::{Value, json};

use super::{Components, Connected};
use crate::job::Asked as _;

/// The object that scripts rely on: docs/cli.md.
pub(super) fn object(job: &Components, outcome: &Connected) -> Value {
    json!({
        "vertices": outcome.vertices,
        "components": outcome.components,
        "lines_skipped": outcome.lines_skipped,
        "attempts": outcome.usage.attempts,
        "first_round": outcome.first_round,
        "rounds": outcome.rounds,
        "workers": job.common().workers,
        "load_seconds": outcome.load_seconds,
        "seconds": outcome.usage.seconds,
        "bytes_shuffled": outcome.usage.bytes_shuffled,
        "bytes_spilled": outcome.usage.bytes_spilled,
        "peak_memory_bytes": outcome.usage.peak_memory_bytes,
        "top": outcome.top,
    })
}

pub(super) fn text(outcome: &Connected) -> String {
    let mut text = format!(
        "{} vertices in {} components\n\
         skipped           {} malformed lines\n\
         load              {:.3} s\n\
         rounds            {}, the last attempt from round {} on\n\
         {}",
        outcome.vertices,
        outcome.components,
        outcome.lines_skipped,
        outcome.load_seconds,
        outcome.rounds,
        outcome.first_round,
        outcome.usage.text("connected"),
    );
    if !outcome.top.is_empty() {
        text += &format!("\n{:>20}  vertices\n", "component");
    }
    for top in &outcome.top {
        text += &format!("{:>20}  {}\n", top.component, top.vertices);
    }
    text
}
