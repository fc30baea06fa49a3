//! The log as raft-rs reads it: all of it in memory, so that no read can fail.
//!
//! What is handed to the disk is put here first. raft-rs asks for no more in its asynchronous use: it is told apart what is written and what
//! can be read. The log is kept short by compaction, and a coordinator's entries are small, so that memory holds it.

use std::collections::VecDeque;
use std::ops::Range;

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError, util};

use super::log::{Position, Recovered};
use super::roster::is_member;

/// A member's log.
#[derive(Debug)]
pub(super) struct LogView {
    hard_state: HardState,
    /// As of the snapshot.
    conf_state: ConfState,
    snapshot: Snapshot,
    /// The entry before the first: its term is asked for when that one is sent.
    start: Position,
    entries: VecDeque<Entry>,
    /// Bytes of commands in `entries`.
    bytes: usize,
}

impl LogView {
    pub(super) fn new(recovered: &Recovered) -> Self {
        let Recovered { hard_state, snapshot, start, entries, .. } = recovered;
        LogView {
            hard_state: hard_state.clone(),
            conf_state: recovered.conf_state(),
            snapshot: snapshot.clone(),
            start: *start,
            bytes: entries.iter().map(|entry| entry.data.len()).sum(),
            entries: entries.iter().cloned().collect(),
        }
    }

    pub(super) fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    pub(super) fn set_hard_state(&mut self, hard_state: &HardState) {
        self.hard_state = hard_state.clone();
    }

    pub(super) fn start(&self) -> Position {
        self.start
    }

    pub(super) fn last(&self) -> u64 {
        self.start.index + self.entries.len() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn snapshot_index(&self) -> u64 {
        self.snapshot.metadata.as_ref().map_or(0, |metadata| metadata.index)
    }

    /// Puts entries, in place of those of their indices and after; returns the indices of those.
    pub(super) fn append(&mut self, entries: &[Entry]) -> Option<Range<u64>> {
        let first = entries.first()?.index;
        let end = self.last() + 1;
        let kept = first.saturating_sub(self.start.index + 1) as usize;
        let gone = self.entries.drain(kept.min(self.entries.len())..);
        self.bytes -= gone.map(|entry| entry.data.len()).sum::<usize>();
        self.bytes += entries.iter().map(|entry| entry.data.len()).sum::<usize>();
        self.entries.extend(entries.iter().cloned());
        (first < end).then_some(first..end)
    }

    /// Begins anew from the leader's snapshot; returns the indices of all entries that were there.
    pub(super) fn install(&mut self, snapshot: &Snapshot) -> Option<Range<u64>> {
        let gone = self.start.index + 1..self.last() + 1;
        let metadata = snapshot.metadata.clone().unwrap_or_default();
        self.start = Position { index: metadata.index, term: metadata.term };
        self.entries.clear();
        self.bytes = 0;
        self.set_snapshot(snapshot.clone());
        (!gone.is_empty()).then_some(gone)
    }

    /// The snapshot for those who come too late for entries.
    pub(super) fn set_snapshot(&mut self, snapshot: Snapshot) {
        self.conf_state =
            snapshot.metadata.clone().unwrap_or_default().conf_state.unwrap_or_default();
        self.snapshot = snapshot;
    }

    /// Forgets entries up to `index`, which is not beyond the snapshot; returns their indices.
    pub(super) fn compact(&mut self, index: u64) -> Option<Range<u64>> {
        let count = index.checked_sub(self.start.index).filter(|count| *count > 0)?;
        let gone = self.start.index + 1..index + 1;
        for entry in self.entries.drain(..(count as usize).min(self.entries.len())) {
            self.start = Position { index: entry.index, term: entry.term };
            self.bytes -= entry.data.len();
        }
        Some(gone)
    }

    fn at(&self, index: u64) -> Option<&Entry> {
        let offset = index.checked_sub(self.start.index + 1)?;
        self.entries.get(offset as usize)
    }
}

fn unavailable() -> raft::Error {
    raft::Error::Store(StorageError::Unavailable)
}

fn compacted() -> raft::Error {
    raft::Error::Store(StorageError::Compacted)
}

impl Storage for LogView {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.conf_state.clone()))
    }

    /// At least one entry, however long it is, so that a leader never sends nothing for ever.
    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let max_size = max_size.into();
        if low <= self.start.index {
            return Err(compacted());
        }
        if high > self.last() + 1 {
            return Err(unavailable());
        }
        let mut entries = Vec::new();
        let mut size = 0;
        for index in low..high {
            let entry = self.at(index).ok_or_else(unavailable)?;
            size += util::entry_approximate_size(entry) as u64;
            if !entries.is_empty() && max_size.is_some_and(|max| size > max) {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    /// Also of the entry before the first.
    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.start.index {
            return Ok(self.start.term);
        }
        if index < self.start.index {
            return Err(compacted());
        }
        self.at(index).map(|entry| entry.term).ok_or_else(unavailable)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.start.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    /// Not before it has the member that it is for: who is given a snapshot without itself in it ignores that, and is given it again for ever.
    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        let index = self.snapshot_index();
        if index == 0 || index < request_index || !is_member(&self.conf_state, to) {
            return Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        Ok(self.snapshot.clone())
    }
}
