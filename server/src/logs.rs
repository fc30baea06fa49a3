//! The logs of a node, one for each durability that is kept on disk, and what they had of its partitions when it started.
//!
//! - `recovering`: partitions are made anew from what their log has of them.
//! - `rewriting`: partitions are written anew in turn, so that files of their log can go.
//! - `directories`: the shell: two directories, and a thread for each.

mod directories;
mod recovering;
mod rewriting;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_protocol::{Durability, PartitionId, Version};
use weft_transport::{Clock, NodeId};

use crate::cluster::hosted::{InLog, Recovered};
use crate::cluster::logged::Logged;
use crate::durable::{Completeness, Disk, Identity, Journal, Log, Mode, Settings, recover};
use crate::limits::LOG_BACKLOG_SHARE;
use crate::memory::NodeMemory;

pub use self::directories::{LogDirectories, LogThreads, OpenLogsError, StartLogsError};
pub use self::recovering::RecoverError;
pub(crate) use self::rewriting::Rewriting;

/// Where what is in logs goes.
#[derive(Debug, Clone)]
pub struct LogsOptions {
    /// The cluster whose logs these are to be.
    pub cluster: u128,
    /// The node whose they are to be.
    pub node: NodeId,
    /// Where its partitions lie: the node's.
    pub memory: NodeMemory,
    /// What keys are hashed with: the node's.
    pub seed: u64,
    /// What logs and node ask for the time.
    pub clock: Clock,
    /// How logs are kept.
    pub settings: Settings,
}

/// The logs of a node that starts.
#[derive(Debug)]
pub struct Logs {
    journals: [Arc<Journal>; 2],
    found: Vec<RecoveredPartition>,
    /// What is there of partitions that no placement was learned of yet, with its fence epoch.
    waiting: Mutex<BTreeMap<PartitionId, Option<Recovered>>>,
    pub(crate) rewriting: Mutex<Rewriting>,
    settings: Settings,
}

/// What a node's log had of a partition when the node started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredPartition {
    /// The partition.
    pub partition: PartitionId,
    /// Of which durability its tables are.
    pub durability: Durability,
    /// The highest epoch that it knew of.
    pub epoch: u32,
    /// The last entry that there is.
    pub last: Version,
    /// Whether it has all that it ever acknowledged. Only then it may keep its place.
    pub completeness: Completeness,
}

/// In which log a durability is kept, if on disk at all.
pub(crate) fn mode_of(durability: Durability) -> Option<Mode> {
    match durability {
        Durability::Memory => None,
        Durability::Disk => Some(Mode::Disk),
        Durability::Fsync => Some(Mode::Fsync),
    }
}

impl Logs {
    /// Reads the logs on these disks, that of `disk` and that of `fsync`, and makes partitions of what is complete in them. Nothing is changed; what the logs go on
    /// with is for who drives their [journals](Self::journal).
    ///
    /// # Errors
    /// [`RecoverError`]: a log is of somebody else, or cannot be read. Damage is none: it is [said](Self::found) of the partitions that it concerns.
    pub fn recover(
        options: &LogsOptions,
        on_disk: &mut impl Disk,
        on_fsync: &mut impl Disk,
    ) -> Result<Logs, RecoverError> {
        let mut settings = options.settings.clone();
        let share = options.memory.limit_bytes() / LOG_BACKLOG_SHARE;
        settings.backlog_bytes = settings.backlog_bytes.min(share as usize);
        let identity = |mode| Identity { cluster: options.cluster, node: options.node, mode };
        // Both before anything is taken from one: of two directories that were exchanged, neither is anybody's.
        let of_disk = recover(on_disk, identity(Mode::Disk), &settings)?;
        let of_fsync = recover(on_fsync, identity(Mode::Fsync), &settings)?;
        let (mut found, mut waiting) = (Vec::new(), BTreeMap::new());
        let room = of_disk.partitions().count() + of_fsync.partitions().count();
        for one in recovering::partitions(options, &of_disk, on_disk, room)? {
            one.enter(Durability::Disk, &mut found, &mut waiting);
        }
        for one in recovering::partitions(options, &of_fsync, on_fsync, room)? {
            one.enter(Durability::Fsync, &mut found, &mut waiting);
        }
        found.sort_unstable_by_key(|one| one.partition);
        let journal = |recovery| {
            let log = Log::new(settings.clone(), recovery);
            Arc::new(Journal::new(log, options.clock.clone()))
        };
        let journals = [journal(&of_disk), journal(&of_fsync)];
        let (waiting, rewriting) = (Mutex::new(waiting), Mutex::default());
        Ok(Logs { journals, found, waiting, rewriting, settings })
    }

    /// The log of a durability.
    pub fn journal(&self, mode: Mode) -> &Arc<Journal> {
        match mode {
            Mode::Disk => &self.journals[0],
            Mode::Fsync => &self.journals[1],
        }
    }

    /// What they had of partitions when the node started, by number.
    pub fn found(&self) -> &[RecoveredPartition] {
        &self.found
    }

    /// Both.
    pub(crate) fn journals(&self) -> impl Iterator<Item = &Arc<Journal>> {
        self.journals.iter()
    }

    /// Whether one of them takes nothing any more.
    pub fn has_failed(&self) -> bool {
        self.journals.iter().any(|journal| journal.has_failed())
    }

    /// Whether there is something of a partition that no placement was learned of yet.
    pub(crate) fn waits(&self, partition: PartitionId) -> bool {
        self.waiting.lock().contains_key(&partition)
    }

    /// Whether there are remains of a partition, in an epoch in which it is not new: it was here, and something of it is missing.
    pub(crate) fn lacks(&self, partition: PartitionId, epoch: u32) -> bool {
        let is_left = matches!(self.waiting.lock().get(&partition), Some(None));
        let found = self.found.iter().find(|found| found.partition == partition);
        is_left && found.is_some_and(|found| epoch <= found.epoch)
    }

    /// What there is of a partition that is to be hosted.
    pub(crate) fn take(&self, partition: PartitionId, mode: Mode) -> InLog {
        let journal = Arc::clone(self.journal(mode));
        let waiting = self.waiting.lock().remove(&partition);
        let has_remains = waiting.is_some();
        match waiting.flatten() {
            None => InLog::Nothing(Logged::new(journal, partition, has_remains)),
            Some(recovered) => {
                let (epoch, last) = (recovered.epoch, recovered.partition.last_entry());
                let logged = Logged::recovered(journal, partition, epoch, last);
                InLog::Whole(logged, Box::new(recovered))
            }
        }
    }
}

/// The log that a node has for tables of this durability, if they are kept in one.
///
/// # Errors
/// It has none, and cannot hold such a partition.
pub(crate) fn log_of(
    logs: Option<&Logs>,
    durability: Durability,
) -> Result<Option<(&Logs, Mode)>, NoLog> {
    match (mode_of(durability), logs) {
        (None, _) => Ok(None),
        (Some(mode), Some(logs)) => Ok(Some((logs, mode))),
        (Some(_), None) => Err(NoLog),
    }
}

/// A partition is to be kept on disk, and the node has no place for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoLog;
