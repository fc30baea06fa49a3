//! The learner's side of a snapshot: parts of it come in, while the entries that are made meanwhile are applied.
//!
//! A part says what was there at some entry, and is taken in once that entry was applied. So all that is known here is as new as the
//! part or newer, and a record is taken only if nothing newer is known of its key: no record, no removal of the key, and
//! none of its table's. What is removed is remembered until the snapshot is whole.

use std::collections::BTreeMap;

use weft_protocol::{CompletionId, TableId, Version};
use weft_transport::{Charge, Memory, MemoryError, Purpose};

use super::altering::TableChange;
use super::completion_record::Told;
use super::completions::{Attempt, Completions, NoRoom};
use super::entries::{ApplyError, Change, Said, checked_record, said};
use super::error::StoreError;
use super::header::Record;
use super::index::Index;
use super::log::Log;
use super::outcome::{COPIED_MAX, Kept, Outcome};
use super::partition::Partition;
use super::tables::Tables;
use super::uploading::Uploads;

/// What a removed key takes beside its bytes: two thirds of a tree's nodes are full.
const REMOVED_BYTES: usize = (size_of::<(TableId, Box<[u8]>, Version)>() + 16) * 3 / 2;

/// What is remembered until a snapshot is whole.
#[derive(Debug)]
pub(super) struct Learning {
    removed: BTreeMap<(TableId, Box<[u8]>), Version>,
    emptied: BTreeMap<TableId, Version>,
    ended: BTreeMap<u64, Version>,
    /// Requests whose previous object, of this version, was not here yet.
    missed: BTreeMap<Version, CompletionId>,
    charge: Charge,
}

impl Partition {
    /// Begins anew, empty, as of the entry `start`, with the tables of `head`: what [`Snapshot::head`](super::Snapshot::head) has said, at that
    /// entry or a later one. Entries behind `start` can be applied from then on, and parts be [taken in](Self::apply_snapshot) beside. Of
    /// tables that were made or dropped between `start` and the head, the head knows already, and the entries change nothing.
    ///
    /// # Errors
    /// [`ApplyError::Malformed`] and [`ApplyError::Checksum`]. The partition is empty then, without a snapshot.
    pub fn begin_snapshot(&mut self, start: Version, head: &[u8]) -> Result<(), ApplyError> {
        self.clear();
        let (mut rest, mut tables_as_of) = (head, start);
        while !rest.is_empty() {
            let offset = head.len() - rest.len();
            let (record, behind) = checked_record(rest, offset)?;
            rest = behind;
            tables_as_of = tables_as_of.max(record.version());
            let malformed = ApplyError::Malformed { offset };
            let Some(Said::Change(Change::Tables(id, change))) = said(record) else {
                return Err(malformed);
            };
            match change {
                TableChange::Created { ordered, eviction } if self.is_possible(id, change) => {
                    self.create_as_of(id, ordered, eviction);
                }
                TableChange::Altered { eviction } if id == TableId::DEFAULT => {
                    self.tables.set_eviction(id, eviction);
                }
                _ => return Err(malformed),
            }
        }
        (self.version, self.before_epoch, self.tables_as_of) = (start, start, tables_as_of);
        // Whatever was removed before is not here either.
        self.last_removal = start;
        self.learning = Some(Box::new(Learning::new(&self.memory)));
        Ok(())
    }

    /// Whether a snapshot is being taken in: objects are missing, and nothing may be answered from what is there.
    pub fn is_learning(&self) -> bool {
        self.learning.is_some()
    }

    /// Takes in a part of a snapshot, of which no record is newer than the entry `as_of`. It may come again: what is known stays.
    ///
    /// # Errors
    /// [`ApplyError::TooEarly`] before that entry was applied; nothing was taken in then. [`ApplyError::Malformed`], [`ApplyError::Checksum`];
    /// nothing was taken in. [`ApplyError::Refused`] for want of memory; some was taken in, and it can be tried again.
    pub fn apply_snapshot(
        &mut self,
        as_of: Version,
        part: &[u8],
        now_ms: u64,
    ) -> Result<(), ApplyError> {
        if self.learning.is_none() {
            return Err(ApplyError::NoSnapshot);
        }
        let last = self.last_entry();
        if last.sequence() < as_of.sequence() {
            return Err(ApplyError::TooEarly { last, needed: as_of });
        }
        let mut rest = part;
        while !rest.is_empty() {
            let offset = part.len() - rest.len();
            let (record, behind) = checked_record(rest, offset)?;
            let may_come = matches!(
                said(record),
                Some(
                    Said::Change(Change::Object(_))
                        | Said::Client(_, Told::Waits(_) | Told::Done { .. })
                )
            );
            if !may_come || record.version() > as_of.min(last) {
                return Err(ApplyError::Malformed { offset });
            }
            rest = behind;
        }
        let (watchers, recording) = (self.watchers.take(), self.recording.take());
        let taken_in = self.take_in(part, now_ms);
        (self.watchers, self.recording) = (watchers, recording);
        taken_in
    }

    /// Ends a snapshot of which all parts were taken in: the partition is what its primary was at the last entry.
    pub fn end_snapshot(&mut self) {
        self.learning = None;
    }

    /// Forgets everything: objects, tables, completions, uploads, versions. Who watches goes on; what is recorded does not.
    pub fn clear(&mut self) {
        let quotas = self.tables.take_quotas();
        let waiting = std::mem::take(&mut self.tables.quotas);
        // The old ones go first, so that there is memory for the new.
        self.completions = Completions::new(&self.memory);
        self.index = Index::new(self.index.seed(), &self.memory);
        self.log = Log::new(self.memory.clone());
        self.tables = Tables::new(self.memory.clone());
        self.uploads = Uploads::default();
        self.learning = None;
        (self.version, self.before_epoch) = (Version::NONE, Version::NONE);
        self.tables_as_of = Version::NONE;
        (self.last_removal, self.sweep_at, self.evict_at) = (Version::NONE, 0, 0);
        for (table, quota) in quotas.into_iter().chain(waiting) {
            self.set_quota(table, Some(quota));
        }
        if self.is_recording() {
            self.set_recording(true);
        }
    }

    fn take_in(&mut self, part: &[u8], now_ms: u64) -> Result<(), ApplyError> {
        let mut rest = part;
        while let Some((record, behind)) = Record::split(rest) {
            let version = record.version();
            let taken = match said(record) {
                Some(Said::Change(Change::Object(record))) => self.take_object(record, now_ms),
                Some(Said::Client(client, told)) => self.take_told(client, told, version),
                Some(Said::Change(_)) | None => Ok(()),
            };
            taken.map_err(|error| match error {
                NoRoom::Memory(error) => ApplyError::Refused { version, error: error.into() },
                NoRoom::Full { .. } => ApplyError::Contradiction { version },
            })?;
            rest = behind;
        }
        Ok(())
    }

    fn take_object(&mut self, record: Record<'_>, now_ms: u64) -> Result<(), NoRoom> {
        let (table, key, version) = (record.table(), record.key(), record.version());
        self.fill_in(version, record.value()).map_err(NoRoom::Memory)?;
        let tag = self.index.tag(table, key);
        let found = self.find_unburied(tag, record);
        let known = found.map(|(_, address)| self.log.record(address).version());
        let removed = self.learning.as_ref().and_then(|learning| learning.last_removal(table, key));
        if !self.has_table(table) || known.max(removed).is_some_and(|known| known >= version) {
            return Ok(());
        }
        match self.put_as_it_is(tag, record, found, now_ms) {
            Err(StoreError::MemoryLimit(error)) => Err(NoRoom::Memory(error)),
            // There are a million segments, of a megabyte.
            Err(_) => Err(NoRoom::Full { limit: 0 }),
            Ok(()) => Ok(()),
        }
    }

    fn take_told(&mut self, client: u64, told: Told<'_>, version: Version) -> Result<(), NoRoom> {
        let Some(learning) = &self.learning else { return Ok(()) };
        if learning.ended.get(&client).is_some_and(|ended| *ended >= version) {
            return Ok(());
        }
        let (attempt, outcome, previous) = match told {
            Told::Ended => return Ok(()),
            Told::Waits(first_incomplete) => {
                let id = CompletionId { client, sequence: first_incomplete };
                self.completions.reserve(Attempt { id, first_incomplete }, 0)?;
                self.completions.complete_up_to(client, first_incomplete);
                return Ok(());
            }
            Told::Done { attempt, outcome, previous } => (attempt, outcome, previous),
        };
        if let (Some(told), Some(value)) = (outcome.previous(), previous) {
            self.fill_in(told.version, value).map_err(NoRoom::Memory)?;
        }
        if !self.completions.lacks(attempt.id) {
            return Ok(());
        }
        let copied = previous.map_or(0, <[u8]>::len);
        self.completions.reserve(attempt, copied.min(COPIED_MAX))?;
        let outcome = with_previous(outcome, previous, &self.memory).map_err(NoRoom::Memory)?;
        self.completions.note(attempt, version, outcome);
        Ok(())
    }

    /// Keeps a value for the request that has replaced the object of this version, if that has missed it.
    fn fill_in(&mut self, version: Version, value: &[u8]) -> Result<(), MemoryError> {
        let learning = self.learning.as_ref();
        let Some(id) = learning.and_then(|learning| learning.missed.get(&version).copied()) else {
            return Ok(());
        };
        self.completions.reserve_copy(value.len())?;
        let kept = Kept::copied(value, &self.memory)?;
        self.completions.fill_in(id, kept);
        if let Some(learning) = &mut self.learning {
            learning.missed.remove(&version);
        }
        Ok(())
    }
}

fn with_previous(
    mut outcome: Outcome,
    value: Option<&[u8]>,
    memory: &Memory,
) -> Result<Outcome, MemoryError> {
    if let (Some(previous), Some(value)) = (outcome.previous_mut(), value) {
        previous.value = Kept::copied(value, memory)?;
    }
    Ok(outcome)
}

impl Learning {
    fn new(memory: &Memory) -> Learning {
        Learning {
            removed: BTreeMap::new(),
            emptied: BTreeMap::new(),
            ended: BTreeMap::new(),
            missed: BTreeMap::new(),
            charge: memory.charge(0, Purpose::Partition).expect("charging nothing needs no room"),
        }
    }

    /// Notes that a key was removed.
    pub(super) fn removed(
        &mut self,
        table: TableId,
        key: &[u8],
        version: Version,
    ) -> Result<(), StoreError> {
        let bytes = self.charge.bytes() + (REMOVED_BYTES + key.len()) as u64;
        let key = (table, key.into());
        if let Some(known) = self.removed.get_mut(&key) {
            *known = version;
            return Ok(());
        }
        self.charge.resize(bytes)?;
        self.removed.insert(key, version);
        Ok(())
    }

    /// Notes that a table lost all its objects.
    pub(super) fn emptied(&mut self, table: TableId, version: Version) {
        self.emptied.insert(table, version);
    }

    /// Notes that a client is gone.
    pub(super) fn ended(&mut self, client: u64, version: Version) {
        self.ended.insert(client, version);
    }

    /// Notes that a request has replaced an object that has not come yet.
    pub(super) fn misses(&mut self, version: Version, id: CompletionId) {
        self.missed.insert(version, id);
    }

    fn last_removal(&self, table: TableId, key: &[u8]) -> Option<Version> {
        let removed = self.removed.get(&(table, Box::from(key))).copied();
        removed.max(self.emptied.get(&table).copied())
    }
}
