//! Partitions are made anew from what their log has of them: the last whole snapshot, and all entries since it began.
//!
//! It is done as a learner does it: pieces of a snapshot may be older than entries between them, and are taken in only where nothing newer is known.

use std::collections::{BTreeMap, VecDeque};

use weft_protocol::{Durability, PartitionId, Version};
use weft_transport::Memory;

use super::{LogsOptions, RecoveredPartition};
use crate::cluster::hosted::Recovered;
use crate::durable::{
    Completeness, Disk, Incomplete, OpenError, PartitionFound, Recovery, ReplayError, Replayed,
};
use crate::limits::{RECOVERED_TAIL_BYTES, RECOVERED_TAIL_SHARE};
use crate::store::{ApplyError, Partition, PartitionConfig, StoreError, Victim, split_entries};

/// Between two times at which segments are emptied, so much is written.
const TIDIED_BYTES: u64 = 1 << 20;
/// Segments are emptied of which at most this share is live.
const TIDIED_USE_MAX: f64 = 0.8;

/// Why a node does not start from its logs. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// A log is of somebody else, or cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What was read once cannot be read again.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// What came of a partition.
pub(super) struct Outcome {
    found: PartitionFound,
    recovered: Option<Recovered>,
}

impl Outcome {
    pub(super) fn enter(
        self,
        durability: Durability,
        found: &mut Vec<RecoveredPartition>,
        waiting: &mut BTreeMap<PartitionId, Option<Recovered>>,
    ) {
        let PartitionFound { partition, last, epoch, completeness } = self.found;
        if let Completeness::Incomplete { reason } = &completeness {
            tracing::warn!(partition = partition.0, %durability, %last, %reason, "a partition is not complete in its log");
        }
        found.push(RecoveredPartition { partition, durability, epoch, last, completeness });
        waiting.insert(partition, self.recovered);
    }
}

/// All partitions of a log; those that are complete with what they held. `count` partitions share what memory there is for entries that others may ask for.
pub(super) fn partitions(
    options: &LogsOptions,
    recovery: &Recovery,
    disk: &mut impl Disk,
    count: usize,
) -> Result<Vec<Outcome>, ReplayError> {
    let share = options.memory.limit_bytes() / RECOVERED_TAIL_SHARE / count.max(1) as u64;
    let tail_bytes_max = RECOVERED_TAIL_BYTES.min(share as usize);
    let now_ms = options.clock.unix_millis();
    let mut rebuilding = BTreeMap::new();
    for found in recovery.partitions().filter(|found| found.completeness.is_complete()) {
        let begun = Rebuilding::new(options, &found, tail_bytes_max);
        rebuilding.insert(found.partition, begun);
    }
    let wanted: Vec<PartitionId> = rebuilding.keys().copied().collect();
    let mut visit = |replayed: Replayed<'_>| {
        let (Replayed::Base { partition, .. }
        | Replayed::Piece { partition, .. }
        | Replayed::BaseEnd { partition }
        | Replayed::Entries { partition, .. }) = replayed;
        if let Some(one) = rebuilding.get_mut(&partition)
            && let Ok(rebuilding) = one
            && let Err(error) = rebuilding.take(&replayed, now_ms)
        {
            // What it has taken goes at once: others need the memory.
            *one = Err(error.to_string());
        }
    };
    recovery.replay(disk, &mut |partition| wanted.contains(&partition), &mut visit)?;
    let outcome = |mut found: PartitionFound| {
        let recovered = match rebuilding.remove(&found.partition) {
            None => None,
            Some(Ok(rebuilding)) if rebuilding.is_at(found.last) => {
                Some(rebuilding.finish(found.epoch))
            }
            Some(Ok(_)) => {
                found.completeness = not_taken_in("its entries end elsewhere".to_owned());
                None
            }
            Some(Err(error)) => {
                found.completeness = not_taken_in(error);
                None
            }
        };
        Outcome { found, recovered }
    };
    Ok(recovery.partitions().map(outcome).collect())
}

fn not_taken_in(error: String) -> Completeness {
    Completeness::Incomplete { reason: Incomplete::NotTakenIn { error } }
}

/// A partition that is being made.
struct Rebuilding {
    partition: Partition,
    /// The next piece of the snapshot is the one that says which tables there are.
    awaits_head: Option<Version>,
    base: Version,
    entries: VecDeque<(Version, Box<[u8]>)>,
    entry_bytes: usize,
    entry_bytes_max: usize,
    memory: Memory,
    /// How much had been written when segments were emptied last.
    tidied_at: u64,
}

impl Rebuilding {
    fn new(
        options: &LogsOptions,
        found: &PartitionFound,
        entry_bytes_max: usize,
    ) -> Result<Rebuilding, String> {
        let config = PartitionConfig {
            id: found.partition.0,
            epoch: 0,
            seed: options.seed,
            memory: options.memory.store.clone(),
        };
        let partition = Partition::new(config).map_err(|error: StoreError| error.to_string())?;
        let (base, entries) = (Version::NONE, VecDeque::new());
        Ok(Rebuilding {
            partition,
            awaits_head: None,
            base,
            entries,
            entry_bytes: 0,
            entry_bytes_max,
            memory: options.memory.store.clone(),
            tidied_at: 0,
        })
    }

    fn take(&mut self, replayed: &Replayed<'_>, now_ms: u64) -> Result<(), ApplyError> {
        match *replayed {
            Replayed::Base { last, .. } => {
                (self.awaits_head, self.base) = (Some(last), last);
                Ok(())
            }
            Replayed::Piece { records, .. } => match self.awaits_head.take() {
                Some(start) => self.partition.begin_snapshot(start, records),
                None => {
                    let as_of = self.partition.last_entry();
                    self.partition.apply_snapshot(as_of, records, now_ms)
                }
            },
            Replayed::BaseEnd { .. } => {
                if let Some(start) = self.awaits_head.take() {
                    self.partition.begin_snapshot(start, &[])?;
                }
                self.partition.end_snapshot();
                Ok(())
            }
            Replayed::Entries { entries, .. } => {
                self.partition.apply_entries(entries, now_ms)?;
                split_entries(entries).for_each(|(version, bytes)| self.keep(version, bytes));
                self.tidy(now_ms);
                Ok(())
            }
        }
    }

    /// Empties segments of which much is dead: what was overwritten is in the log on disk, and would find no room in memory beside what is live.
    fn tidy(&mut self, now_ms: u64) {
        let (written, used) = (self.partition.written_bytes(), self.partition.log_use());
        let is_short = self.memory.free_bytes() < self.memory.account().limit_bytes / 4;
        let slack = if is_short { used.live_bytes / 8 } else { used.live_bytes };
        if written < self.tidied_at + TIDIED_BYTES
            || used.bytes < used.live_bytes + slack + TIDIED_BYTES
        {
            return;
        }
        self.tidied_at = written;
        let victims: Vec<Victim> = self.partition.victims(TIDIED_USE_MAX).collect();
        for mut victim in victims {
            let cleaned = self.partition.clean(&mut victim, usize::MAX, now_ms);
            if cleaned.refused.is_some() {
                return;
            }
        }
    }

    /// Keeps the last entries.
    fn keep(&mut self, version: Version, bytes: &[u8]) {
        self.entries.push_back((version, bytes.into()));
        self.entry_bytes += bytes.len();
        while self.entry_bytes > self.entry_bytes_max
            && let Some((version, bytes)) = self.entries.pop_front()
        {
            self.base = version;
            self.entry_bytes -= bytes.len();
        }
    }

    fn is_at(&self, last: Version) -> bool {
        self.partition.last_entry() == last && !self.partition.is_learning()
    }

    fn finish(self, epoch: u32) -> Recovered {
        let Rebuilding { partition, base, entries, .. } = self;
        Recovered { partition, base, entries, epoch }
    }
}
