//! What is on its way, and the network that delays it, loses it, doubles it and cuts it off.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use weft_protocol::{Configuration, Member};

use super::checker::{Action, Outcome};
use super::random::Random;

pub(super) const MS: u64 = 1_000_000;

#[derive(Clone)]
pub(super) enum Event {
    Message {
        from: Member,
        to: Member,
        connection: u32,
        bytes: Rc<[u8]>,
    },
    Tick {
        node: usize,
        life: u64,
    },
    Map {
        node: usize,
        life: u64,
        version: u64,
    },
    Synced {
        node: usize,
        life: u64,
        partition: usize,
        sequence: u64,
    },
    Connected {
        node: usize,
        life: u64,
        peer: usize,
    },
    Disconnected {
        node: usize,
        life: u64,
        peer: usize,
    },
    Request {
        node: usize,
        client: usize,
        operation: u64,
        partition: usize,
        key: u8,
        action: Action,
    },
    Reply {
        client: usize,
        operation: u64,
        outcome: Outcome,
    },
    ClientNext {
        client: usize,
    },
    ClientTimeout {
        client: usize,
        operation: u64,
    },
    Heartbeat {
        node: usize,
        life: u64,
        map_version: u64,
    },
    Plan,
    Commit {
        partition: usize,
        epoch: u32,
        configuration: Configuration,
    },
    Unreachable {
        partition: usize,
        epoch: u32,
        member: Member,
    },
    GivenUp {
        partition: usize,
        epoch: u32,
        learner: Member,
    },
    CaughtUp {
        partition: usize,
        epoch: u32,
        learner: Member,
    },
    Fault,
    Crash {
        node: usize,
    },
    Restart {
        node: usize,
    },
    Resume {
        node: usize,
    },
    Heal {
        first: usize,
        second: usize,
    },
    HealAll,
    Converged,
}

pub(super) struct Scheduled {
    at: u64,
    order: u64,
    pub(super) event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// What happens when.
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Scheduled>,
    order: u64,
    pub(super) now: u64,
}

impl Agenda {
    pub(super) fn after(&mut self, delay: u64, event: Event) {
        self.order += 1;
        self.heap.push(Scheduled { at: self.now + delay, order: self.order, event });
    }

    pub(super) fn next(&mut self) -> Option<Event> {
        let next = self.heap.pop()?;
        self.now = next.at;
        Some(next.event)
    }
}

/// Who reaches whom. The coordinator is one more node, the last.
pub(super) struct Network {
    nodes: usize,
    cut: Vec<bool>,
    /// Counts the connections of a pair: what an earlier one carried is lost.
    connections: Vec<u32>,
    pub(super) loss_permille: u64,
    pub(super) twice_permille: u64,
    slow_permille: u64,
    delay_max: u64,
}

impl Network {
    pub(super) fn new(nodes: usize, random: &mut Random) -> Self {
        let nodes = nodes + 1;
        Self {
            nodes,
            cut: vec![false; nodes * nodes],
            connections: vec![0; nodes * nodes],
            loss_permille: [0, 0, 5, 30][random.index(4)],
            twice_permille: [0, 5, 30][random.index(3)],
            slow_permille: [0, 5, 30][random.index(3)],
            delay_max: [MS / 2, 2 * MS, 10 * MS][random.index(3)],
        }
    }

    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut[from * self.nodes + to]
    }

    pub(super) fn cut(&mut self, from: usize, to: usize, is_cut: bool) {
        self.cut[from * self.nodes + to] = is_cut;
    }

    pub(super) fn connection(&self, one: usize, other: usize) -> u32 {
        self.connections[one.min(other) * self.nodes + one.max(other)]
    }

    pub(super) fn reconnect(&mut self, one: usize, other: usize) {
        self.connections[one.min(other) * self.nodes + one.max(other)] += 1;
    }

    pub(super) fn delay(&self, random: &mut Random) -> u64 {
        let longest =
            if random.permille(self.slow_permille) { 20 * self.delay_max } else { self.delay_max };
        random.range(50_000, longest)
    }
}
