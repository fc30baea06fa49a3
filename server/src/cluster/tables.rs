//! Which tables the partitions of this node are to have, by the cluster's catalog, and how they come to.
//!
//! Members of a partition hold the same, and what they hold follows from its entries. So the primary alone goes by the catalog: that a table is
//! there, is emptied or goes is an entry of it, among the writes that came before and after. A follower that dropped a table by itself would be sent
//! writes to it still, by a primary that has not heard of that yet; and one that had made it by itself could not apply the entry that makes it. What each
//! member decides for itself is what is its own affair: the quota, against which the primary alone counts. Else a node could be full of what only others
//! can evict.
//!
//! Whoever becomes primary looks what the partition has and makes it what the catalog says, since the primary before it may have ended in between.
//! As a primary may not make entries at all times, this is tried again whenever something happens in the partition, and as time passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use weft_protocol::{TableClass, TableId};

use super::Cluster;
use super::hosted::Hosted;
use crate::store::{Partition, TableConfig};

/// A table that the partitions of a class are to have.
#[derive(Clone, Debug)]
pub(crate) struct WantedTable {
    pub(crate) class: TableClass,
    pub(crate) config: TableConfig,
}

/// What all partitions are to have.
#[derive(Debug, Default)]
pub(crate) struct WantedTables {
    /// How often that was said; 0 before anything was.
    revision: AtomicU64,
    /// By number, with the one that is always there.
    tables: RwLock<Arc<[WantedTable]>>,
}

/// What a partition's tables were brought to: by which word, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BroughtTo {
    revision: u64,
    serves: bool,
}

impl WantedTables {
    /// Partitions are to have these from now on.
    pub(crate) fn set(&self, tables: Vec<WantedTable>) {
        let mut wanted = self.tables.write();
        *wanted = tables.into();
        // Whoever sees the number finds these, or waits for them.
        self.revision.fetch_add(1, Ordering::Release);
    }

    fn get(&self) -> (u64, Arc<[WantedTable]>) {
        let tables = self.tables.read();
        (self.revision.load(Ordering::Acquire), Arc::clone(&tables))
    }
}

impl Hosted {
    /// Brings the partition's tables to what is wanted, as far as it is for this member to do and can be done now.
    #[inline]
    pub(super) fn keep_tables(&mut self, cluster: &Cluster) {
        let revision = cluster.tables.revision.load(Ordering::Acquire);
        let due = BroughtTo { revision, serves: self.serves() };
        if revision > 0 && self.brought_to != Some(due) {
            self.bring_tables(cluster);
        }
    }

    #[cold]
    fn bring_tables(&mut self, cluster: &Cluster) {
        let serves = self.serves();
        let (revision, wanted) = cluster.tables.get();
        if serves && !self.make_and_drop(&wanted) {
            return;
        }
        let of_class = wanted.iter().filter(|table| table.class == self.class);
        for WantedTable { config, .. } in of_class {
            self.partition.set_quota(config.id, config.quota.clone().filter(|_| serves));
        }
        self.brought_to = Some(BroughtTo { revision, serves });
    }

    /// Returns whether all was done: else no entry can be made now.
    fn make_and_drop(&mut self, wanted: &[WantedTable]) -> bool {
        let class = self.class;
        let is_wanted = |id: TableId, ordered: bool| {
            let at = wanted.binary_search_by_key(&id, |table| table.config.id);
            at.is_ok_and(|at| wanted[at].class == class && wanted[at].config.ordered == ordered)
        };
        let there = self.partition.other_tables();
        let gone = there.into_iter().filter(|(id, ordered)| !is_wanted(*id, *ordered));
        let is_all_gone = gone.into_iter().all(|(id, _)| {
            self.change_tables(|partition| {
                let _ = partition.drop_table(id);
            })
        });
        let mut wanted = wanted.iter().filter(|table| table.class == class);
        is_all_gone
            && wanted.all(|WantedTable { config, .. }| {
                self.change_tables(|partition| {
                    if partition.has_table(config.id) {
                        partition.alter_table(config.clone());
                    } else {
                        partition.create_table(config.clone());
                    }
                })
            })
    }

    /// One entry at a time, so that each is asked for room. Returns whether there was.
    fn change_tables(&mut self, change: impl FnOnce(&mut Partition)) -> bool {
        if self.may_write().is_err() {
            return false;
        }
        change(&mut self.partition);
        self.record();
        true
    }
}
