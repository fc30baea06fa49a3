//! Partitions are written anew in turn, from memory and a piece at a time, so that files of their log can go.

use std::sync::Arc;

use weft_protocol::PartitionId;

use super::Logs;
use crate::cluster::logged::Rewritten;
use crate::durable::{Journal, Mode};
use crate::limits::LOG_SLACK_FILES;
use crate::partitions::Partitions;
use crate::store::{Gather, Snapshot};

/// Bytes of a piece, about.
const PIECE_BYTES: usize = 128 << 10;

/// What is being written anew.
#[derive(Debug, Default)]
pub(crate) struct Rewriting {
    current: Option<Current>,
    /// The log that is looked at next.
    turn: usize,
}

#[derive(Debug)]
struct Current {
    partition: PartitionId,
    number: u64,
    snapshot: Snapshot,
}

impl Logs {
    /// Goes on with writing a partition anew, if one is to be. Returns whether there was something to do.
    pub(crate) fn rewrite(&self, partitions: &Partitions) -> bool {
        // Whoever else is at it sees to it.
        let Some(mut rewriting) = self.rewriting.try_lock() else { return false };
        match rewriting.current.take() {
            None => {
                rewriting.turn = (rewriting.turn + 1) % self.journals.len();
                let journal = &self.journals[rewriting.turn];
                rewriting.current = self.begin(journal, partitions);
                rewriting.current.is_some()
            }
            Some(mut current) => {
                let Some(position) = partitions.position_of_id(current.partition) else {
                    return false;
                };
                let mut hosted = partitions.host(position);
                if !hosted.is_rewriting(current.number) {
                    return true;
                }
                let before = current.snapshot.clone();
                let rewritten = hosted.rewrite(|partition| {
                    let mut piece = Gather::default();
                    while piece.is_empty() && !current.snapshot.is_done() {
                        partition.snapshot_part(&mut current.snapshot, PIECE_BYTES, &mut piece);
                    }
                    (!piece.is_empty()).then_some(piece)
                });
                match rewritten {
                    Rewritten::NoRoom => {
                        rewriting.current = Some(Current { snapshot: before, ..current });
                        false
                    }
                    Rewritten::GoesOn => {
                        rewriting.current = Some(current);
                        true
                    }
                    Rewritten::Over => true,
                }
            }
        }
    }

    fn begin(&self, journal: &Arc<Journal>, partitions: &Partitions) -> Option<Current> {
        let slack_bytes = LOG_SLACK_FILES * self.settings.file_bytes;
        if journal.with(|log, _| log.bytes()) <= slack_bytes {
            return None;
        }
        let live_bytes = live_bytes(partitions, journal.mode());
        let partition = journal.with(|log, _| log.snapshot_wanted(live_bytes))?;
        let position = partitions.position_of_id(partition)?;
        let (number, snapshot) = partitions.host(position).begin_rewrite()?;
        Some(Current { partition, number, snapshot })
    }
}

/// Bytes of what is live in the partitions of a log. Takes one lock after the other.
fn live_bytes(partitions: &Partitions, mode: Mode) -> u64 {
    let live = |position| {
        let hosted = partitions.host(position);
        if hosted.is_in(mode) { hosted.partition.log_use().live_bytes } else { 0 }
    };
    partitions.positions().map(live).sum()
}
