//! Who is told how far a job is: a terminal, those who ask the cluster, or nobody.

use std::io::IsTerminal as _;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::event::Now;
use crate::how_far::{HowFar, Phase};
use crate::progress::Progress;

pub(crate) enum Onlooker {
    Nobody,
    Terminal(HowFar, Progress),
    /// Whoever reads it now and then.
    Reader(Arc<Mutex<HowFar>>),
}

impl Onlooker {
    /// Who looks at this command.
    pub(crate) fn of_terminal(phases: Vec<Phase>, workers: usize) -> Onlooker {
        if std::io::stderr().is_terminal() {
            Onlooker::Terminal(HowFar::new(phases, workers), Progress::default())
        } else {
            Onlooker::Nobody
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// A worker has come so far with a phase.
    pub(crate) fn tell(&mut self, worker: usize, phase: usize, done: u64) {
        self.change(|how_far| how_far.tell(worker, phase, done));
    }

    /// A worker is doing this.
    pub(crate) fn look(&mut self, worker: usize, now: Now) {
        self.change(|how_far| how_far.look(worker, now));
    }

    /// The job is done.
    pub(crate) fn finish(&mut self) {
        if let Self::Terminal(_, progress) = self {
            progress.finish();
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut HowFar)) {
        match self {
            Self::Nobody => {}
            Self::Terminal(how_far, progress) => {
                change(how_far);
                how_far.now().iter().for_each(|now| progress.draw(now));
            }
            Self::Reader(how_far) => change(&mut how_far.lock()),
        }
    }
}
