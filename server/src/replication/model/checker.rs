//! What clients were told has to be explained by one order of everything.
//!
//! Every write has a version that its primary gave it, and a read tells the version of what it found. So a register is linearizable
//! if versions never go back in real time, and if what was read is what was written with that version ("Testing shared memories",
//! Gibbons and Korach, 1997: with the order of writes known, checking is linear).

use std::collections::HashMap;

use weft_protocol::Version;

/// What a client did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    /// `None` removes the key.
    Write(Option<u64>),
}

/// What a client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The write is committed with this version.
    Written(Version),
    /// The read found this.
    Found(Version, Option<u64>),
    /// Nothing was done.
    Refused,
    /// It may have been done, or may be done yet.
    Unknown,
}

#[derive(Default)]
pub(super) struct Checker {
    /// By partition and key: the newest version that some finished operation has seen or made.
    seen: HashMap<(u16, u8), Version>,
    /// By partition and sequence: the entry that some client has seen or made.
    entries: HashMap<(u16, u64), Version>,
    /// By partition and version: all entries that primaries ever made.
    made: HashMap<(u16, Version), (u8, Option<u64>)>,
    /// Writes that were acknowledged, for the end.
    pub(super) acknowledged: Vec<(u16, Version)>,
}

impl Checker {
    /// What an operation that begins now must not be behind.
    pub(super) fn floor(&self, partition: u16, key: u8) -> Version {
        self.seen.get(&(partition, key)).copied().unwrap_or_default()
    }

    pub(super) fn made(
        &mut self,
        partition: u16,
        version: Version,
        key: u8,
        value: Option<u64>,
    ) -> Result<(), String> {
        match self.made.insert((partition, version), (key, value)) {
            None => Ok(()),
            Some(_) => Err(format!("partition {partition}: {version} was given out twice")),
        }
    }

    pub(super) fn finished(
        &mut self,
        (partition, key): (u16, u8),
        action: Action,
        floor: Version,
        outcome: Outcome,
    ) -> Result<(), String> {
        let place = format!("partition {partition}, key {key}");
        let version = match (action, outcome) {
            (Action::Write(_), Outcome::Written(version)) => {
                if version <= floor {
                    return Err(format!("{place}: write {version} after {floor} was finished"));
                }
                self.acknowledged.push((partition, version));
                version
            }
            (Action::Read, Outcome::Found(version, value)) => {
                if version < floor && value.is_none() && self.may_be_absent(partition, key, floor) {
                    // A node that got a snapshot does not know when a key was removed, and whoever asked for that need not have
                    // been told.
                    return Ok(());
                }
                if version < floor {
                    return Err(format!("{place}: read {version} after {floor} was finished"));
                }
                let made = self.made.get(&(partition, version));
                if version != Version::NONE && made != Some(&(key, value)) {
                    return Err(format!("{place}: read {value:?} as {version}, made was {made:?}"));
                }
                if version == Version::NONE && value.is_some() {
                    return Err(format!("{place}: a value without a version"));
                }
                version
            }
            _ => return Ok(()),
        };
        let seen = self.seen.entry((partition, key)).or_default();
        *seen = (*seen).max(version);
        self.is_only(partition, version)
    }

    /// Whether `key` may be absent although `floor` was seen: a removal was made that is as new.
    pub(super) fn may_be_absent(&self, partition: u16, key: u8, floor: Version) -> bool {
        self.made.iter().any(|((of, version), (other, value))| {
            (*of, *other) == (partition, key) && *version >= floor && value.is_none()
        })
    }

    /// One sequence is one entry, to everybody who is told of it.
    fn is_only(&mut self, partition: u16, version: Version) -> Result<(), String> {
        if version == Version::NONE {
            return Ok(());
        }
        let known = *self.entries.entry((partition, version.sequence())).or_insert(version);
        if known == version {
            Ok(())
        } else {
            Err(format!("partition {partition}: clients were told of {known} and of {version}"))
        }
    }

    /// What each key has to be at the end, at least.
    pub(super) fn floors(&self) -> impl Iterator<Item = (u16, u8, Version)> {
        self.seen.iter().map(|((partition, key), version)| (*partition, *key, *version))
    }
}
