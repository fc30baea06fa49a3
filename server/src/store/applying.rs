//! A replica that follows: entries of a primary become changes of its own log and index.
//!
//! Records are appended as they are, with the version that they have. Nothing is decided here: neither the clock, nor a quota, nor what
//! can be evicted plays a part, so that replicas which have applied the same entries are the same. Who watches is told
//! nothing; a primary does that.

use weft_protocol::limits::TABLES_MAX;
use weft_protocol::{Eviction, KeyChange, TableId, Version};

use super::address::Address;
use super::altering::TableChange;
use super::completion_record::Told;
use super::completions::NoRoom;
use super::entries::{ApplyError, Change, EntryParts, checked_entry, follows};
use super::error::StoreError;
use super::header::{LastUse, Record};
use super::index::{Slot, Tag};
use super::outcome::{Kept, Outcome};
use super::partition::Partition;
use super::planted::PlantedBug;
use super::tables::{Room, TableConfig};
use crate::limits::EXPIRED_KEPT_MS;

/// Why an entry is not applied.
enum Why {
    Contradiction,
    Refused(StoreError),
}

impl From<StoreError> for Why {
    fn from(error: StoreError) -> Why {
        Why::Refused(error)
    }
}

impl From<NoRoom> for Why {
    fn from(error: NoRoom) -> Why {
        match error {
            NoRoom::Memory(error) => Why::Refused(error.into()),
            // A primary refuses that.
            NoRoom::Full { .. } => Why::Contradiction,
        }
    }
}

impl Partition {
    /// Says whether changes come from a primary. Then nothing is removed by this node's clock before it has expired for long, and nothing is evicted; and
    /// whoever watches is told that it has to watch there.
    pub fn set_following(&mut self, follows: bool) {
        if follows && !self.follows {
            self.tell_of_move();
        }
        self.follows = follows;
    }

    /// Whether they do.
    pub fn is_following(&self) -> bool {
        self.follows
    }

    /// The version of the last entry, with the epoch that it was made in; [`Version::NONE`] before the first.
    pub fn last_entry(&self) -> Version {
        let is_before = self.version.sequence() == self.before_epoch.sequence();
        if is_before { self.before_epoch } else { self.version }
    }

    /// Makes the next entries in a higher epoch. Their sequences go on.
    ///
    /// # Errors
    /// [`ApplyError::EpochFell`] if it is lower, or has more than 20 bits.
    pub fn begin_epoch(&mut self, epoch: u32) -> Result<(), ApplyError> {
        if epoch < self.version.epoch() || epoch > Version::EPOCH_MAX {
            return Err(ApplyError::EpochFell { last: self.version, epoch });
        }
        self.before_epoch = self.last_entry();
        self.version = Version::new(epoch, self.version.sequence());
        Ok(())
    }

    /// Applies entries, which may be of anybody, and returns the version of the last one then. They have to come right behind the
    /// [last](Self::last_entry). None have no effect.
    ///
    /// # Errors
    /// Any [`ApplyError`] but those of snapshots. Of the entry that it is about nothing was applied; [`last_entry`](Self::last_entry) says
    /// how far those before it went.
    pub fn apply_entries(&mut self, bytes: &[u8], now_ms: u64) -> Result<Version, ApplyError> {
        // Whoever made them tells of them.
        let (watchers, recording) = (self.watchers.take(), self.recording.take());
        let applied = self.apply_all(bytes, now_ms);
        (self.watchers, self.recording) = (watchers, recording);
        applied.map(|()| self.last_entry())
    }

    fn apply_all(&mut self, bytes: &[u8], now_ms: u64) -> Result<(), ApplyError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (entry, behind) = checked_entry(rest, bytes.len() - rest.len())?;
            self.apply(entry, now_ms)?;
            rest = behind;
        }
        Ok(())
    }

    fn apply(&mut self, entry: EntryParts<'_>, now_ms: u64) -> Result<(), ApplyError> {
        let (version, last) = (entry.version, self.last_entry());
        if !follows(last, version) {
            return Err(ApplyError::OutOfSequence { last, found: version });
        }
        self.change(entry, now_ms).map_err(|why| match why {
            Why::Contradiction => ApplyError::Contradiction { version },
            Why::Refused(error) => ApplyError::Refused { version, error },
        })?;
        self.version = version;
        Ok(())
    }

    /// All that can fail comes before anything changes.
    fn change(&mut self, entry: EntryParts<'_>, now_ms: u64) -> Result<(), Why> {
        let EntryParts { version, change, completion } = entry;
        let change = match change {
            Some(change) if version.sequence() <= self.tables_as_of.sequence() => {
                self.left_to_change(change, version)
            }
            change => change,
        };
        let fits = match change {
            Some(Change::Object(record) | Change::Tombstone(record)) => {
                self.has_table(record.table())
            }
            Some(Change::Tables(table, change)) => self.is_possible(table, change),
            None => true,
        };
        if !fits {
            return Err(Why::Contradiction);
        }
        if let Some((_, Told::Done { attempt, .. })) = &completion {
            if !self.completions.lacks(attempt.id) {
                return Err(Why::Contradiction);
            }
            self.completions.reserve(*attempt, 0)?;
        }
        let key_record = change.and_then(|change| match change {
            Change::Object(record) | Change::Tombstone(record) => Some(record),
            Change::Tables(..) => None,
        });
        let tagged =
            key_record.map(|record| (record, self.index.tag(record.table(), record.key())));
        let found = tagged.and_then(|(record, tag)| self.find_unburied(tag, record));
        let previous = match &completion {
            Some((_, Told::Done { outcome, .. })) => self.previous_of(outcome, found),
            _ => None,
        };
        match change {
            Some(Change::Object(record)) => {
                let (_, tag) = tagged.expect("an object has a key");
                self.put_as_it_is(tag, record, found, now_ms)?;
            }
            Some(Change::Tombstone(record)) => {
                if let Some(learning) = &mut self.learning {
                    learning.removed(record.table(), record.key(), version)?;
                }
                self.last_removal = version;
                if let Some((slot, address)) = found {
                    self.remove(slot, address, KeyChange::Deleted, version);
                }
            }
            Some(Change::Tables(table, change)) => self.change_table_as_of(table, change, version),
            None => {}
        }
        match completion {
            Some((_, Told::Done { .. })) if self.planted.has(PlantedBug::ForgetCompletions) => {}
            Some((_, Told::Done { attempt, mut outcome, .. })) => {
                if let (Some(kept), Some(previous)) = (previous, outcome.previous_mut()) {
                    previous.value = kept;
                }
                if let (Some(learning), Some(previous)) = (&mut self.learning, outcome.previous())
                    && matches!(previous.value, Kept::Missing)
                {
                    learning.misses(previous.version, attempt.id);
                }
                self.completions.note(attempt, version, outcome);
            }
            Some((client, Told::Ended)) => {
                self.completions.end_by_entry(client);
                if let Some(learning) = &mut self.learning {
                    learning.ended(client, version);
                }
            }
            Some((_, Told::Waits(_))) | None => {}
        }
        Ok(())
    }

    /// What of a change is left to be done where tables are already as of a later entry, as a snapshot has told them: nothing for those that are not there any more;
    /// and one that is there may be another of the same number, made after this change.
    fn left_to_change<'a>(&mut self, change: Change<'a>, version: Version) -> Option<Change<'a>> {
        let (table, left) = match change {
            Change::Object(record) => (record.table(), Some(change)),
            Change::Tombstone(record) => {
                self.last_removal = version;
                (record.table(), Some(change))
            }
            Change::Tables(table, TableChange::Dropped | TableChange::Truncated) => {
                self.last_removal = version;
                (table, Some(Change::Tables(table, TableChange::Truncated)))
            }
            Change::Tables(table, TableChange::Created { .. } | TableChange::Altered { .. }) => {
                (table, None)
            }
        };
        left.filter(|_| self.has_table(table))
    }

    /// The record of a key, which is that of `record` and has this tag, expired or not. One that went with its table is removed.
    pub(super) fn find_unburied(
        &mut self,
        tag: Tag,
        record: Record<'_>,
    ) -> Option<(Slot, Address)> {
        let (table, key) = (record.table(), record.key());
        let is_key = |address| self.log.record(address).is_of(table, key);
        let (slot, address) = self.index.find(tag, is_key)?;
        if self.tables.is_buried(&self.log.record(address)) {
            self.remove_gone(slot, address);
            return None;
        }
        Some((slot, address))
    }

    /// Appends an object's record, whose key has this tag, with the version that it has.
    pub(super) fn put_as_it_is(
        &mut self,
        tag: Tag,
        record: Record<'_>,
        found: Option<(Slot, Address)>,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let (table, key, version) = (record.table(), record.key(), record.version());
        let liveness = LastUse::at(now_ms).liveness_word().to_le_bytes();
        let parts = [&liveness[..], record.lasting_bytes()];
        let new = (record.len(), version, record.expiry_ms().is_some());
        self.place(tag, found, (table, key), new, Room::Any, |log| {
            log.append(&parts, record.len(), version)
        })?;
        Ok(())
    }

    /// The value that an outcome has to keep, if it is what was `found`.
    fn previous_of(&self, outcome: &Outcome, found: Option<(Slot, Address)>) -> Option<Kept> {
        let (told, (_, address)) = (outcome.previous()?, found?);
        let (version, view) = self.previous(address);
        (version == told.version).then_some(Kept::Pinned(view))
    }

    /// Whether a table can be changed so.
    pub(super) fn is_possible(&self, table: TableId, change: TableChange) -> bool {
        let is_there = self.has_table(table);
        match change {
            TableChange::Created { .. } => !is_there && self.tables.others() < TABLES_MAX,
            TableChange::Altered { .. } | TableChange::Truncated => is_there,
            TableChange::Dropped => is_there && table != TableId::DEFAULT,
        }
    }

    fn change_table_as_of(&mut self, id: TableId, change: TableChange, version: Version) {
        match change {
            TableChange::Created { ordered, eviction } => {
                self.create_as_of(id, ordered, eviction);
            }
            TableChange::Altered { eviction } => self.tables.set_eviction(id, eviction),
            TableChange::Dropped => drop(self.drop_as_of(id, version)),
            TableChange::Truncated => drop(self.truncate_as_of(id, version)),
        }
        if let (Some(learning), TableChange::Dropped | TableChange::Truncated) =
            (&mut self.learning, change)
        {
            learning.emptied(id, version);
        }
    }

    /// Adds a table with the quota that this node has for it.
    pub(super) fn create_as_of(&mut self, id: TableId, ordered: bool, eviction: Eviction) {
        let quota = self.tables.quotas.remove(&id);
        self.tables.create(TableConfig { id, ordered, quota, eviction });
    }

    /// Whether a record that the index leads to may be removed by who tidies up: it [is gone](Self::is_gone), and so it is for who leads the
    /// partition, whose clock may be behind.
    pub(super) fn is_removable(&self, record: &Record<'_>, now_ms: u64) -> bool {
        if self.learning.is_some() {
            // An older record of the key may come yet.
            return self.tables.is_buried(record);
        }
        let slack_ms = if self.follows { EXPIRED_KEPT_MS } else { 0 };
        self.is_gone(record, now_ms.saturating_sub(slack_ms))
    }
}
