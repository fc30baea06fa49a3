//! Operations as the search sees them.

use super::register::Effect;
use super::values::Values;
use crate::history::{Action, Ending, Operation, Outcome};

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

/// The steps of one key's operations, and their values. Those that were not applied, and reads of unknown
/// outcome, explain nothing and have none.
pub(super) fn steps(operations: &[&Operation]) -> (Vec<Step>, Values) {
    let values = Values::default();
    let mut steps = Vec::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        if let Some((returned, effect)) = effect(operation, &values) {
            let invoked = operation.invoked.order;
            steps.push(Step { operation: index, invoked, returned, effect });
        }
    }
    (steps, values)
}

fn effect(operation: &Operation, values: &Values) -> Option<(Option<u64>, Effect)> {
    match &operation.ending {
        Ending::NotApplied(_) => None,
        Ending::Unknown => Some((None, unknown(&operation.action, values)?)),
        Ending::Completed(moment, outcome) => {
            if let Some((value, _)) = outcome.read() {
                values.note_read(values.id(value));
            }
            Some((Some(moment.order), known(&operation.action, outcome, values)))
        }
    }
}

fn unknown(action: &Action, values: &Values) -> Option<Effect> {
    Some(match action {
        Action::Put(value) | Action::GetAndPut(value) => {
            Effect::Write { value: values.id(value), version: None }
        }
        Action::Delete | Action::GetAndDelete => Effect::RemoveIfHeld,
        Action::CompareAndSet { expected, value } => {
            Effect::Compare { expected: *expected, value: values.id(value), version: None }
        }
        Action::Increment(delta) => Effect::Add { delta: *delta, told: None },
        Action::Append(tail) => Effect::Append { tail: values.id(tail), told: None },
        Action::Get | Action::Exists => return None,
    })
}

fn known(action: &Action, outcome: &Outcome, values: &Values) -> Effect {
    match (outcome, action) {
        (Outcome::Written { version }, Action::CompareAndSet { expected, value }) => {
            let (value, version) = (values.id(value), Some(*version));
            Effect::Compare { expected: *expected, value, version }
        }
        (Outcome::Written { version }, action) => {
            let value = action.written().expect("the recorder takes this of writes only");
            Effect::Write { value: values.id(value), version: Some(*version) }
        }
        (Outcome::Found { value, version }, _) => {
            let value = value.as_deref().map(|value| values.id(value));
            Effect::Found { value, version: *version }
        }
        (Outcome::Absent { as_of }, Action::CompareAndSet { expected, .. }) => {
            Effect::NothingToCompare { expected: *expected, as_of: *as_of }
        }
        (Outcome::Absent { as_of }, _) => Effect::Absent { as_of: *as_of },
        (Outcome::Removed { version }, _) => Effect::Remove { version: *version },
        (Outcome::Conflict { version }, action) => match action {
            Action::CompareAndSet { expected, .. } => {
                Effect::Conflict { expected: *expected, version: *version }
            }
            _ => unreachable!("the recorder takes this of compare-and-set only"),
        },
        (Outcome::Counted { number, version }, action) => match action {
            Action::Increment(delta) => {
                Effect::Add { delta: *delta, told: Some((*number, *version)) }
            }
            _ => unreachable!("the recorder takes this of increments only"),
        },
        (Outcome::Appended { len, version }, action) => match action {
            Action::Append(tail) => {
                Effect::Append { tail: values.id(tail), told: Some((*len, *version)) }
            }
            _ => unreachable!("the recorder takes this of appends only"),
        },
        (Outcome::Replaced { previous, version }, action) => {
            let previous = previous.as_ref().map(|(value, version)| (values.id(value), *version));
            let value = action.written().map(|value| values.id(value));
            Effect::Replace { previous, value, version: *version }
        }
    }
}
