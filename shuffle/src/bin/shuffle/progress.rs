//! Bars on a terminal: bytes read, then rounds done.

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Pagerank;

pub(crate) struct Progress {
    bar: ProgressBar,
    read: Vec<u64>,
    rounds: u64,
    is_ranking: bool,
}

const READING: &str = "read  [{bar:30}] {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
const RANKING: &str = "round [{bar:30}] {pos}/{len} {per_sec} {eta}";

impl Progress {
    /// Every worker reads the whole file.
    pub(crate) fn new(job: &Pagerank, file_bytes: u64) -> Self {
        let bar = bar(file_bytes * job.workers as u64, READING);
        let (read, rounds) = (vec![0; job.workers], job.iterations as u64);
        Self { bar, read, rounds, is_ranking: false }
    }

    /// `worker` has read so many bytes of the file.
    pub(crate) fn read(&mut self, worker: usize, bytes: u64) {
        self.read[worker] = bytes;
        // Another worker may tell its last of reading when the first round has begun.
        if !self.is_ranking {
            self.bar.set_position(self.read.iter().sum());
        }
    }

    /// So many rounds are over.
    pub(crate) fn rounds(&mut self, rounds: usize) {
        if !self.is_ranking {
            self.is_ranking = true;
            self.bar.finish_and_clear();
            self.bar = bar(self.rounds, RANKING);
        }
        self.bar.set_position(rounds as u64);
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
fn bar(len: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates are constants");
    ProgressBar::new(len).with_style(style)
}
