//! Bars on a terminal: one for each phase of a job.

use indicatif::{ProgressBar, ProgressStyle};

/// What a job does for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// What all workers together do.
    pub(crate) total: u64,
    pub(crate) unit: Unit,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Bytes,
    Rounds,
    Slots,
}

pub(crate) struct Progress {
    phases: Vec<Phase>,
    /// The phase that is drawn.
    current: usize,
    /// Of this phase, by worker.
    done: Vec<u64>,
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(phases: Vec<Phase>, workers: usize) -> Self {
        let bar = bar(&phases[0]);
        Self { phases, current: 0, done: vec![0; workers], bar }
    }

    /// A worker has come so far with a phase.
    pub(crate) fn tell(&mut self, worker: usize, phase: usize, done: u64) {
        // Another one has begun with the next already; or this one is told of that before it has begun with it.
        let is_early = phase > self.current && done == 0;
        if phase >= self.phases.len() || phase < self.current || is_early {
            return;
        }
        if phase > self.current {
            self.bar.finish_and_clear();
            self.bar = bar(&self.phases[phase]);
            self.current = phase;
            self.done.fill(0);
        }
        self.done[worker] = done;
        self.bar.set_position(self.done.iter().sum());
    }

    /// The job is done: the bar stays, full, and what is printed next is below it.
    pub(crate) fn finish(&self) {
        self.bar.finish();
        eprintln!();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

/// A bar that is not drawn before something is done.
fn bar(phase: &Phase) -> ProgressBar {
    let counts = match phase.unit {
        Unit::Bytes => "{bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
        Unit::Rounds | Unit::Slots => "{pos}/{len} {per_sec} {eta}",
    };
    let template = format!("{:<6}[{{bar:30}}] {counts}", phase.name);
    let style = ProgressStyle::with_template(&template).expect("the templates are constants");
    ProgressBar::new(phase.total).with_style(style)
}
