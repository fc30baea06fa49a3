//! What many seeds came to.

use std::io::Write;
use std::time::Duration;

use weft_sim::history::Counts;
use weft_sim::ledger::Ledger;
use weft_sim::nemesis;
use weft_sim::scenario::{Run, Scenario};
use weft_sim::sometimes::Sometimes;

/// The sum of runs that are well.
#[derive(Default)]
pub(crate) struct Total {
    counts: Counts,
    virtual_seconds: f64,
    connections_lost: u64,
    nodes_gone: u64,
    steps: u64,
    faults: nemesis::Counts,
    sometimes: Sometimes,
    ledger: Ledger,
}

/// So many seeds have to meet all that their scenario is there to meet.
const MANY_SEEDS: u64 = 500;

impl Total {
    pub(crate) fn add(&mut self, run: &Run) {
        self.add_counts(run.history.counts());
        self.virtual_seconds += run.summary.virtual_time.as_secs_f64();
        self.connections_lost += run.summary.connections_lost;
        self.nodes_gone += run.summary.nodes_gone;
        self.steps += run.summary.steps;
        self.faults.add(&run.faults);
        self.sometimes.add(&run.sometimes);
        self.ledger.add(&run.ledger);
    }

    pub(crate) fn merge(&mut self, other: &Total) {
        self.add_counts(other.counts);
        self.virtual_seconds += other.virtual_seconds;
        self.connections_lost += other.connections_lost;
        self.nodes_gone += other.nodes_gone;
        self.steps += other.steps;
        self.faults.add(&other.faults);
        self.sometimes.add(&other.sometimes);
        self.ledger.add(&other.ledger);
    }

    fn add_counts(&mut self, counts: Counts) {
        self.counts.completed += counts.completed;
        self.counts.not_applied += counts.not_applied;
        self.counts.unknown += counts.unknown;
    }

    /// What never came about in so many seeds, if they are many.
    pub(crate) fn missing(&self, scenario: Scenario, seeds: u64) -> Vec<&'static str> {
        if seeds < MANY_SEEDS { Vec::new() } else { self.sometimes.missing(scenario.required()) }
    }

    pub(crate) fn print(
        &self,
        out: &mut impl Write,
        seeds: u64,
        first: u64,
        took: Duration,
    ) -> std::io::Result<()> {
        let Counts { completed, not_applied, unknown } = self.counts;
        let Total { virtual_seconds, connections_lost, nodes_gone, steps, ledger, .. } = self;
        writeln!(out, "{seeds} seeds from {first}: linearizable")?;
        writeln!(out, "{completed} operations told, {not_applied} not applied, {unknown} unknown")?;
        writeln!(out, "ledger: {ledger}")?;
        write!(out, "{virtual_seconds:.1} virtual seconds, {steps} steps, ")?;
        writeln!(out, "{connections_lost} connections lost, {nodes_gone} nodes gone")?;
        let real = took.as_secs_f64().max(1e-9);
        write!(out, "{real:.1} real seconds: {:.1} seeds a second, ", seeds as f64 / real)?;
        writeln!(out, "{:.2} simulated hours an hour", virtual_seconds / real)?;
        if !self.faults.0.is_empty() {
            writeln!(out, "{}", self.faults)?;
        }
        writeln!(out, "     times  situation\n{}", self.sometimes)
    }
}
