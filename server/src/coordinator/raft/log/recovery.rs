//! What a log holds, put together and checked, before anything is made of it.
//!
//! raft-rs panics where its state does not hang together (a commit index beyond the log, below the snapshot), and goes on silently
//! where entries are missing; here both are an error that says what to do.

use std::collections::BTreeMap;

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft_codec::Message;
use weft_transport::NodeId;

use super::record::{FORMAT, Kind, unseal};
use super::{LogError, Position};
use crate::coordinator::raft::identity::{ClusterId, Identity};
use crate::coordinator::raft::inspection;
use crate::coordinator::raft::roster::StateRecord;

/// All that a log holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// Where it is, for messages.
    pub place: String,
    /// Whose it is.
    pub identity: Identity,
    /// How often it was opened.
    pub life: u64,
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// State, applied index and members; its index is 0 if the member has just joined.
    pub snapshot: Snapshot,
    /// The entry before the first of `entries`.
    pub start: Position,
    /// The log from there on, without gaps.
    pub entries: Vec<Entry>,
}

/// Puts records together.
pub(super) fn recover(
    place: &str,
    records: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<Recovered, LogError> {
    let mut parts = Parts::default();
    let records: Vec<_> = records.collect();
    // The format first: another one may have records that this program cannot read.
    let format = records.iter().filter(|(key, _)| Kind::of(key) == Some(Kind::Format));
    for (key, value) in format.chain(&records) {
        parts.take(key, value).map_err(|detail| corrupt(place, detail))?;
        if let Some(found) = parts.format.filter(|found| *found != FORMAT) {
            return Err(LogError::Format { place: place.to_owned(), found, supported: FORMAT });
        }
    }
    if parts.is_empty() {
        return Err(LogError::Missing { place: place.to_owned() });
    }
    parts.assemble(place).map_err(|detail| corrupt(place, detail))
}

fn corrupt(place: &str, detail: String) -> LogError {
    LogError::Corrupt { place: place.to_owned(), detail }
}

/// Records as they were found.
#[derive(Default)]
struct Parts {
    format: Option<u32>,
    identity: Option<Identity>,
    life: Option<u64>,
    hard_state: Option<HardState>,
    snapshot: Option<Snapshot>,
    start: Option<Position>,
    entries: BTreeMap<u64, Entry>,
}

impl Parts {
    fn is_empty(&self) -> bool {
        self.format.is_none() && self.identity.is_none() && self.hard_state.is_none()
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let kind = Kind::of(key)
            .ok_or_else(|| format!("record {} is of no known kind", key.escape_ascii()))?;
        let unread = || format!("the record of {kind:?} has a bad checksum or cannot be read");
        let bytes = unseal(key, value).ok_or_else(unread)?;
        match kind {
            Kind::Format => {
                self.format = Some(u32::from_le_bytes(bytes.try_into().map_err(|_| unread())?));
            }
            Kind::Identity => self.identity = Some(Identity::decode(bytes).ok_or_else(unread)?),
            Kind::Life => {
                self.life = Some(u64::from_le_bytes(bytes.try_into().map_err(|_| unread())?));
            }
            Kind::HardState => {
                self.hard_state = Some(HardState::decode(bytes).map_err(|_| unread())?);
            }
            Kind::Snapshot => self.snapshot = Some(Snapshot::decode(bytes).map_err(|_| unread())?),
            Kind::Start => {
                let (index, term) = bytes.split_first_chunk::<8>().ok_or_else(unread)?;
                let term = u64::from_le_bytes(term.try_into().map_err(|_| unread())?);
                self.start = Some(Position { index: u64::from_le_bytes(*index), term });
            }
            Kind::Entry(index) => {
                let entry = Entry::decode(bytes).map_err(|_| unread())?;
                if entry.index != index || !inspection::is_known_entry(&entry) {
                    return Err(unread());
                }
                self.entries.insert(index, entry);
            }
        }
        Ok(())
    }

    fn assemble(self, place: &str) -> Result<Recovered, String> {
        let missing = |what: &str| format!("the record of the {what} is missing");
        let Parts { format, identity, life, hard_state, snapshot, start, entries } = self;
        format.ok_or_else(|| missing("format"))?;
        let recovered = Recovered {
            place: place.to_owned(),
            identity: identity.ok_or_else(|| missing("identity"))?,
            life: life.ok_or_else(|| missing("life"))?,
            hard_state: hard_state.ok_or_else(|| missing("hard state"))?,
            snapshot: snapshot.unwrap_or_default(),
            start: start.unwrap_or_default(),
            entries: entries.into_values().collect(),
        };
        recovered.check()?;
        Ok(recovered)
    }
}

impl Recovered {
    /// Refuses the log of another node or cluster. A node that knows no cluster yet takes that of its log.
    ///
    /// # Errors
    /// [`LogError::OtherNode`], [`LogError::OtherCluster`].
    pub fn check_owner(&self, node: NodeId, cluster: Option<ClusterId>) -> Result<(), LogError> {
        let Identity { cluster: found, node: owner, .. } = self.identity;
        let place = || self.place.clone();
        if owner != node {
            return Err(LogError::OtherNode { place: place(), found: owner.0, expected: node.0 });
        }
        match cluster {
            Some(expected) if expected != found => {
                Err(LogError::OtherCluster { place: place(), found, expected })
            }
            _ => Ok(()),
        }
    }

    /// The place of the last entry, or of what stands for it.
    pub fn last(&self) -> Position {
        let of = |entry: &Entry| Position { index: entry.index, term: entry.term };
        self.entries.last().map_or(self.start, of)
    }

    /// The applied index: all of it is in the snapshot.
    pub fn applied(&self) -> Position {
        let metadata = self.snapshot.metadata.clone().unwrap_or_default();
        Position { index: metadata.index, term: metadata.term }
    }

    /// The members as of the applied index.
    pub fn conf_state(&self) -> ConfState {
        self.snapshot.metadata.clone().unwrap_or_default().conf_state.unwrap_or_default()
    }

    fn check(&self) -> Result<(), String> {
        let (applied, last, commit) = (self.applied(), self.last(), self.hard_state.commit);
        let mut before = self.start;
        for entry in &self.entries {
            if entry.index != before.index + 1 {
                return Err(format!("entries {} to {} are missing", before.index + 1, entry.index));
            }
            if entry.term < before.term {
                return Err(format!(
                    "entry {} is of an older term than the one before",
                    entry.index
                ));
            }
            before = Position { index: entry.index, term: entry.term };
        }
        if applied.index < self.start.index || applied.index > last.index {
            return Err(format!(
                "the snapshot of index {} does not meet the entries after {} to {}",
                applied.index, self.start.index, last.index
            ));
        }
        if commit < applied.index || commit > last.index {
            return Err(format!(
                "the commit index {commit} is not between the snapshot's {} and the last entry {}",
                applied.index, last.index
            ));
        }
        if self.hard_state.term < last.term {
            return Err(format!(
                "term {} is older than the last entry's {}",
                self.hard_state.term, last.term
            ));
        }
        if applied.index > 0 {
            inspection::check_members(&self.conf_state()).map_err(|unfit| unfit.to_string())?;
            StateRecord::decode(&self.snapshot.data).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
