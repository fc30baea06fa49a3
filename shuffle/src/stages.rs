//! What a worker has done, stage by stage: what came in, what went out, how long it took and how much of that it waited.
//!
//! Counters are plain values that a program shows as it likes. All is counted a segment or an exchange at a time, so that records cost nothing, and what is kept is bounded
//! whatever a job does: a stage that comes again in each round of [`iterate`](crate::Dataset::iterate) is one [`Stage`] for all rounds, and spans of time are put
//! together where they would be too many.

mod live;
mod recorder;
mod timeline;
mod verb;

use std::path::PathBuf;
use std::time::Duration;

pub use self::live::{Live, Now};
pub(crate) use self::recorder::{Ended, Recorder};
pub use self::timeline::Span;
pub use self::verb::Verb;

/// What a worker has done so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// How long ago it had met the others: what times are counted from.
    pub elapsed: Duration,
    /// The stages in the order in which they first ended.
    pub stages: Vec<Stage>,
    /// The one that had begun and did not come to its end, because an error ended it, unless another has ended since. It is in `timeline`, too.
    pub unfinished: Option<Unfinished>,
    /// When which of them was at work, in order.
    pub timeline: Vec<Span>,
    /// Files that were read.
    pub read: Vec<PathBuf>,
    /// Files that were written.
    pub written: Vec<Written>,
    /// How many exchanges were counted with others of their verb, as there were too many places in the program for each to be kept apart.
    pub merged: u64,
}

/// A stage that has begun and has not ended, with what was counted until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// As of a [`Stage`]: the number of the one that it is another time of, if it was there before.
    pub number: u32,
    /// What makes the exchange.
    pub verb: Verb,
    /// In which loop it is, if it is in one.
    pub in_loop: Option<u32>,
    /// What it goes on with.
    pub inputs: Vec<Origin>,
    /// For how long it was going on.
    pub time: Duration,
    /// How much of that this worker waited.
    pub waiting: Duration,
    /// Records that this worker has made for it, as far as segments were full.
    pub records_made: u64,
    /// Records that this worker has of it.
    pub records_held: u64,
    /// Bytes that went to others.
    pub bytes_sent: u64,
    /// Bytes that were kept in files meanwhile.
    pub bytes_spilled: u64,
}

/// A file that was written, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Which.
    pub path: PathBuf,
    /// What it was made of.
    pub inputs: Vec<Origin>,
}

/// Where records come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The stage with this number.
    Stage(u32),
    /// A file that was read.
    Read(PathBuf),
}

/// A stage: what a worker does up to the end of an exchange, from the end of the one before it; and what is done after the last one of a plan, such as to write what comes out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Of its exchange among all of the job, from 0, the same on all workers; of the first one if it was there several times.
    pub number: u32,
    /// What made the exchange.
    pub verb: Verb,
    /// In which loop it is, if it is in one: loops have numbers, from 0 in the order in which they began.
    pub in_loop: Option<u32>,
    /// How often it was there: once for each round of a loop, and gatherings that follow one another are one stage.
    pub times: u64,
    /// What it goes on with: the stages before it in the plan, or in the program where its records come from there.
    pub inputs: Vec<Origin>,
    /// How long it took, all times together.
    pub time: Duration,
    /// The shortest of the times.
    pub shortest: Duration,
    /// The longest of them.
    pub longest: Duration,
    /// How much of it this worker waited: for what others send, or until they take what it sends.
    pub waiting: Duration,
    /// Records that were made on this worker and belong to it.
    pub records_kept: u64,
    /// Records that went to others.
    pub records_sent: u64,
    /// Records that came from others.
    pub records_received: u64,
    /// Bytes that went to each worker, without what the transport adds to them.
    pub bytes_sent: Vec<u64>,
    /// Segments that went to others.
    pub segments: u64,
    /// Bytes that were kept in files meanwhile.
    pub bytes_spilled: u64,
}
