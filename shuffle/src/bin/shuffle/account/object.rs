//! The account as JSON: docs/cli.md.

use serde_json::{Value, json};

use super::Whole;
use super::told::Told;

/// The form of the object: another number when a member means something else.
const FORM: u64 = 1;

pub(super) fn of(whole: &Whole<'_>) -> Value {
    let merged = &whole.merged;
    json!({
        "report": FORM,
        "job": whole.job,
        "arguments": whole.arguments,
        "version": env!("CARGO_PKG_VERSION"),
        "outcome": if whole.error.is_none() { "done" } else { "failed" },
        "error": whole.error,
        "started": whole.started,
        "seconds": whole.seconds,
        "attempts": whole.attempts,
        "read": merged.read,
        "written": merged.written,
        "stages": merged.stages,
        "exchanges_merged": merged.exchanges_merged,
        "bytes_between_workers": merged.bytes_between,
        "workers": whole.told.iter().enumerate().map(worker).collect::<Vec<_>>(),
        "result": whole.result,
    })
}

/// One that was lost, or failed, has told nothing.
fn worker((id, told): (usize, &Option<Told>)) -> Value {
    let Some(told) = told else { return json!({"id": id, "has_told": false}) };
    json!({
        "id": id,
        "has_told": true,
        "seconds": told.seconds,
        "peak_memory_bytes": told.peak_memory_bytes,
        "bytes_spilled": told.bytes_spilled,
        "timeline": told.timeline,
    })
}
