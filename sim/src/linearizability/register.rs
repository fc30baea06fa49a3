//! The model that histories are checked against: one key, as one client alone would see it.
//!
//! Versions of a key grow through delete and recreate. Every write and every removal has a version
//! above all earlier ones; an operation that finds nothing is told a version as of which there was
//! nothing, and what is written later is above it.

use std::collections::HashMap;

use weft_client::Version;

use crate::history::{Action, Ending, Operation, Outcome, Shown};

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

/// A value, by the first operation that names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ValueId(usize);

/// An operation, as the search sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    /// Its index among the key's operations.
    pub(super) operation: usize,
    pub(super) invoked: u64,
    /// `None` if the outcome is unknown.
    pub(super) returned: Option<u64>,
    pub(super) effect: Effect,
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
}

impl Register {
    /// The state after `step`, if it can have been told what it was.
    pub(super) fn apply(self, step: &Step) -> Option<Register> {
        match (step.effect, self.held) {
            (Effect::Write { value, version: Some(version) }, _) => (version > self.floor)
                .then_some(Register {
                    held: Some(Held { value, version: Some(version) }),
                    floor: version,
                }),
            (Effect::Write { value, version: None }, _) => {
                Some(Register { held: Some(Held { value, version: None }), floor: self.floor + 1 })
            }
            (Effect::Found { value, version }, Some(held)) => {
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
            (Effect::Absent { as_of }, None) => {
                let as_of = as_of.unwrap_or(self.floor);
                (as_of >= self.floor).then_some(Register { held: None, floor: as_of })
            }
            (Effect::Remove { version }, Some(_)) => {
                (version > self.floor).then_some(Register { held: None, floor: version })
            }
            (Effect::RemoveIfHeld, Some(_)) => Some(Register { held: None, floor: self.floor + 1 }),
            (Effect::RemoveIfHeld, None) => Some(self),
            (Effect::Found { .. } | Effect::Remove { .. }, None)
            | (Effect::Absent { .. }, Some(_)) => None,
        }
    }

    /// Whether no operation from now on can be told this version.
    pub(super) fn has_passed(self, version: u64) -> bool {
        version < self.floor
    }

    /// For people; `operations` are those that the steps were made of.
    pub(super) fn describe(self, operations: &[&Operation]) -> String {
        let Some(Held { value: ValueId(first), version }) = self.held else {
            return format!("nothing, as of version {}", Version(self.floor));
        };
        let value = named_value(operations[first]).expect("a value's id is an operation naming it");
        match version {
            Some(version) => format!("{} at version {}", Shown(value), Version(version)),
            None => format!("{} at a version not yet told", Shown(value)),
        }
    }
}

impl Effect {
    /// The version that the client was told, if it was told one.
    pub(super) fn version(self) -> Option<u64> {
        match self {
            Effect::Write { version, .. } | Effect::Absent { as_of: version } => version,
            Effect::Found { version, .. } | Effect::Remove { version } => Some(version),
            Effect::RemoveIfHeld => None,
        }
    }
}

/// The steps of one key's operations. Those that were not applied, and reads of unknown outcome,
/// explain nothing and have none.
pub(super) fn steps(operations: &[&Operation]) -> Vec<Step> {
    let mut values: HashMap<&[u8], ValueId> = HashMap::new();
    let mut steps = Vec::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        let value =
            named_value(operation).map(|value| *values.entry(value).or_insert(ValueId(index)));
        if let Some((returned, effect)) = effect(operation, value) {
            let invoked = operation.invoked.order;
            steps.push(Step { operation: index, invoked, returned, effect });
        }
    }
    steps
}

fn effect(operation: &Operation, value: Option<ValueId>) -> Option<(Option<u64>, Effect)> {
    let (returned, outcome) = match &operation.ending {
        Ending::NotApplied(_) => return None,
        Ending::Unknown => {
            let effect = match operation.action {
                Action::Put(_) => Effect::Write { value: value?, version: None },
                Action::Delete => Effect::RemoveIfHeld,
                Action::Get | Action::Exists => return None,
            };
            return Some((None, effect));
        }
        Ending::Completed(moment, outcome) => (Some(moment.order), outcome),
    };
    let effect = match *outcome {
        Outcome::Written { version } => Effect::Write { value: value?, version: Some(version) },
        Outcome::Found { version, .. } => Effect::Found { value, version },
        Outcome::Absent { as_of } => Effect::Absent { as_of },
        Outcome::Removed { version } => Effect::Remove { version },
    };
    Some((returned, effect))
}

/// The value that an operation wrote or read.
fn named_value(operation: &Operation) -> Option<&[u8]> {
    match (&operation.action, &operation.ending) {
        (Action::Put(value), _) => Some(value),
        (_, Ending::Completed(_, Outcome::Found { value, .. })) => value.as_deref(),
        _ => None,
    }
}
