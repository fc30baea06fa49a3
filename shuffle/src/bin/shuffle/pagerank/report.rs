//! What is printed.

use serde_json::{Value, json};

use super::{Pagerank, Ranked};

/// The object that scripts rely on: docs/cli.md.
pub(super) fn object(job: &Pagerank, outcome: &Ranked) -> Value {
    let Seconds { p5, median, p95 } = Seconds::of(&outcome.seconds);
    json!({
        "vertices": outcome.vertices,
        "edges": outcome.edges,
        "lines_skipped": outcome.lines_skipped,
        "iterations": job.iterations,
        "workers": job.common.workers,
        "attempts": outcome.usage.attempts,
        "first_round": outcome.first_round,
        "load_seconds": outcome.load_seconds,
        "seconds_per_iteration": median,
        "seconds_per_iteration_p5": p5,
        "seconds_per_iteration_p95": p95,
        "bytes_shuffled_per_iteration": bytes_per_iteration(outcome),
        "bytes_spilled": outcome.usage.bytes_spilled,
        "peak_memory_bytes": outcome.usage.peak_memory_bytes,
        "edges_by_worker": outcome.edges_by_worker,
        "top": outcome.top,
    })
}

/// Of the attempt that came to the end.
fn bytes_per_iteration(outcome: &Ranked) -> u64 {
    outcome.bytes_shuffled / outcome.seconds.len().max(1) as u64
}

pub(super) fn text(outcome: &Ranked) -> String {
    let Seconds { p5, median, p95 } = Seconds::of(&outcome.seconds);
    let mut text = format!(
        "{} vertices, {} edges, by worker {:?}\n\
         skipped           {} malformed lines\n\
         attempts          {}, the last one from round {} on\n\
         load              {:.3} s\n\
         an iteration      {:.6} s (p5 {:.6}, p95 {:.6}), {} of them\n\
         shuffled          {} bytes an iteration\n\
         {}",
        outcome.vertices,
        outcome.edges,
        outcome.edges_by_worker,
        outcome.lines_skipped,
        outcome.usage.attempts,
        outcome.first_round,
        outcome.load_seconds,
        median,
        p5,
        p95,
        outcome.seconds.len(),
        bytes_per_iteration(outcome),
        outcome.usage.memory_text(),
    );
    if !outcome.top.is_empty() {
        text += &format!("\n{:>20}  rank\n", "vertex");
    }
    for top in &outcome.top {
        text += &format!("{:>20}  {:.10}\n", top.vertex, top.rank);
    }
    text
}

struct Seconds {
    p5: f64,
    median: f64,
    p95: f64,
}

impl Seconds {
    fn of(seconds: &[f64]) -> Self {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        // The nearest rank: a value that was measured.
        let quantile = |part: f64| {
            let rank = (part * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        Self { p5: quantile(0.05), median: quantile(0.5), p95: quantile(0.95) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let seconds: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let Seconds { p5, median, p95 } = Seconds::of(&seconds);
        assert_eq!((p5, median, p95), (1.0, 10.0, 19.0));
        let one = Seconds::of(&[3.0]);
        assert_eq!((one.p5, one.median, one.p95), (3.0, 3.0, 3.0));
    }
}
