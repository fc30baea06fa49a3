//! The primary's side of catch-up: all that a partition is, a part at a time, while it goes on changing.
//!
//! A snapshot begins at an entry, with the tables. From there on the learner gets every entry that is made. Parts follow the order of the
//! index's hashes, which no write changes (`index/walk.rs`): what is there from the beginning to the end is met, and what comes or changes meanwhile is
//! known from its entry. Completions come last: those of requests that replaced an object which the learner did not have yet bring its
//! value along. Nothing is kept for a snapshot but its cursor.

use weft_protocol::{CompletionId, TableId, Version};

use super::altering::TableChange;
use super::completion_record as record;
use super::completions::{Attempt, Client, Remembered};
use super::gather::Gather;
use super::header::{Head, Kind};
use super::outcome::Kept;
use super::partition::Partition;
use super::recording::{push_beside, push_record};
use super::scanning::BUCKETS_TOGETHER;

/// Buckets that a step looks at: in an index that is nearly empty, others wait for some tens of microseconds.
const BUCKETS_MAX: usize = 512;

/// How far a snapshot has come.
#[derive(Clone, Debug)]
pub struct Snapshot {
    start: Version,
    head: Vec<u8>,
    next: Next,
}

/// Where it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// In the order of the index's hashes.
    Objects {
        position: u32,
    },
    /// With this client, and its outcomes from this one on.
    Completions {
        client: u64,
        sequence: u64,
    },
    Nowhere,
}

impl Snapshot {
    /// The entry at which it begins: the learner needs all behind that.
    pub fn start(&self) -> Version {
        self.start
    }

    /// What the learner [begins](Partition::begin_snapshot) with.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Whether all parts were handed out.
    pub fn is_done(&self) -> bool {
        self.next == Next::Nowhere
    }
}

impl Partition {
    /// Begins a snapshot for a learner, at the last entry.
    pub fn snapshot(&self) -> Snapshot {
        let start = self.last_entry();
        let mut head = Gather::default();
        for table in self.tables.iter() {
            let (id, eviction) = (table.id(), table.eviction);
            // That of `default` says as of when they are, though there is no other.
            let change = match id {
                TableId::DEFAULT => TableChange::Altered { eviction },
                _ => TableChange::Created { ordered: table.is_ordered(), eviction },
            };
            push_beside(&mut head, Kind::Tables, start, id, &[], &change.encode());
        }
        Snapshot { start, head: head.all().to_vec(), next: Next::Objects { position: 0 } }
    }

    /// Adds the next part of a snapshot, of about `budget` bytes and at least one record, if there is one within reach. Returns the last entry, as of
    /// which the part is.
    pub fn snapshot_part(
        &self,
        snapshot: &mut Snapshot,
        budget: usize,
        part: &mut Gather,
    ) -> Version {
        let end = part.len() + budget.max(1);
        match snapshot.next {
            Next::Objects { position } => {
                let next = self.push_objects(position, end, part);
                snapshot.next = next
                    .map_or(Next::Completions { client: 0, sequence: 0 }, |position| {
                        Next::Objects { position }
                    });
            }
            Next::Completions { client, sequence } => {
                let next = self.push_completions((client, sequence), end, part);
                snapshot.next = next.map_or(Next::Nowhere, |(client, sequence)| {
                    Next::Completions { client, sequence }
                });
            }
            Next::Nowhere => {}
        }
        self.last_entry()
    }

    /// Adds objects from a position on, until there are enough bytes. Returns where to go on. Expired ones are among them: whether
    /// one is absent is for who looks at it to say.
    fn push_objects(&self, position: u32, end: usize, part: &mut Gather) -> Option<u32> {
        let mut entries = Vec::new();
        let mut next = Some(position);
        for _ in 0..BUCKETS_MAX / BUCKETS_TOGETHER {
            entries.clear();
            next = self.collect(next, &mut entries);
            let mut last = None;
            for &(position, address) in &entries {
                // Those that share a position come together, since the next part begins at one.
                if part.len() >= end && last != Some(position) {
                    return Some(position);
                }
                last = Some(position);
                let segment = self.log.segment(address.segment());
                if !self.tables.is_buried(&segment.record(address.offset())) {
                    push_record(part, segment, address.offset());
                }
            }
            next?;
        }
        next
    }

    /// Adds what is remembered of clients, from an outcome of a client on. Returns where to go on.
    fn push_completions(
        &self,
        (first, mut sequence): (u64, u64),
        end: usize,
        part: &mut Gather,
    ) -> Option<(u64, u64)> {
        for (client, state) in self.completions.clients_from(first) {
            if client != first {
                sequence = 0;
            }
            if part.len() >= end {
                return Some((client, sequence));
            }
            let waits = record::waits(state.first_incomplete);
            push_told(part, self.last_entry(), client, &waits, None);
            for (&number, remembered) in state.outcomes.range(sequence..) {
                // However small the part is, it comes further than the one before.
                if part.len() >= end && number > sequence {
                    return Some((client, number));
                }
                push_outcome(part, (client, state), number, remembered);
            }
        }
        None
    }
}

fn push_outcome(
    part: &mut Gather,
    (client, state): (u64, &Client),
    sequence: u64,
    remembered: &Remembered,
) {
    let Remembered { version, outcome } = remembered;
    let first_incomplete = state.first_incomplete;
    let attempt = Attempt { id: CompletionId { client, sequence }, first_incomplete };
    let value = outcome.previous().map(|previous| &previous.value);
    let value = value.filter(|value| !matches!(value, Kept::Missing));
    let told = record::done(attempt, outcome, value.is_some());
    push_told(part, *version, client, &told, value);
}

/// Adds a completion, and behind it the value of a previous object.
fn push_told(
    part: &mut Gather,
    version: Version,
    client: u64,
    told: &[u8],
    previous: Option<&Kept>,
) {
    let (table, key) = (TableId::DEFAULT, client.to_le_bytes());
    let carried = previous.and_then(Kept::bytes).unwrap_or_default();
    let value_len = told.len() + carried.len();
    let head = Head::beside(Kind::Completion, version, table, &key, value_len);
    part.push_record(&head, &key, told, carried);
    match previous {
        Some(Kept::Pinned(view)) => part.push_view(view.clone()),
        Some(Kept::Copied(bytes)) => part.push(bytes),
        Some(Kept::Missing) | None => {}
    }
    part.pad();
}
