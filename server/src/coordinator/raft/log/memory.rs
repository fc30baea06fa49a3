//! A log in memory that forgets, when the power goes, what was not synced, and fails when it is told to.

use std::collections::BTreeMap;

use super::record::{Change, changes};
use super::{Batch, LogError, RaftLog, Recovered, recovery};

/// What a disk does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// There is no room for the batch: nothing of it is written.
    Full,
    /// The sync fails: how much of what was not synced before is on the disk is unknown.
    Sync,
}

/// The disk of a simulated node: one member's log, and its place's name.
///
/// A batch that is not synced is pending. Pending batches survive the end of the process ([`end_process`](Self::end_process)); of them a loss
/// of power ([`lose_power`](Self::lose_power)) keeps as many, from the oldest on, as it is told: a real one writes a batch as one
/// record with a checksum, so that a torn one is none.
#[derive(Debug, Clone)]
pub struct MemoryLog {
    place: String,
    durable: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: Vec<Vec<Change>>,
    /// Fails the next write that it applies to.
    fault: Option<Fault>,
    is_poisoned: bool,
    syncs: u64,
}

impl MemoryLog {
    /// A disk with nothing on it.
    pub fn new(place: &str) -> Self {
        MemoryLog {
            place: place.to_owned(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            fault: None,
            is_poisoned: false,
            syncs: 0,
        }
    }

    /// The disk's log, made with `first`, which is one of [`Batch::founding`] and [`Batch::joining`].
    ///
    /// # Errors
    /// [`LogError::Occupied`] if there is one; what [`write`](RaftLog::write) has.
    pub fn create(&mut self, first: &Batch) -> Result<(), LogError> {
        if !self.durable.is_empty() || !self.pending.is_empty() {
            return Err(LogError::Occupied { place: self.place.clone() });
        }
        self.write(first)
    }

    /// The next write, or the next that is synced, fails.
    pub fn fail_next(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// The process ends: what was written is there for the next one, synced or not.
    pub fn end_process(&mut self) {
        self.lose_power(usize::MAX);
    }

    /// The power goes: of the batches that were not synced, the oldest `kept` are there for the next process.
    pub fn lose_power(&mut self, kept: usize) {
        let kept = kept.min(self.pending.len());
        let survivors: Vec<_> = self.pending.drain(..).take(kept).collect();
        survivors.into_iter().for_each(|changes| apply(&mut self.durable, changes));
        self.fault = None;
        self.is_poisoned = false;
    }

    /// Batches that a loss of power may take.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// How often the disk was waited for.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Records by key, for tests that damage them.
    #[cfg(test)]
    pub(in crate::coordinator::raft) fn records_mut(&mut self) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        &mut self.durable
    }

    fn fail(&mut self, detail: &str, is_full: bool) -> LogError {
        self.fault = None;
        self.is_poisoned = true;
        LogError::Write { place: self.place.clone(), detail: detail.to_owned(), is_full }
    }
}

impl RaftLog for MemoryLog {
    fn recover(&mut self) -> Result<Recovered, LogError> {
        let mut records = self.durable.clone();
        self.pending.iter().for_each(|changes| apply(&mut records, changes.clone()));
        recovery::recover(&self.place, records.into_iter())
    }

    fn write(&mut self, batch: &Batch) -> Result<(), LogError> {
        if self.is_poisoned {
            return Err(LogError::Poisoned { place: self.place.clone() });
        }
        if self.fault == Some(Fault::Full) {
            return Err(self.fail("no space left on device", true));
        }
        self.pending.push(changes(batch));
        if !batch.must_sync {
            return Ok(());
        }
        if self.fault == Some(Fault::Sync) {
            return Err(self.fail("input/output error", false));
        }
        self.syncs += 1;
        let synced = std::mem::take(&mut self.pending);
        synced.into_iter().for_each(|changes| apply(&mut self.durable, changes));
        Ok(())
    }
}

fn apply(records: &mut BTreeMap<Vec<u8>, Vec<u8>>, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Put(key, value) => {
                records.insert(key, value);
            }
            Change::Remove(from, to) => {
                let gone: Vec<_> = records.range(from..to).map(|(key, _)| key.clone()).collect();
                gone.iter().for_each(|key| {
                    records.remove(key);
                });
            }
        }
    }
}
