//! Clients that write and read, one operation at a time.

use weft_protocol::Version;

use super::checker::{Action, Outcome};
use super::coordinator::index;
use super::network::{Event, MS};
use super::situations::Situation;
use super::world::{Check, World};

/// Keys of each partition.
const KEYS: u64 = 5;

struct Pending {
    operation: u64,
    place: (usize, u8),
    action: Action,
    floor: Version,
}

pub(super) struct Clients {
    pending: Vec<Option<Pending>>,
    next_operation: u64,
    next_value: u64,
    /// By partition: whether a write and a read were answered since all was healed.
    pub(super) went_well: Vec<(bool, bool)>,
    pub(super) is_stopped: bool,
}

impl Clients {
    pub(super) fn new(count: usize) -> Self {
        Self {
            pending: (0..count).map(|_| None).collect(),
            next_operation: 0,
            next_value: 0,
            went_well: vec![(false, false); 4],
            is_stopped: false,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn are_idle(&self) -> bool {
        self.pending.iter().all(Option::is_none)
    }
}

impl World {
    pub(super) fn client_next(&mut self, client: usize) {
        if self.clients.is_stopped {
            return;
        }
        let partition = self.random.index(self.partitions);
        let key = self.random.range(0, KEYS - 1) as u8;
        let action = match self.random.range(0, 9) {
            0..=3 => Action::Read,
            4 => Action::Write(None),
            _ => {
                self.clients.next_value += 1;
                Action::Write(Some(self.clients.next_value))
            }
        };
        self.clients.next_operation += 1;
        let operation = self.clients.next_operation;
        let floor = self.checker.floor(partition as u16, key);
        let place = (partition, key);
        self.clients.pending[client] = Some(Pending { operation, place, action, floor });
        // Mostly the one that the map has; else one that was the primary, or takes itself for it.
        let primary = self.coordinator.configurations[partition].primary;
        let node = match primary {
            Some(primary) if !self.random.one_in(3) => index(primary),
            _ => {
                let all = self.nodes.len();
                let serving: Vec<_> = (0..all)
                    .filter(|node| {
                        let host = self.nodes[*node].hosts.get(partition);
                        host.is_some_and(|host| host.replica.is_serving())
                    })
                    .collect();
                if serving.is_empty() || self.random.one_in(4) {
                    self.random.index(all)
                } else {
                    serving[self.random.index(serving.len())]
                }
            }
        };
        let delay = self.random.range(100_000, MS);
        let event = Event::Request { node, client, operation, partition, key, action };
        self.agenda.after(delay, event);
        let patience = self.random.range(50, 500) * MS;
        self.agenda.after(patience, Event::ClientTimeout { client, operation });
    }

    pub(super) fn client_done(&mut self, client: usize, operation: u64, outcome: Outcome) -> Check {
        let is_it = |pending: &mut Pending| pending.operation == operation;
        let Some(pending) = self.clients.pending[client].take_if(is_it) else { return Ok(()) };
        let (partition, key) = pending.place;
        let place = (partition as u16, key);
        self.checker.finished(place, pending.action, pending.floor, outcome)?;
        if self.is_healed {
            let went_well = &mut self.clients.went_well[partition];
            match outcome {
                Outcome::Written(_) => went_well.0 = true,
                Outcome::Found(..) => went_well.1 = true,
                _ => {}
            }
        }
        if outcome == Outcome::Unknown {
            self.situations.note(Situation::WriteOutcomeUnknown);
        }
        let think = self.random.range(MS, 15 * MS);
        self.agenda.after(think, Event::ClientNext { client });
        Ok(())
    }
}
