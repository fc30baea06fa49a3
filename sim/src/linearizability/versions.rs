//! Whether versions follow the order in which operations were told: a pass over a history that has to hold
//! if there is an explanation, and takes no search.
//!
//! Every write has a version of its own, and every read is told one. Of two operations of which one ended
//! before the other began, the other is told no lower version, and a higher one if it wrote. That is
//! what linearizability says of a register whose writes are numbered ("Testing shared memories",
//! Gibbons and Korach, 1997), but for the values, and for what has an unknown outcome.

use std::collections::HashMap;
use std::fmt;

use crate::history::{Ending, Operation, Outcome};

/// Two operations on one key whose versions contradict their order, or each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutOfOrder {
    /// The key.
    pub key: Vec<u8>,
    /// What is wrong.
    pub what: &'static str,
    /// The one.
    pub first: Box<Operation>,
    /// And the other.
    pub second: Box<Operation>,
}

impl fmt::Display for OutOfOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "key {}: {}", self.key.escape_ascii(), self.what)?;
        writeln!(f, "    {}", self.first)?;
        write!(f, "    {}", self.second)
    }
}

/// What an operation of known outcome says of versions.
struct Told<'a> {
    operation: &'a Operation,
    returned: u64,
    /// As of which it was told what it was.
    version: u64,
    is_write: bool,
}

pub(super) fn check(key: &[u8], operations: &[&Operation]) -> Result<(), OutOfOrder> {
    let mut told: Vec<Told<'_>> = operations.iter().filter_map(|o| Told::of(o)).collect();
    let wrong = |what, first: &Operation, second: &Operation| {
        let (first, second) = (Box::new(first.clone()), Box::new(second.clone()));
        Err(OutOfOrder { key: key.to_vec(), what, first, second })
    };
    let mut writers: HashMap<u64, &Operation> = HashMap::new();
    for write in told.iter().filter(|told| told.is_write) {
        if let Some(other) = writers.insert(write.version, write.operation) {
            return wrong("two changes have one version", other, write.operation);
        }
    }
    let mut values: HashMap<u64, (&[u8], &Operation)> = HashMap::new();
    for operation in operations {
        for (version, value) in named(operation) {
            match values.insert(version, (value, operation)) {
                Some((other, by)) if other != value => {
                    return wrong("two values have one version", by, operation);
                }
                _ => {}
            }
        }
    }
    told.sort_by_key(|told| told.operation.invoked);
    let mut by_return: Vec<usize> = (0..told.len()).collect();
    by_return.sort_unstable_by_key(|index| told[*index].returned);
    let (mut ended, mut highest): (usize, Option<&Told<'_>>) = (0, None);
    for next in &told {
        while let Some(before) = by_return.get(ended).map(|index| &told[*index])
            && before.returned < next.operation.invoked.order
        {
            ended += 1;
            if highest.is_none_or(|highest| before.version > highest.version) {
                highest = Some(before);
            }
        }
        if let Some(before) = highest
            && (next.version < before.version || next.is_write && next.version == before.version)
        {
            let what = "the later operation was told the lower version";
            return wrong(what, before.operation, next.operation);
        }
    }
    Ok(())
}

impl<'a> Told<'a> {
    fn of(operation: &'a Operation) -> Option<Self> {
        let Ending::Completed(moment, outcome) = &operation.ending else { return None };
        let (version, is_write) = match outcome {
            Outcome::Written { version }
            | Outcome::Removed { version }
            | Outcome::Counted { version, .. }
            | Outcome::Appended { version, .. }
            | Outcome::Replaced { version, .. } => (*version, true),
            Outcome::Found { version, .. } | Outcome::Conflict { version } => (*version, false),
            Outcome::Absent { as_of } => ((*as_of)?, false),
        };
        Some(Told { operation, returned: moment.order, version, is_write })
    }
}

/// Versions of which an operation says the value.
fn named(operation: &Operation) -> impl Iterator<Item = (u64, &[u8])> {
    let (written, read) = match &operation.ending {
        Ending::Completed(_, outcome) => {
            let version = match outcome {
                Outcome::Written { version } | Outcome::Replaced { version, .. } => Some(*version),
                _ => None,
            };
            (version.zip(operation.action.written()), outcome.read())
        }
        _ => (None, None),
    };
    written.into_iter().chain(read.map(|(value, version)| (version, value)))
}
