//! Times the stages of a long task, so that a slow one shows.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The stages that ran so far, in order.
#[derive(Default)]
pub(crate) struct Stages {
    done: Vec<(&'static str, Duration)>,
}

impl Stages {
    /// Announces a stage, runs it and keeps its time, also if it fails.
    pub(crate) fn run<T>(
        &mut self,
        name: &'static str,
        stage: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        println!("\n== {name}");
        let started = Instant::now();
        let result = stage();
        self.done.push((name, started.elapsed()));
        result.with_context(|| format!("stage `{name}` failed"))
    }

    /// The stages and their times, a line each, with the sum.
    pub(crate) fn table(&self) -> String {
        let total = self.done.iter().map(|(_, time)| *time).sum();
        let rows = self.done.iter().copied().chain([("total", total)]);
        rows.map(|(name, time)| format!("{name:<14} {:>7.1} s\n", time.as_secs_f64())).collect()
    }
}
