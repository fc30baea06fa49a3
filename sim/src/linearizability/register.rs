//! The model that histories are checked against: one key, as one client alone would see it.
//!
//! Versions of a key grow through delete and recreate. Every write and every removal has a version
//! above all earlier ones; an operation that finds nothing is told a version as of which there was
//! nothing, and what is written later is above it.

use weft_client::Version;

use super::values::{ValueId, Values};
use crate::history::Shown;

/// What a key holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Register {
    held: Option<Held>,
    /// No version after this point is at or below it.
    floor: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Held {
    value: ValueId,
    /// `None` until a reply tells it: the write's own outcome is unknown.
    version: Option<u64>,
}

/// What an operation did and was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    Write {
        value: ValueId,
        version: Option<u64>,
    },
    /// Found something; `exists` is not told the value.
    Found {
        value: Option<ValueId>,
        version: u64,
    },
    /// A read, an `exists` or a delete that found nothing.
    Absent {
        as_of: Option<u64>,
    },
    Remove {
        version: u64,
    },
    /// A delete of unknown outcome.
    RemoveIfHeld,
    /// Wrote a value, or removed it, and was told the one before.
    Replace {
        previous: Option<(ValueId, u64)>,
        value: Option<ValueId>,
        version: u64,
    },
    /// A compare-and-set that wrote; of unknown outcome, if it is not told the version.
    Compare {
        expected: u64,
        value: ValueId,
        version: Option<u64>,
    },
    /// One that found another version.
    Conflict {
        expected: u64,
        version: u64,
    },
    /// One that found nothing.
    NothingToCompare {
        expected: u64,
        as_of: Option<u64>,
    },
    Add {
        delta: i64,
        /// The number and the version.
        told: Option<(i64, u64)>,
    },
    Append {
        tail: ValueId,
        /// The whole length and the version.
        told: Option<(u64, u64)>,
    },
}

impl Register {
    /// The state after `effect`, if it can have been told what it was.
    pub(super) fn apply(self, effect: Effect, values: &Values) -> Option<Register> {
        match effect {
            Effect::Write { value, version } => self.written(value, version),
            Effect::Found { value, version } => self.found(value, version),
            Effect::Absent { as_of } => self.absent(as_of),
            Effect::Remove { version } => self.held.and_then(|_| self.removed(version)),
            Effect::RemoveIfHeld if self.held.is_some() => {
                Some(Register { held: None, floor: self.floor + 1 })
            }
            Effect::RemoveIfHeld => Some(self),
            Effect::Replace { previous, value, version } => {
                let seen = match previous {
                    Some((value, version)) => self.found(Some(value), version)?,
                    None if self.held.is_none() => self,
                    None => return None,
                };
                match value {
                    Some(value) => seen.written(value, Some(version)),
                    None => seen.removed(version),
                }
            }
            Effect::Compare { expected, value, version } => {
                match (self.expects(expected), version) {
                    (Some(seen), version) => seen.written(value, version),
                    (None, Some(_)) => None,
                    (None, None) => Some(self),
                }
            }
            Effect::Conflict { expected, version } if version != expected => {
                self.found(None, version)
            }
            Effect::NothingToCompare { expected, as_of } if expected != Version::NONE.0 => {
                self.absent(as_of)
            }
            Effect::Conflict { .. } | Effect::NothingToCompare { .. } => None,
            Effect::Add { delta, told } => match (values.add(self.value(), delta), told) {
                (Some((sum, value)), Some((number, version))) if sum == number => {
                    self.written(value, Some(version))
                }
                (Some((_, value)), None) => self.written(value, None),
                // It was refused, or nobody knows that it was.
                (None, None) => Some(self),
                (_, Some(_)) => None,
            },
            Effect::Append { tail, told } => {
                let value = values.append(self.value(), tail);
                match told {
                    Some((len, _)) if values.len(value) != len => None,
                    told => self.written(value, told.map(|(_, version)| version)),
                }
            }
        }
    }

    /// Whether no operation from now on can be told this version.
    pub(super) fn has_passed(self, version: u64) -> bool {
        version < self.floor
    }

    /// What it holds.
    pub(super) fn value(self) -> Option<ValueId> {
        self.held.map(|held| held.value)
    }

    /// For people.
    pub(super) fn describe(self, values: &Values) -> String {
        let Some(Held { value, version }) = self.held else {
            return format!("nothing, as of version {}", Version(self.floor));
        };
        let value = values.bytes(value, |bytes| Shown(bytes).to_string());
        match version {
            Some(version) => format!("{value} at version {}", Version(version)),
            None => format!("{value} at a version not yet told"),
        }
    }

    fn written(self, value: ValueId, version: Option<u64>) -> Option<Register> {
        let floor = match version {
            Some(version) if version <= self.floor => return None,
            Some(version) => version,
            None => self.floor + 1,
        };
        Some(Register { held: Some(Held { value, version }), floor })
    }

    fn removed(self, version: u64) -> Option<Register> {
        (version > self.floor).then_some(Register { held: None, floor: version })
    }

    fn found(self, value: Option<ValueId>, version: u64) -> Option<Register> {
        let held = self.held?;
        let version_fits = match held.version {
            Some(known) => known == version,
            None => version >= self.floor,
        };
        let value_fits = value.is_none_or(|value| value == held.value);
        (version_fits && value_fits).then_some(Register {
            held: Some(Held { value: held.value, version: Some(version) }),
            floor: self.floor.max(version),
        })
    }

    fn absent(self, as_of: Option<u64>) -> Option<Register> {
        let as_of = as_of.unwrap_or(self.floor);
        (self.held.is_none() && as_of >= self.floor)
            .then_some(Register { held: None, floor: as_of })
    }

    /// The state that a compare-and-set has found, if it is as expected.
    fn expects(self, expected: u64) -> Option<Register> {
        match (expected == Version::NONE.0, self.held) {
            (true, None) => Some(self),
            (true, Some(_)) => None,
            (false, _) => self.found(None, expected),
        }
    }
}

impl Effect {
    /// The version that the client was told, if it was told one.
    pub(super) fn version(self) -> Option<u64> {
        match self {
            Effect::Write { version, .. }
            | Effect::Absent { as_of: version }
            | Effect::Compare { version, .. }
            | Effect::NothingToCompare { as_of: version, .. } => version,
            Effect::Found { version, .. }
            | Effect::Remove { version }
            | Effect::Replace { version, .. }
            | Effect::Conflict { version, .. } => Some(version),
            Effect::Add { told, .. } => told.map(|(_, version)| version),
            Effect::Append { told, .. } => told.map(|(_, version)| version),
            Effect::RemoveIfHeld => None,
        }
    }

    /// Whether what it leaves depends on what it finds: several of unknown outcome can then follow one
    /// another, and all of them be seen.
    pub(super) fn builds_on(self) -> bool {
        matches!(self, Effect::Add { .. } | Effect::Append { .. } | Effect::Compare { .. })
    }

    /// Whether it can have been told what it was by two values, which later differ.
    pub(super) fn is_told_less_than_it_leaves(self) -> bool {
        matches!(self, Effect::Append { .. })
    }
}
