//! Whether every change that clients were told of is there, once, and no other.
//!
//! Linearizability says the same and more, but of orders, and by a search; this is an account that
//! anybody can check. Every change has an id in the value that it writes. In an append list
//! nothing is ever overwritten, so what is acknowledged and not in it is lost; a counter has been counted up
//! as often as was acknowledged, and no more often than was tried; of any other key, the last change
//! that was acknowledged is there, or a later one.
//!
//! It is drawn up from a history that ends with a read of every key after all else has ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::history::{Action, Ending, History, Operation, Outcome};

/// What ends an id in an append list.
pub const ID_END: u8 = b';';

/// The account of a history.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ledger {
    /// Changes that were acknowledged.
    pub acknowledged: u64,
    /// Changes of unknown outcome.
    pub unknown: u64,
    /// Those of unknown outcome that are seen to have been applied, in lists and counters.
    pub unknown_applied: u64,
    /// Changes that certainly were not applied.
    pub refused: u64,
    /// Keys by how they are accounted for.
    pub keys: BTreeMap<&'static str, u64>,
    /// What is wrong.
    pub errors: Vec<Error>,
}

/// Something that an account shows to be wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A change was acknowledged, and is neither there nor overwritten.
    #[error("lost: {operation}")]
    Lost {
        /// The change.
        operation: Box<Operation>,
    },
    /// A change is there more than once.
    #[error("duplicated: {operation}")]
    Duplicated {
        /// The change.
        operation: Box<Operation>,
    },
    /// A change that was not applied, or that nobody asked for, is there.
    #[error("phantom on key {}: {}", .key.escape_ascii(), .id.escape_ascii())]
    Phantom {
        /// The key.
        key: Vec<u8>,
        /// What is there.
        id: Vec<u8>,
    },
    /// A counter shows what no number of its increments adds up to.
    #[error("key {} counts {number}, between {least} and {most} were added", .key.escape_ascii())]
    Counter {
        /// The key.
        key: Vec<u8>,
        /// What it shows.
        number: i64,
        /// What was acknowledged.
        least: i64,
        /// The same, with what may have been applied.
        most: i64,
    },
}

impl Ledger {
    /// Draws up the account of the keys of a history that were read in the end, which `is_read` tells.
    pub fn of(history: &History, is_read: impl Fn(&[u8]) -> bool) -> Self {
        let mut ledger = Ledger::default();
        for (key, operations) in history.by_key().into_iter().filter(|(key, _)| is_read(key)) {
            let changes = operations.iter().filter(|operation| operation.action.is_mutation());
            let mut kind: Option<&'static str> = None;
            for change in changes {
                let of_change = match change.action {
                    Action::Append(_) => "append list",
                    Action::Increment(_) => "counter",
                    _ => "register",
                };
                // A key with several kinds of changes is a register.
                kind = Some(if kind.is_none_or(|kind| kind == of_change) {
                    of_change
                } else {
                    "register"
                });
                match change.ending {
                    Ending::Completed(..) => ledger.acknowledged += 1,
                    Ending::Unknown => ledger.unknown += 1,
                    Ending::NotApplied(_) => ledger.refused += 1,
                }
            }
            let Some(kind) = kind else { continue };
            *ledger.keys.entry(kind).or_default() += 1;
            match kind {
                "append list" => ledger.list(key, &operations),
                "counter" => ledger.counter(key, &operations),
                _ => ledger.register(&operations),
            }
        }
        ledger
    }

    /// How many errors of each kind there are: lost, duplicated, phantom, counters.
    pub fn wrong(&self) -> [usize; 4] {
        let mut wrong = [0; 4];
        for error in &self.errors {
            let kind = match error {
                Error::Lost { .. } => 0,
                Error::Duplicated { .. } => 1,
                Error::Phantom { .. } => 2,
                Error::Counter { .. } => 3,
            };
            wrong[kind] += 1;
        }
        wrong
    }

    /// Adds the account of another run.
    pub fn add(&mut self, other: &Ledger) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.unknown_applied += other.unknown_applied;
        self.refused += other.refused;
        other.keys.iter().for_each(|(kind, keys)| *self.keys.entry(kind).or_default() += keys);
        self.errors.extend(other.errors.iter().cloned());
    }

    fn list(&mut self, key: &[u8], operations: &[&Operation]) {
        let Some(last) = last_read(operations) else { return };
        let mut there: HashMap<&[u8], u32> = HashMap::new();
        for id in last.split_inclusive(|byte| *byte == ID_END) {
            *there.entry(id).or_default() += 1;
        }
        let mut known: HashSet<&[u8]> = HashSet::new();
        for operation in operations {
            let Action::Append(id) = &operation.action else { continue };
            let times = there.get(&id[..]).copied().unwrap_or(0);
            let error = |make: fn(Box<Operation>) -> Error| make(Box::new((*operation).clone()));
            match &operation.ending {
                Ending::NotApplied(_) => continue,
                Ending::Completed(..) if times == 0 => {
                    self.errors.push(error(|operation| Error::Lost { operation }));
                }
                Ending::Completed(..) => {}
                Ending::Unknown => self.unknown_applied += u64::from(times > 0),
            }
            if times > 1 {
                self.errors.push(error(|operation| Error::Duplicated { operation }));
            }
            known.insert(id);
        }
        let mut phantoms: Vec<&[u8]> = there.into_keys().filter(|id| !known.contains(id)).collect();
        phantoms.sort_unstable();
        let phantom = |id: &[u8]| Error::Phantom { key: key.to_vec(), id: id.to_vec() };
        self.errors.extend(phantoms.into_iter().map(phantom));
    }

    fn counter(&mut self, key: &[u8], operations: &[&Operation]) {
        let (mut least, mut most, mut acknowledged) = (0, 0, 0);
        for operation in operations {
            let Action::Increment(delta) = operation.action else { continue };
            match operation.ending {
                Ending::Completed(..) => acknowledged += delta,
                Ending::Unknown if delta > 0 => most += delta,
                Ending::Unknown => least += delta,
                Ending::NotApplied(_) => {}
            }
        }
        (least, most) = (least + acknowledged, most + acknowledged);
        let number = match last_read(operations) {
            Some(value) => match std::str::from_utf8(value).ok().and_then(|text| text.parse().ok())
            {
                Some(number) => number,
                None => {
                    self.errors.push(Error::Phantom { key: key.to_vec(), id: value.to_vec() });
                    return;
                }
            },
            None => 0,
        };
        if (least..=most).contains(&number) {
            self.unknown_applied += number.abs_diff(acknowledged);
        } else {
            self.errors.push(Error::Counter { key: key.to_vec(), number, least, most });
        }
    }

    /// The ids of a register are its values, where they are told apart by versions.
    fn register(&mut self, operations: &[&Operation]) {
        let mut newest: Option<(u64, &Operation)> = None;
        for operation in operations.iter().filter(|operation| operation.action.is_mutation()) {
            if let Ending::Completed(_, outcome) = &operation.ending
                && let Some(version) = outcome.changed()
                && newest.is_none_or(|(newest, _)| version > newest)
            {
                newest = Some((version, operation));
            }
        }
        // A value that is written by one operation only is there under one version only.
        let mut writers: HashMap<&[u8], Vec<&Operation>> = HashMap::new();
        for operation in operations {
            if let Some(value) = operation.action.written() {
                writers.entry(value).or_default().push(operation);
            }
        }
        let mut seen: HashMap<&[u8], u64> = HashMap::new();
        let builds = operations
            .iter()
            .any(|operation| matches!(operation.action, Action::Append(_) | Action::Increment(_)));
        for operation in operations {
            let Ending::Completed(_, outcome) = &operation.ending else { continue };
            let Some((value, version)) = outcome.read() else { continue };
            match writers.get(value).map(Vec::as_slice) {
                Some([writer]) => {
                    if let Ending::NotApplied(_) = writer.ending {
                        self.phantom(operation, value);
                    }
                    if seen.insert(value, version).is_some_and(|other| other != version) {
                        let operation = Box::new((*writer).clone());
                        self.errors.push(Error::Duplicated { operation });
                    }
                }
                Some(_) => {}
                // What was appended or added is no client's value.
                None if builds => {}
                None => self.phantom(operation, value),
            }
        }
        if let (Some((newest, writer)), Some(last)) = (newest, last_version(operations))
            && last < newest
        {
            self.errors.push(Error::Lost { operation: Box::new(writer.clone()) });
        }
    }

    fn phantom(&mut self, seen_by: &Operation, value: &[u8]) {
        let id = value[..value.len().min(SHOWN_BYTES)].to_vec();
        self.errors.push(Error::Phantom { key: seen_by.key.clone(), id });
    }
}

/// Of a value that is no id, this much is kept.
const SHOWN_BYTES: usize = 32;

/// The value of the read that began last, if that found one.
fn last_read<'a>(operations: &[&'a Operation]) -> Option<&'a [u8]> {
    let reads = operations.iter().rev().filter(|operation| operation.action == Action::Get);
    let mut told = reads.filter_map(|operation| match &operation.ending {
        Ending::Completed(_, outcome) => Some(outcome),
        _ => None,
    });
    told.next()?.read().map(|(value, _)| value)
}

/// The version that the read told which began last.
fn last_version(operations: &[&Operation]) -> Option<u64> {
    let reads = operations.iter().rev().filter(|operation| operation.action == Action::Get);
    let mut told = reads.filter_map(|operation| match &operation.ending {
        Ending::Completed(_, Outcome::Found { version, .. }) => Some(*version),
        Ending::Completed(_, Outcome::Absent { as_of }) => *as_of,
        _ => None,
    });
    told.next()
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ledger { acknowledged, unknown, unknown_applied, refused, .. } = self;
        let [lost, duplicated, phantom, counters] = self.wrong();
        write!(
            f,
            "{acknowledged} changes acknowledged, {refused} not applied, {unknown} unknown "
        )?;
        write!(f, "({unknown_applied} seen in lists and counters); {lost} lost, ")?;
        write!(f, "{duplicated} duplicated, {phantom} phantom, {counters} counters wrong")
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::Time;

    use super::*;
    use crate::history::Recorder;

    #[derive(Default)]
    struct Told(Recorder);

    impl Told {
        fn change(&self, action: Action, outcome: Option<Outcome>) -> &Self {
            let id = self.0.invoke(0, b"k", action, Time::ZERO);
            if let Some(outcome) = outcome {
                self.0.complete(id, outcome, Time::ZERO);
            }
            self
        }

        fn refused(&self, action: Action) -> &Self {
            let id = self.0.invoke(0, b"k", action, Time::ZERO);
            self.0.not_applied(id, Time::ZERO);
            self
        }

        fn append(&self, id: &str, acknowledged: bool) -> &Self {
            let outcome = acknowledged.then_some(Outcome::Appended { len: 0, version: 1 });
            self.change(Action::Append(id.into()), outcome)
        }

        fn add(&self, delta: i64, acknowledged: bool) -> &Self {
            let outcome = acknowledged.then_some(Outcome::Counted { number: 0, version: 1 });
            self.change(Action::Increment(delta), outcome)
        }

        fn put(&self, value: &str, version: Option<u64>) -> &Self {
            let outcome = version.map(|version| Outcome::Written { version });
            self.change(Action::Put(value.into()), outcome)
        }

        fn read(&self, value: &str, version: u64) -> &Self {
            let outcome = Outcome::Found { value: Some(value.into()), version };
            self.change(Action::Get, Some(outcome))
        }

        fn wrong(&self) -> [usize; 4] {
            Ledger::of(&self.0.history(), |_| true).wrong()
        }
    }

    const LOST: [usize; 4] = [1, 0, 0, 0];
    const DUPLICATED: [usize; 4] = [0, 1, 0, 0];
    const PHANTOM: [usize; 4] = [0, 0, 1, 0];
    const COUNTER: [usize; 4] = [0, 0, 0, 1];

    #[test]
    fn a_list_has_what_was_acknowledged_once_and_what_is_unknown_or_not() {
        let list = || {
            let told = Told::default();
            told.append("a;", true).append("b;", false).append("c;", true);
            told
        };
        assert_eq!(list().read("a;c;", 9).wrong(), [0; 4]);
        assert_eq!(list().read("a;b;c;", 9).wrong(), [0; 4]);
        assert_eq!(list().read("a;b;", 9).wrong(), LOST);
        assert_eq!(list().read("a;c;a;", 9).wrong(), DUPLICATED);
        assert_eq!(list().read("b;a;b;c;", 9).wrong(), DUPLICATED);
        assert_eq!(list().read("a;c;d;", 9).wrong(), PHANTOM);
        assert_eq!(list().refused(Action::Append(b"d;".into())).read("a;c;d;", 9).wrong(), PHANTOM);
        let ledger = Ledger::of(&list().read("a;b;c;", 9).0.history(), |_| true);
        assert_eq!((ledger.acknowledged, ledger.unknown, ledger.unknown_applied), (2, 1, 1));
    }

    #[test]
    fn a_counter_is_between_what_was_acknowledged_and_what_was_tried() {
        let counter = || {
            let told = Told::default();
            told.add(1, true).add(2, true).add(4, false).refused(Action::Increment(8));
            told
        };
        assert_eq!(counter().read("3", 9).wrong(), [0; 4]);
        assert_eq!(counter().read("7", 9).wrong(), [0; 4]);
        assert_eq!(counter().read("2", 9).wrong(), COUNTER);
        assert_eq!(counter().read("11", 9).wrong(), COUNTER);
        assert_eq!(counter().read("three", 9).wrong(), PHANTOM);
    }

    #[test]
    fn a_register_has_its_last_change_or_a_later_one() {
        let register = || {
            let told = Told::default();
            told.put("a", Some(1)).put("b", Some(2)).put("c", None);
            told
        };
        assert_eq!(register().read("b", 2).wrong(), [0; 4]);
        assert_eq!(register().read("c", 3).wrong(), [0; 4]);
        assert_eq!(register().read("a", 1).wrong(), LOST);
        assert_eq!(register().read("b", 2).read("b", 3).wrong(), DUPLICATED);
        assert_eq!(register().read("d", 3).wrong(), PHANTOM);
        assert_eq!(register().refused(Action::Put(b"d".into())).read("d", 3).wrong(), PHANTOM);
    }
}
