//! What clients asked for and were told, and when: the evidence that a run is judged by.
//!
//! A history is written by the clients of one simulation, which runs on one thread, so events have
//! a total order. That order is finer than virtual time, in which many things happen at once, and
//! it is what "before" means to the checker.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use weft_client::Version;
use weft_transport::Time;

/// Writes the history of a run. Clones write the same one.
#[derive(Clone, Default)]
pub struct Recorder(Rc<RefCell<History>>);

/// Everything that clients did to keys, in the order in which they began.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct History {
    operations: Vec<Operation>,
    events: u64,
}

/// One operation of one client on one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// The client that asked.
    pub client: u32,
    /// The key it asked about.
    pub key: Vec<u8>,
    /// What it asked for.
    pub action: Action,
    /// When it asked.
    pub invoked: Moment,
    /// What it was told, and when.
    pub ending: Ending,
}

/// A place in the order of events, and the virtual time of that event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment {
    /// Number of events before this one.
    pub order: u64,
    /// The virtual time, for people.
    pub time: Time,
}

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write this value.
    Put(Vec<u8>),
    /// Read the value.
    Get,
    /// Ask whether there is a value.
    Exists,
    /// Remove the value.
    Delete,
    /// Write this value if the present one has this version, or if there is none and it is
    /// [`Version::NONE`].
    CompareAndSet {
        /// The version.
        expected: u64,
        /// The value.
        value: Vec<u8>,
    },
    /// Add this to the number that is there, or to 0.
    Increment(i64),
    /// Add this to the end of the value.
    Append(Vec<u8>),
    /// Write this value, and read the one before.
    GetAndPut(Vec<u8>),
    /// Remove the value, and read it.
    GetAndDelete,
}

/// How an operation ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The client was told the outcome.
    Completed(Moment, Outcome),
    /// The client was told that nothing was applied.
    NotApplied(Moment),
    /// The client does not know: it may take effect at any time from its invocation on, or never.
    Unknown,
}

/// What a client is told by a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The value was written.
    Written {
        /// As which version.
        version: u64,
    },
    /// There is a value.
    Found {
        /// The value; `None` where only its presence was asked for.
        value: Option<Vec<u8>>,
        /// Its version.
        version: u64,
    },
    /// There is no value, or there was none to remove.
    Absent {
        /// A version as of which there was none, if the client was told one.
        as_of: Option<u64>,
    },
    /// The value was removed.
    Removed {
        /// The version of the removal.
        version: u64,
    },
    /// There is a value, and it has not the version that was expected.
    Conflict {
        /// Its version.
        version: u64,
    },
    /// The number is another one.
    Counted {
        /// Which.
        number: i64,
        /// As which version.
        version: u64,
    },
    /// The value is longer.
    Appended {
        /// Bytes of all of it.
        len: u64,
        /// As which version.
        version: u64,
    },
    /// There is another value, or none any more.
    Replaced {
        /// The value before, and its version, if there was one.
        previous: Option<(Vec<u8>, u64)>,
        /// The version of the change.
        version: u64,
    },
}

/// An operation that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationId(usize);

impl Recorder {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client asks. Until it is told an outcome, the outcome is unknown.
    pub fn invoke(&self, client: u32, key: &[u8], action: Action, now: Time) -> OperationId {
        let mut history = self.0.borrow_mut();
        let invoked = history.moment(now);
        history.operations.push(Operation {
            client,
            key: key.to_vec(),
            action,
            invoked,
            ending: Ending::Unknown,
        });
        OperationId(history.operations.len() - 1)
    }

    /// A client is told the outcome.
    ///
    /// # Panics
    ///
    /// If the operation has ended, or the outcome is not one of its action: a bug of the scenario.
    pub fn complete(&self, id: OperationId, outcome: Outcome, now: Time) {
        let mut history = self.0.borrow_mut();
        let moment = history.moment(now);
        let operation = &mut history.operations[id.0];
        assert!(
            matches!(
                (&operation.action, &outcome),
                (Action::Put(_) | Action::CompareAndSet { .. }, Outcome::Written { .. })
                    | (Action::Get, Outcome::Found { value: Some(_), .. })
                    | (Action::Exists, Outcome::Found { value: None, .. })
                    | (Action::Delete, Outcome::Removed { .. })
                    | (Action::CompareAndSet { .. }, Outcome::Conflict { .. })
                    | (Action::Increment(_), Outcome::Counted { .. })
                    | (Action::Append(_), Outcome::Appended { .. })
                    | (Action::GetAndPut(_), Outcome::Replaced { .. })
                    | (Action::GetAndDelete, Outcome::Replaced { previous: Some(_), .. })
                    | (
                        Action::Get
                            | Action::Exists
                            | Action::Delete
                            | Action::CompareAndSet { .. }
                            | Action::GetAndDelete,
                        Outcome::Absent { .. }
                    )
            ),
            "{operation} was told: {outcome}"
        );
        operation.end(Ending::Completed(moment, outcome));
    }

    /// A client is told that its operation was certainly not applied.
    ///
    /// # Panics
    ///
    /// If the operation has ended.
    pub fn not_applied(&self, id: OperationId, now: Time) {
        let mut history = self.0.borrow_mut();
        let moment = history.moment(now);
        history.operations[id.0].end(Ending::NotApplied(moment));
    }

    /// The history so far.
    pub fn history(&self) -> History {
        self.0.borrow().clone()
    }
}

impl History {
    /// The operations, in the order in which they began.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The history without what was done to some keys.
    #[must_use]
    pub fn without(&self, keys: &BTreeSet<Vec<u8>>) -> History {
        let operations = self.operations.iter();
        let operations = operations.filter(|operation| !keys.contains(&operation.key));
        History { operations: operations.cloned().collect(), events: self.events }
    }

    /// The operations on each key, in the order in which they began.
    pub fn by_key(&self) -> BTreeMap<&[u8], Vec<&Operation>> {
        let mut keys: BTreeMap<&[u8], Vec<&Operation>> = BTreeMap::new();
        for operation in &self.operations {
            keys.entry(&operation.key).or_default().push(operation);
        }
        keys
    }

    /// How many operations have an outcome, and how many have an unknown one.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for operation in &self.operations {
            match operation.ending {
                Ending::Completed(..) => counts.completed += 1,
                Ending::NotApplied(_) => counts.not_applied += 1,
                Ending::Unknown => counts.unknown += 1,
            }
        }
        counts
    }

    fn moment(&mut self, time: Time) -> Moment {
        self.events += 1;
        Moment { order: self.events - 1, time }
    }
}

/// Operations by how they ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Told the outcome.
    pub completed: usize,
    /// Told that nothing was applied.
    pub not_applied: usize,
    /// Told nothing certain.
    pub unknown: usize,
}

impl Action {
    /// The value that it is to write.
    pub fn written(&self) -> Option<&[u8]> {
        match self {
            Action::Put(value) | Action::CompareAndSet { value, .. } | Action::GetAndPut(value) => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Whether it may change anything.
    pub fn is_mutation(&self) -> bool {
        !matches!(self, Action::Get | Action::Exists)
    }
}

impl Outcome {
    /// The version of what was changed.
    pub fn changed(&self) -> Option<u64> {
        match self {
            Outcome::Written { version }
            | Outcome::Removed { version }
            | Outcome::Counted { version, .. }
            | Outcome::Appended { version, .. }
            | Outcome::Replaced { version, .. } => Some(*version),
            Outcome::Found { .. } | Outcome::Absent { .. } | Outcome::Conflict { .. } => None,
        }
    }

    /// The value that was read, with its version.
    pub fn read(&self) -> Option<(&[u8], u64)> {
        match self {
            Outcome::Found { value: Some(value), version } => Some((value, *version)),
            Outcome::Replaced { previous: Some((value, version)), .. } => Some((value, *version)),
            _ => None,
        }
    }
}

impl Operation {
    fn end(&mut self, ending: Ending) {
        assert_eq!(self.ending, Ending::Unknown, "{self} ended twice");
        self.ending = ending;
    }
}

impl fmt::Display for Operation {
    /// One line: who, what, when, and what came of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {:<2} {:>12} .. ", self.client, micros(self.invoked.time))?;
        match &self.ending {
            Ending::Completed(moment, _) | Ending::NotApplied(moment) => {
                write!(f, "{:>12}  ", micros(moment.time))?;
            }
            Ending::Unknown => write!(f, "{:>12}  ", "?")?,
        }
        match &self.action {
            Action::Put(value) => write!(f, "put {}", Shown(value))?,
            Action::Get => write!(f, "get")?,
            Action::Exists => write!(f, "exists")?,
            Action::Delete => write!(f, "delete")?,
            Action::CompareAndSet { expected, value } => {
                write!(f, "put {} over version {}", Shown(value), Version(*expected))?;
            }
            Action::Increment(delta) => write!(f, "add {delta}")?,
            Action::Append(tail) => write!(f, "append {}", Shown(tail))?,
            Action::GetAndPut(value) => write!(f, "get and put {}", Shown(value))?,
            Action::GetAndDelete => write!(f, "get and delete")?,
        }
        match &self.ending {
            Ending::Completed(_, outcome) => write!(f, " -> {outcome}"),
            Ending::NotApplied(_) => write!(f, " -> not applied"),
            Ending::Unknown => write!(f, " -> unknown"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Written { version } => write!(f, "version {}", Version(*version)),
            Outcome::Found { value: Some(value), version } => {
                write!(f, "{} at version {}", Shown(value), Version(*version))
            }
            Outcome::Found { value: None, version } => {
                write!(f, "yes, at version {}", Version(*version))
            }
            Outcome::Absent { as_of: Some(version) } if Version(*version).sequence() == 0 => {
                write!(f, "absent, before the first write of the key's partition")
            }
            Outcome::Absent { as_of: Some(version) } => {
                write!(f, "absent as of version {} of the key's partition", Version(*version))
            }
            Outcome::Absent { as_of: None } => write!(f, "absent"),
            Outcome::Removed { version } => write!(f, "removed by version {}", Version(*version)),
            Outcome::Conflict { version } => write!(f, "no, it is version {}", Version(*version)),
            Outcome::Counted { number, version } => {
                write!(f, "{number} at version {}", Version(*version))
            }
            Outcome::Appended { len, version } => {
                write!(f, "{len} B at version {}", Version(*version))
            }
            Outcome::Replaced { previous, version } => {
                match previous {
                    Some((value, before)) => {
                        write!(f, "{} at version {}", Shown(value), Version(*before))?;
                    }
                    None => write!(f, "nothing")?,
                }
                write!(f, ", now version {}", Version(*version))
            }
        }
    }
}

/// A value in a message: what can be read of its beginning, and its length if that is not all.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(value) = self;
        let readable = value.iter().take(SHOWN_BYTES).take_while(|byte| byte.is_ascii_graphic());
        let beginning = &value[..readable.count()];
        write!(f, "{}", beginning.escape_ascii())?;
        if beginning.len() < value.len() {
            write!(f, "..{} B", value.len())?;
        }
        Ok(())
    }
}

const SHOWN_BYTES: usize = 24;

fn micros(time: Time) -> String {
    format!("{}.{:03} us", time.nanos() / 1000, time.nanos() % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn events_are_ordered_even_where_virtual_time_is_equal() {
        let recorder = Recorder::new();
        let put = recorder.invoke(1, b"k", Action::Put(b"v".to_vec()), at(5));
        recorder.complete(put, Outcome::Written { version: 1 }, at(5));
        let get = recorder.invoke(2, b"k", Action::Get, at(5));
        recorder.not_applied(get, at(5));
        recorder.invoke(2, b"l", Action::Delete, at(5));
        let history = recorder.history();
        let [put, get, delete] = history.operations() else { panic!("three operations") };
        let Ending::Completed(completed, _) = put.ending else { panic!("the put completed") };
        assert!(put.invoked < completed && completed < get.invoked && get.invoked < delete.invoked);
        assert_eq!(history.counts(), Counts { completed: 1, not_applied: 1, unknown: 1 });
        assert_eq!(history.by_key().len(), 2);
    }

    #[test]
    #[should_panic(expected = "ended twice")]
    fn an_operation_ends_once() {
        let recorder = Recorder::new();
        let get = recorder.invoke(1, b"k", Action::Get, at(0));
        recorder.not_applied(get, at(1));
        recorder.not_applied(get, at(2));
    }

    #[test]
    fn an_operation_is_one_line() {
        let recorder = Recorder::new();
        let get = recorder.invoke(3, b"k", Action::Get, at(1500));
        recorder.complete(
            get,
            Outcome::Found { value: Some(b"v\x01".to_vec()), version: 9 },
            at(2000),
        );
        recorder.invoke(3, b"k", Action::Put(b"w".to_vec()), at(2000));
        let history = recorder.history();
        let lines: Vec<String> = history.operations().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines[0],
            "client 3      1.500 us ..     2.000 us  get -> v..2 B at version 0.9"
        );
        assert_eq!(lines[1], "client 3      2.000 us ..            ?  put w -> unknown");
    }

    /// Nobody can read `17592186044425`.
    #[test]
    fn a_version_is_shown_as_kv_shows_it() {
        let absent = |version: Version| Outcome::Absent { as_of: Some(version.0) }.to_string();
        let told = absent(Version::new(1, 9));
        assert_eq!(told, "absent as of version 1.9 of the key's partition");
        let before = "absent, before the first write of the key's partition";
        assert_eq!([absent(Version::NONE), absent(Version::new(1, 0))], [before; 2]);
        let written = Outcome::Written { version: Version::new(1, 9).0 };
        assert_eq!(written.to_string(), "version 1.9");
    }
}
