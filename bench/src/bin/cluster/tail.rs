//! How long requests took: as they were, and as they would have been for somebody who asks at a pace and does not wait.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::load::Answer;

/// Latencies are told apart to a thousandth, up to a minute, in nanoseconds.
const LATENCY_MAX: u64 = 60_000_000_000;

/// The answers of some partitions in some time.
pub(crate) struct Tail {
    interval: Duration,
    /// Of each request that was made.
    made: Histogram<u64>,
    /// And of those that would have been made besides, had the requester gone on asking while it waited.
    paced: Histogram<u64>,
}

impl Tail {
    /// Of requesters that ask every `interval`.
    pub(crate) fn new(interval: Duration) -> Result<Self> {
        let histogram = || Histogram::new_with_max(LATENCY_MAX, 3);
        Ok(Self { interval, made: histogram()?, paced: histogram()? })
    }

    pub(crate) fn add<'a>(&mut self, answers: impl Iterator<Item = &'a Answer>) {
        let interval = self.interval.as_nanos() as u64;
        for answer in answers {
            let took =
                (answer.ended.duration_since(answer.began).as_nanos() as u64).min(LATENCY_MAX);
            self.made.saturating_record(took);
            // It has room for all that was made to fit above.
            self.paced.record_correct(took, interval).ok();
        }
    }

    pub(crate) fn p99_us(&self) -> f64 {
        self.made.value_at_quantile(0.99) as f64 / 1e3
    }

    pub(crate) fn paced_p99_us(&self) -> f64 {
        self.paced.value_at_quantile(0.99) as f64 / 1e3
    }

    pub(crate) fn to_json(&self) -> Value {
        let us = |quantile| self.made.value_at_quantile(quantile) as f64 / 1e3;
        json!({
            "count": self.made.len(),
            "p50_us": us(0.5),
            "p99_us": us(0.99),
            "p999_us": us(0.999),
            "max_us": self.made.max() as f64 / 1e3,
            "paced_p99_us": self.paced_p99_us(),
        })
    }
}
