//! What a partition remembers of the requests of clients, so that none takes effect twice (RIFL: Lee et al., SOSP '15).
//!
//! A client numbers its requests. It says with each which of them it still waits for at the earliest, and what is before that is forgotten: such a request
//! can only be a copy that comes late, and is refused. All of this is state of the partition, made by its entries and
//! equal on all replicas, so nothing is forgotten but by an entry.

use std::collections::BTreeMap;

use weft_protocol::{Completion, CompletionId, Version};
use weft_transport::{Charge, Memory, MemoryError, Purpose};

use super::outcome::{COPIED_MAX, Kept, Outcome};
use crate::limits::{OUTCOMES_MAX, OUTCOMES_PER_CLIENT_MAX};

/// Heap memory of an outcome: nodes of the tree are two thirds full.
const OUTCOME_BYTES: usize = (size_of::<u64>() + size_of::<Remembered>()) * 3 / 2;
/// Heap memory of a client, with the first node of its tree.
const CLIENT_BYTES: usize =
    (size_of::<u64>() + size_of::<Client>()) * 3 / 2 + 12 * (8 + size_of::<Remembered>());
/// The charge grows by steps, so that not every request has to do with what all partitions share.
const CHARGE_STEP: usize = 16 << 10;

/// An attempt at a mutation that a client may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Which mutation it is.
    pub id: CompletionId,
    /// The first of the client's mutations that it has no answer to.
    pub first_incomplete: u64,
}

impl From<Completion> for Attempt {
    fn from(told: Completion) -> Attempt {
        Attempt { id: told.id, first_incomplete: told.first_incomplete }
    }
}

/// What is known of a mutation before it is done.
#[derive(Clone, Copy, Debug)]
pub enum Recalled<'a> {
    /// Nothing: it is to be done.
    New,
    /// It was done by the entry of this version.
    Done(&'a Outcome, Version),
    /// The client has had the answer, and has said so: this is a copy that has come late. `first_incomplete` is what the client waits for.
    Forgotten {
        /// The first mutation whose answer the client has not had.
        first_incomplete: u64,
    },
}

/// Why an outcome finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    Memory(MemoryError),
    /// So many are remembered already.
    Full {
        limit: usize,
    },
}

#[derive(Debug)]
pub(super) struct Completions {
    clients: BTreeMap<u64, Client>,
    outcomes: usize,
    copied_bytes: usize,
    charge: Charge,
    /// Clients that entries of a primary have ended, until this node has taken note.
    ended: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) first_incomplete: u64,
    pub(super) outcomes: BTreeMap<u64, Remembered>,
    /// Whether it has done something since somebody looked. No part of the state that replicas have in common.
    is_heard: bool,
}

#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) version: Version,
    pub(super) outcome: Outcome,
}

impl Completions {
    pub(super) fn new(memory: &Memory) -> Completions {
        let charge = memory.charge(0, Purpose::Partition).expect("charging nothing needs no room");
        Completions {
            clients: BTreeMap::new(),
            outcomes: 0,
            copied_bytes: 0,
            charge,
            ended: Vec::new(),
        }
    }

    pub(super) fn recall(&self, attempt: Attempt) -> Recalled<'_> {
        let Attempt { id: CompletionId { client, sequence }, first_incomplete } = attempt;
        let client = self.clients.get(&client);
        let told = client.map_or(0, |client| client.first_incomplete).max(first_incomplete);
        if sequence < told {
            return Recalled::Forgotten { first_incomplete: told };
        }
        match client.and_then(|client| client.outcomes.get(&sequence)) {
            Some(Remembered { version, outcome }) => Recalled::Done(outcome, *version),
            None => Recalled::New,
        }
    }

    /// Makes sure that [`note`](Self::note) finds room for the outcome of an attempt, with a copy of `copied` bytes.
    pub(super) fn reserve(&mut self, attempt: Attempt, copied: usize) -> Result<(), NoRoom> {
        let (mut outcomes, mut clients) = (self.outcomes + 1, self.clients.len());
        match self.clients.get(&attempt.id.client) {
            None => clients += 1,
            Some(client) => {
                let gone = client.outcomes.range(..attempt.first_incomplete).count();
                outcomes -= gone;
                if client.outcomes.len() - gone >= OUTCOMES_PER_CLIENT_MAX {
                    return Err(NoRoom::Full { limit: OUTCOMES_PER_CLIENT_MAX });
                }
            }
        }
        if outcomes > OUTCOMES_MAX || clients > OUTCOMES_MAX {
            return Err(NoRoom::Full { limit: OUTCOMES_MAX });
        }
        self.charge_for(bytes(outcomes, clients, self.copied_bytes + copied))
            .map_err(NoRoom::Memory)
    }

    /// Remembers an outcome, for which there is room, and forgets those that the client has said it does not wait for.
    pub(super) fn note(&mut self, attempt: Attempt, version: Version, mut outcome: Outcome) {
        let Attempt { id: CompletionId { client, sequence }, first_incomplete } = attempt;
        self.forget_up_to(client, first_incomplete);
        self.copy_if_short(&mut outcome);
        let Some(client) = self.clients.get_mut(&client) else { return };
        client.is_heard = true;
        if sequence >= client.first_incomplete {
            self.copied_bytes += outcome.heap_bytes();
            match client.outcomes.insert(sequence, Remembered { version, outcome }) {
                None => self.outcomes += 1,
                Some(before) => self.copied_bytes -= before.outcome.heap_bytes(),
            }
        }
        // Last, so that what was reserved was there for it.
        self.give_back();
    }

    /// Notes that a client, which may be a new one, has had the answers to all mutations before `first_incomplete`.
    pub(super) fn complete_up_to(&mut self, client: u64, first_incomplete: u64) {
        self.forget_up_to(client, first_incomplete);
        self.give_back();
    }

    fn forget_up_to(&mut self, client: u64, first_incomplete: u64) {
        let client = self.clients.entry(client).or_default();
        client.first_incomplete = client.first_incomplete.max(first_incomplete);
        while let Some(first) = client.outcomes.first_entry()
            && *first.key() < client.first_incomplete
        {
            self.copied_bytes -= first.remove().outcome.heap_bytes();
            self.outcomes -= 1;
        }
    }

    /// Forgets a client. Returns whether there was one.
    pub(super) fn end(&mut self, client: u64) -> bool {
        let Some(client) = self.clients.remove(&client) else { return false };
        self.outcomes -= client.outcomes.len();
        let copies = client.outcomes.values().map(|one| one.outcome.heap_bytes());
        self.copied_bytes -= copies.sum::<usize>();
        self.give_back();
        true
    }

    /// The same by an entry of a primary, of which this node is to take note.
    pub(super) fn end_by_entry(&mut self, client: u64) {
        self.end(client);
        self.ended.push(client);
    }

    /// The clients that entries have ended since the last time.
    pub(super) fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ended)
    }

    /// The clients, and of each whether it has done something since the last time.
    pub(super) fn take_heard(&mut self) -> impl Iterator<Item = (u64, bool)> {
        self.clients
            .iter_mut()
            .map(|(number, client)| (*number, std::mem::take(&mut client.is_heard)))
    }

    pub(super) fn has_client(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    /// Whether the outcome of an attempt would be news: it is not there, and the client may wait for it.
    pub(super) fn lacks(&self, id: CompletionId) -> bool {
        let Some(client) = self.clients.get(&id.client) else { return true };
        id.sequence >= client.first_incomplete && !client.outcomes.contains_key(&id.sequence)
    }

    /// Sets the previous value of an outcome that lacks it. Returns whether one did.
    pub(super) fn fill_in(&mut self, id: CompletionId, value: Kept) -> bool {
        let client = self.clients.get_mut(&id.client);
        let remembered = client.and_then(|client| client.outcomes.get_mut(&id.sequence));
        let Some(Remembered { outcome, .. }) = remembered else { return false };
        let Some(previous) = outcome.previous_mut() else { return false };
        if !matches!(previous.value, Kept::Missing) {
            return false;
        }
        previous.value = value;
        self.copied_bytes += outcome.heap_bytes();
        true
    }

    /// Room for a copy of `copied` bytes that is filled in.
    pub(super) fn reserve_copy(&mut self, copied: usize) -> Result<(), MemoryError> {
        let copied = if copied > COPIED_MAX { 0 } else { copied };
        self.charge_for(bytes(self.outcomes, self.clients.len(), self.copied_bytes + copied))
    }

    /// The clients from this one on, by number.
    pub(super) fn clients_from(&self, first: u64) -> impl Iterator<Item = (u64, &Client)> {
        self.clients.range(first..).map(|(number, client)| (*number, client))
    }

    /// How many outcomes are remembered, and of how many clients.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.outcomes, self.clients.len())
    }

    /// Has a copy of a short previous value that is a view, if there is memory for it: a view keeps a whole segment.
    fn copy_if_short(&mut self, outcome: &mut Outcome) {
        let Some(previous) = outcome.previous_mut() else { return };
        let Kept::Pinned(view) = &previous.value else { return };
        // It comes on top of the one that room was made for.
        let (outcomes, clients) = (self.outcomes + 1, self.clients.len());
        let copied_bytes = self.copied_bytes + view.len();
        if view.len() <= COPIED_MAX
            && self.charge_for(bytes(outcomes, clients, copied_bytes)).is_ok()
        {
            previous.value = Kept::Copied((**view).into());
        }
    }

    fn charge_for(&mut self, bytes: usize) -> Result<(), MemoryError> {
        if bytes as u64 <= self.charge.bytes() {
            return Ok(());
        }
        let step = bytes.next_multiple_of(CHARGE_STEP) as u64;
        self.charge.resize(step).or_else(|_| self.charge.resize(bytes as u64))
    }

    fn give_back(&mut self) {
        let needed = bytes(self.outcomes, self.clients.len(), self.copied_bytes);
        let kept = if needed == 0 { 0 } else { needed.next_multiple_of(CHARGE_STEP) + CHARGE_STEP };
        if self.charge.bytes() > kept as u64 {
            self.charge.resize(kept as u64).expect("it has become less");
        }
    }
}

fn bytes(outcomes: usize, clients: usize, copied: usize) -> usize {
    outcomes * OUTCOME_BYTES + clients * CLIENT_BYTES + copied
}
