//! What is printed.

use bytesize::ByteSize;
use serde_json::{Value, json};

use super::{Sort, Sorted};

/// The object that scripts rely on: docs/cli.md.
pub(super) fn object(job: &Sort, outcome: &Sorted) -> Value {
    json!({
        "records": outcome.records,
        "records_by_worker": outcome.records_by_worker,
        "workers": job.common.workers,
        "seconds": outcome.seconds,
        "bytes_shuffled": outcome.bytes_shuffled,
        "bytes_spilled": outcome.bytes_spilled,
        "peak_memory_bytes": outcome.peak_memory_bytes,
    })
}

pub(super) fn text(outcome: &Sorted) -> String {
    format!(
        "{} records, by worker {:?}\n\
         sorted            {:.3} s\n\
         shuffled          {}\n\
         kept in files     {}\n\
         memory at most    {} a worker\n",
        outcome.records,
        outcome.records_by_worker,
        outcome.seconds,
        ByteSize::b(outcome.bytes_shuffled),
        ByteSize::b(outcome.bytes_spilled),
        ByteSize::b(outcome.peak_memory_bytes),
    )
}
