//! What is printed.

use serde_json::{Value, json};

use super::{Sort, Sorted};

/// The object that scripts rely on: docs/cli.md.
pub(super) fn object(job: &Sort, outcome: &Sorted) -> Value {
    json!({
        "records": outcome.records,
        "records_by_worker": outcome.records_by_worker,
        "attempts": outcome.usage.attempts,
        "workers": job.common.workers,
        "seconds": outcome.usage.seconds,
        "bytes_shuffled": outcome.usage.bytes_shuffled,
        "bytes_spilled": outcome.usage.bytes_spilled,
        "peak_memory_bytes": outcome.usage.peak_memory_bytes,
    })
}

pub(super) fn text(outcome: &Sorted) -> String {
    let Sorted { records, records_by_worker, usage } = outcome;
    format!("{records} records, by worker {records_by_worker:?}\n{}", usage.text("sorted"))
}
