//! What is printed.

use serde_json::{Value, json};

use super::{Clustered, Kmeans};
use crate::job::Asked as _;

/// As many numbers of a centre as are shown.
const SHOWN: usize = 6;

/// The object that scripts rely on: docs/cli.md.
pub(super) fn object(job: &Kmeans, outcome: &Clustered) -> Value {
    json!({
        "points": outcome.points,
        "dimensions": outcome.dimensions,
        "lines_skipped": outcome.lines_skipped,
        "attempts": outcome.usage.attempts,
        "first_round": outcome.first_round,
        "rounds": outcome.rounds,
        "is_settled": outcome.is_settled,
        "cost": outcome.cost,
        "workers": job.common().workers,
        "load_seconds": outcome.load_seconds,
        "seconds": outcome.usage.seconds,
        "bytes_shuffled": outcome.usage.bytes_shuffled,
        "bytes_spilled": outcome.usage.bytes_spilled,
        "peak_memory_bytes": outcome.usage.peak_memory_bytes,
        "clusters": outcome.clusters,
    })
}

pub(super) fn text(outcome: &Clustered) -> String {
    let ending = if outcome.is_settled { "no centre moves any more" } else { "centres still move" };
    let mut text = format!(
        "{} points of {} dimensions, cost {:.6e}\n\
         skipped           {} malformed lines\n\
         load              {:.3} s\n\
         rounds            {}, the last attempt from round {} on: {ending}\n\
         {}\n{:>20}  centre\n",
        outcome.points,
        outcome.dimensions,
        outcome.cost,
        outcome.lines_skipped,
        outcome.load_seconds,
        outcome.rounds,
        outcome.first_round,
        outcome.usage.text("clustered"),
        "points",
    );
    for cluster in &outcome.clusters {
        let shown = cluster.centre.iter().take(SHOWN).map(|number| format!("{number:.6}"));
        let more = if cluster.centre.len() > SHOWN { ", …" } else { "" };
        let shown: Vec<String> = shown.collect();
        text += &format!("{:>20}  {}{more}\n", cluster.points, shown.join(", "));
    }
    text
}
