//! What other nodes send of a partition goes into its store: entries in order, and pieces of snapshots.

use weft_protocol::Version;
use weft_protocol::replication::SnapshotRecords;

use super::Cluster;
use super::hosted::{Hosted, Now, PIECE_HEAD};
use crate::store::ApplyError;

impl Hosted {
    pub(super) fn apply(&mut self, cluster: &Cluster, last: u64, now: Now) {
        let Hosted { partition, replica, logged, .. } = self;
        let first = partition.last_entry().sequence() + 1;
        let mut applied = first - 1;
        let mut refused = None;
        for entry in replica.entries(first, last) {
            match partition.apply_entries(entry.bytes, now.unix_ms) {
                Ok(version) => {
                    applied = version.sequence();
                    if let Some(logged) = logged {
                        logged.entry(version, |bytes| bytes.extend_from_slice(entry.bytes));
                    }
                }
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        if logged.is_none() {
            replica.applied(applied);
        }
        cluster.clients.are_over(&partition.take_ended());
        if let Some(error) = refused {
            self.fail(&error);
        }
    }

    /// Takes a piece of a snapshot, unless it is too early for it: then it comes again.
    pub(super) fn take_records(
        &mut self,
        cluster: &Cluster,
        records: &SnapshotRecords<'_>,
        now: Now,
    ) {
        let Some((as_of, bytes)) = records.records.split_first_chunk::<PIECE_HEAD>() else {
            return self.fail(&ApplyError::Malformed { offset: 0 });
        };
        cluster.pages.learned(now.time);
        let as_of = Version(u64::from_le_bytes(*as_of));
        let taken = match self.held_up {
            Some(_) if records.piece == 0 => {
                let base = self.replica.base();
                self.partition.begin_snapshot(base, bytes)
            }
            _ => self.partition.apply_snapshot(as_of, bytes, now.unix_ms),
        };
        match taken {
            Ok(()) => {
                match &mut self.logged {
                    // It counts when the log has it, so that no more comes than that takes.
                    Some(logged) => {
                        logged.piece(bytes);
                        self.piece_due = Some((records.session, records.piece));
                    }
                    None => self.replica.piece_taken(records.session, records.piece),
                }
                if let Some(last) = self.held_up.take() {
                    self.apply(cluster, last, now);
                }
            }
            Err(ApplyError::TooEarly { .. }) => self.replica.piece_left(records.session),
            Err(error) => self.fail(&error),
        }
    }

    /// This replica cannot go on.
    pub(super) fn fail(&mut self, error: &ApplyError) {
        tracing::error!(partition = self.replica.partition().0, %error, "a replica cannot apply what it is sent");
        self.replica.fail();
    }
}
