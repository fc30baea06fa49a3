//! Processes that do the cluster's work and are no nodes of it.

use weft_protocol::WorkerDescription as Described;

/// A worker that registered. From 1 on, and never given to another: those that registered earlier have lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerDescription {
    /// Where others find it.
    pub address: String,
    /// How much it has room for.
    pub slots: u32,
    /// Which build of its program it is.
    pub build: String,
    /// Its number in the system that it runs on.
    pub process: u32,
}

/// A worker that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// What it said of itself.
    pub description: WorkerDescription,
    /// Which it was of all registrations and renewals of workers: no other has this number, nor has the worker twice, though it be forgotten and come again.
    pub renewal: u64,
}

impl WorkerDescription {
    /// Whether each part has a length that it may have.
    pub(super) fn is_within_limits(&self) -> bool {
        let Self { address, slots, build, process } = self;
        Described { address, slots: *slots, build, process: *process }.is_within_limits()
    }
}

impl From<Described<'_>> for WorkerDescription {
    fn from(described: Described<'_>) -> Self {
        let Described { address, slots, build, process } = described;
        Self { address: address.to_owned(), slots, build: build.to_owned(), process }
    }
}
