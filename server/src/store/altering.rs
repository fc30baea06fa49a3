//! Changes of a partition's tables: created, altered, dropped, emptied; and how replicas are told.

use std::sync::Arc;

use weft_protocol::{Eviction, TableId, TableRemoval, Version};

use super::header::Kind;
use super::partition::Partition;
use super::tables::{Quota, TableConfig, Tables};

/// Bytes of the value of a record of kind 4.
const CHANGE_BYTES: usize = 8;

/// What happened to a table, as a record of kind 4 says it. Quotas are each node's own affair: the shares of a table's replicas differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableChange {
    Created { ordered: bool, eviction: Eviction },
    Altered { eviction: Eviction },
    Dropped,
    Truncated,
}

impl Partition {
    /// Heap memory that a partition takes for `count` tables besides [`TableId::DEFAULT`], whatever is in them. Who creates them
    /// charges for it.
    pub const fn table_bytes(count: usize) -> u64 {
        Tables::bytes_of(count)
    }

    /// The tables that there are besides [`TableId::DEFAULT`], by number, and whether each keeps its keys in order.
    pub fn other_tables(&self) -> Vec<(TableId, bool)> {
        let others = self.tables.iter().filter(|table| table.id() != TableId::DEFAULT);
        others.map(|table| (table.id(), table.is_ordered())).collect()
    }

    /// Adds a table, unless there is one of this number already. [`TableId::DEFAULT`] is always there. While entries are
    /// [recorded](Self::set_recording), this is one, unless there are no versions any more; then nothing changes.
    pub fn create_table(&mut self, config: TableConfig) {
        let TableConfig { id, ordered, eviction, .. } = config;
        if !self.has_table(id)
            && self.change_table(id, TableChange::Created { ordered, eviction }).is_some()
        {
            self.tables.create(config);
        }
    }

    /// Gives a table, which may be [`TableId::DEFAULT`], the quota and the eviction of `config`. Whether it is ordered stays. Another eviction is
    /// an entry.
    pub fn alter_table(&mut self, config: TableConfig) {
        let TableConfig { id, eviction, .. } = config;
        self.set_quota(id, config.quota);
        let is_other = self.tables.get(id).is_some_and(|table| table.eviction != eviction);
        if is_other && self.change_table(id, TableChange::Altered { eviction }).is_some() {
            self.tables.set_eviction(id, eviction);
        }
    }

    /// Counts a table against another quota of this node, or none; of a table that is not there yet, once it is created by an entry.
    pub fn set_quota(&mut self, table: TableId, quota: Option<Arc<Quota>>) {
        match (self.tables.get_mut(table), quota) {
            (Some(table), quota) => table.take_quota(quota),
            (None, Some(quota)) => drop(self.tables.quotas.insert(table, quota)),
            (None, None) => drop(self.tables.quotas.remove(&table)),
        }
    }

    /// Removes a table with all its objects, at once; their memory comes back as they are [swept](Self::sweep). Returns how
    /// many objects there were, or nothing if there is no such table.
    pub fn drop_table(&mut self, table: TableId) -> Option<u64> {
        self.tables.get(table)?;
        let version = self.change_table(table, TableChange::Dropped)?;
        let removed = self.drop_as_of(table, version)?;
        self.tell_of_table(table, TableRemoval::Dropped);
        Some(removed)
    }

    /// Removes all objects of a table in the same way; the table stays.
    pub fn truncate(&mut self, table: TableId) -> Option<u64> {
        self.tables.get(table)?;
        let version = self.change_table(table, TableChange::Truncated)?;
        let removed = self.truncate_as_of(table, version)?;
        if removed > 0 {
            self.tell_of_table(table, TableRemoval::Truncated);
        }
        Some(removed)
    }

    pub(super) fn drop_as_of(&mut self, table: TableId, version: Version) -> Option<u64> {
        self.last_removal = version;
        self.tables.drop(table, version)
    }

    pub(super) fn truncate_as_of(&mut self, table: TableId, version: Version) -> Option<u64> {
        self.last_removal = version;
        self.tables.truncate(table, version)
    }

    /// The version of a change that is about to be made, which is a new one, and an entry, if there are entries. `None` if there are no more.
    fn change_table(&mut self, table: TableId, change: TableChange) -> Option<Version> {
        if self.recording.is_some() {
            self.version = self.next_version().ok()?;
        }
        if let Some(recording) = &mut self.recording {
            recording.change(Kind::Tables, self.version, table, &[], &change.encode());
        }
        Some(self.version)
    }
}

/// `what u8 | ordered u8 | eviction u8 | five zeroes`.
impl TableChange {
    pub(super) fn encode(self) -> [u8; CHANGE_BYTES] {
        let (what, ordered, eviction) = match self {
            TableChange::Created { ordered, eviction } => (1, ordered, eviction),
            TableChange::Altered { eviction } => (2, false, eviction),
            TableChange::Dropped => (3, false, Eviction::None),
            TableChange::Truncated => (4, false, Eviction::None),
        };
        let number = Eviction::ALL.iter().position(|other| *other == eviction);
        let number = number.expect("all of them are listed");
        [what, u8::from(ordered), number as u8, 0, 0, 0, 0, 0]
    }

    /// Nothing of bytes that say no change.
    pub(super) fn decode(value: &[u8]) -> Option<TableChange> {
        let [what, ordered, eviction, 0, 0, 0, 0, 0] = *value else { return None };
        let eviction = *Eviction::ALL.get(usize::from(eviction))?;
        match (what, ordered, eviction) {
            (1, 0 | 1, _) => Some(TableChange::Created { ordered: ordered == 1, eviction }),
            (2, 0, _) => Some(TableChange::Altered { eviction }),
            (3, 0, Eviction::None) => Some(TableChange::Dropped),
            (4, 0, Eviction::None) => Some(TableChange::Truncated),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_as_it_was_written_and_nothing_else_is_one() {
        for eviction in Eviction::ALL {
            for change in [
                TableChange::Created { ordered: false, eviction },
                TableChange::Created { ordered: true, eviction },
                TableChange::Altered { eviction },
                TableChange::Dropped,
                TableChange::Truncated,
            ] {
                assert_eq!(TableChange::decode(&change.encode()), Some(change));
            }
        }
        for other in [[0, 0, 0, 0, 0, 0, 0, 0], [1, 2, 0, 0, 0, 0, 0, 0], [1, 0, 3, 0, 0, 0, 0, 0]]
        {
            assert_eq!(TableChange::decode(&other), None);
        }
        assert_eq!(TableChange::decode(&[3, 0, 0, 0, 0, 0, 0, 1]), None);
        assert_eq!(TableChange::decode(&[3, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(TableChange::decode(&[5, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
