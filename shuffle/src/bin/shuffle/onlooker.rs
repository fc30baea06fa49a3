//! Who is told how far a job is: a terminal, those who ask the cluster, or nobody.

use std::io::IsTerminal as _;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::event::Now;
use crate::progress::{Phase, Progress, stage};

pub(crate) enum Onlooker {
    Nobody,
    Terminal(Progress),
    /// Whoever reads it now and then.
    Reader(Arc<Mutex<HowFar>>),
}

/// How far a job is.
#[derive(Debug)]
pub(crate) struct HowFar {
    phases: Vec<Phase>,
    /// The phase that was told of last.
    current: usize,
    /// Of this phase, by worker.
    done: Vec<u64>,
    /// What each worker is doing.
    stages: Vec<Option<Now>>,
}

impl Onlooker {
    /// Who looks at this command.
    pub(crate) fn of_terminal(phases: Vec<Phase>, workers: usize) -> Onlooker {
        if std::io::stderr().is_terminal() {
            Onlooker::Terminal(Progress::new(phases, workers))
        } else {
            Onlooker::Nobody
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// A worker has come so far with a phase.
    pub(crate) fn tell(&mut self, worker: usize, phase: usize, done: u64) {
        match self {
            Self::Nobody => {}
            Self::Terminal(progress) => progress.tell(worker, phase, done),
            Self::Reader(how_far) => how_far.lock().tell(worker, phase, done),
        }
    }

    /// A worker is doing this.
    pub(crate) fn look(&mut self, worker: usize, now: Now) {
        match self {
            Self::Nobody => {}
            Self::Terminal(progress) => progress.look(worker, now),
            Self::Reader(how_far) => how_far.lock().stages[worker] = Some(now),
        }
    }

    /// The job is done.
    pub(crate) fn finish(&self) {
        if let Self::Terminal(progress) = self {
            progress.finish();
        }
    }
}

impl HowFar {
    pub(crate) fn new(phases: Vec<Phase>, workers: usize) -> HowFar {
        HowFar { phases, current: 0, done: vec![0; workers], stages: vec![None; workers] }
    }

    fn tell(&mut self, worker: usize, phase: usize, done: u64) {
        if phase >= self.phases.len() || phase < self.current {
            return;
        }
        if phase > self.current {
            self.current = phase;
            self.done.fill(0);
        }
        self.done[worker] = done;
    }

    /// The phase, what of it is done, and the stage that the workers are in.
    pub(crate) fn now(&self) -> Option<(Phase, u64, String)> {
        let phase = *self.phases.get(self.current)?;
        Some((phase, self.done.iter().sum(), stage(&self.stages).trim().to_owned()))
    }
}
