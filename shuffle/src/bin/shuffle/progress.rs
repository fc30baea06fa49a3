//! Bars on a terminal: bytes read, then rounds done.

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Pagerank;

pub(crate) struct Progress {
    bar: ProgressBar,
    read: Vec<u64>,
    rounds: Option<u64>,
}

const READING: &str = "read  [{bar:30}] {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
const RANKING: &str = "round [{bar:30}] {pos}/{len} {per_sec} {eta}";

impl Progress {
    /// Every worker reads the whole file.
    pub(crate) fn new(job: &Pagerank, file_bytes: u64) -> Self {
        let bar = ProgressBar::new(file_bytes * job.workers as u64);
        bar.set_style(style(READING));
        Self { bar, read: vec![0; job.workers], rounds: Some(job.iterations as u64) }
    }

    /// `worker` has read so many bytes of the file.
    pub(crate) fn read(&mut self, worker: usize, bytes: u64) {
        self.read[worker] = bytes;
        if self.rounds.is_some() {
            self.bar.set_position(self.read.iter().sum());
        }
    }

    /// `round` begins.
    pub(crate) fn round(&mut self, round: usize) {
        if let Some(rounds) = self.rounds.take() {
            self.bar.reset();
            self.bar.set_length(rounds);
            self.bar.set_style(style(RANKING));
        }
        self.bar.set_position(round as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constants")
}
