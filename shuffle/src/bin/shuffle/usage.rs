//! What a job took.

use bytesize::ByteSize;
use serde::{Deserialize, Serialize};
use weft_shuffle::{JobError, Worker};
use weft_transport::Time;

/// What a job took of its workers, from when they had met.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Which attempt came to the end.
    pub(crate) attempts: u32,
    /// Until all was made, and written if it was to be.
    pub(crate) seconds: f64,
    /// What the links between the workers took.
    pub(crate) bytes_shuffled: u64,
    /// What was kept in files meanwhile.
    pub(crate) bytes_spilled: u64,
    /// The most memory that any worker had.
    pub(crate) peak_memory_bytes: u64,
}

impl Usage {
    /// That of all workers since `began`: an exchange.
    pub(crate) fn gather(worker: &Worker, began: Time) -> Result<Usage, JobError> {
        let sent = worker.gather(worker.bytes_sent())?;
        let spilled = worker.gather(worker.bytes_spilled())?;
        let peaks = worker.gather(worker.peak_memory_bytes().unwrap_or(0))?;
        Ok(Usage {
            attempts: worker.attempt(),
            seconds: worker.clock().now().since(began).as_secs_f64(),
            bytes_shuffled: sent.iter().sum(),
            bytes_spilled: spilled.iter().sum(),
            peak_memory_bytes: peaks.into_iter().max().unwrap_or(0),
        })
    }

    /// Lines of a report, of which one says how long it took to have `done` it.
    pub(crate) fn text(&self, done: &str) -> String {
        format!(
            "attempts          {}\n\
             {done:<17} {:.3} s\n\
             shuffled          {}\n\
             {}",
            self.attempts,
            self.seconds,
            ByteSize::b(self.bytes_shuffled),
            self.memory_text(),
        )
    }

    /// Those of them that are about memory, and what it had no room for.
    pub(crate) fn memory_text(&self) -> String {
        format!(
            "kept in files     {}\n\
             memory at most    {} a worker\n",
            ByteSize::b(self.bytes_spilled),
            ByteSize::b(self.peak_memory_bytes),
        )
    }
}
