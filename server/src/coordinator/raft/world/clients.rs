//! Who writes and reads, one operation at a time each, and tries again under the same id until it knows.

use std::collections::BTreeMap;
use std::time::Duration;

use super::checker::Answered;
use super::{CALM, Event, SILENCE, TROUBLE, World, nanos};
use crate::coordinator::raft::{Decided, Outcome, ProposalId, ReadOutcome, Refused};

pub(super) const CLIENTS: usize = 3;
/// After this a client asks another node.
const PATIENCE: Duration = Duration::from_millis(1500);

pub(super) struct Clients {
    operations: Vec<Operation>,
    made: u64,
    done_since_calm: u64,
    is_calm: bool,
    /// Where a read is waited for, by node and token.
    reads: BTreeMap<(usize, u64), usize>,
}

#[derive(Clone, Copy, Default)]
struct Operation {
    /// 0 is none.
    id: u128,
    is_read: bool,
    asked: u64,
    /// The node that was asked, and when.
    at: Option<(usize, u64)>,
    token: u64,
}

impl Clients {
    pub(super) fn new() -> Self {
        let operations = vec![Operation::default(); CLIENTS];
        Clients { operations, made: 0, done_since_calm: 0, is_calm: false, reads: BTreeMap::new() }
    }

    pub(super) fn forget_node(&mut self, node: usize) {
        self.reads.retain(|(asked, _), _| *asked != node);
        for operation in &mut self.operations {
            operation.at = operation.at.filter(|(asked, _)| *asked != node);
        }
    }

    pub(super) fn be_calm(&mut self) {
        self.is_calm = true;
    }

    pub(super) fn done_since_calm(&self) -> u64 {
        self.done_since_calm
    }
}

impl World {
    pub(super) fn client(&mut self, client: usize) {
        let pause = self.random.between(20, 120);
        self.after(Duration::from_millis(pause), Event::Client { client });
        let operation = self.clients.operations[client];
        if self.now > nanos(TROUBLE + CALM - SILENCE) {
            return;
        }
        let waits = operation.at.is_some_and(|(_, since)| self.now < since + nanos(PATIENCE));
        if waits {
            return;
        }
        if operation.id == 0 {
            self.clients.made += 1;
            let id = u128::from(self.clients.made) << 8 | client as u128;
            let is_read = self.random.chance(0.5);
            self.clients.operations[client] =
                Operation { id, is_read, asked: self.now, at: None, token: self.clients.made };
        } else if operation.is_read {
            // One that was given up may still be answered: the next try is another read.
            self.clients.made += 1;
            self.clients.operations[client].token = self.clients.made;
        }
        self.ask(client);
    }

    fn ask(&mut self, client: usize) {
        let operation = self.clients.operations[client];
        let mut node = self.random.index(self.nodes.len());
        if !operation.is_read
            && let Some(leader) = (0..self.nodes.len()).find(|node| self.leads(*node))
        {
            node = if self.random.chance(0.8) { leader } else { node };
        }
        if self.nodes[node].paused_until > self.now {
            return;
        }
        let (now, boot) = (self.time(), self.nodes[node].boot);
        let mut refused = None;
        self.clients.operations[client].at = Some((node, self.now));
        if operation.is_read {
            self.clients.reads.insert((node, operation.token), client);
        }
        self.with(node, boot, |raft| {
            refused = if operation.is_read {
                raft.read_index(now, operation.token).err()
            } else {
                raft.propose(ProposalId(operation.id), vec![7; 40]).err()
            };
        });
        if self.nodes[node].raft.is_none() || refused.is_some() {
            if matches!(refused, Some(Refused::NotLeader { .. })) {
                self.count("refused by a follower");
            }
            self.clients.reads.remove(&(node, operation.token));
            let is_same = self.clients.operations[client].id == operation.id;
            if is_same {
                self.clients.operations[client].at = None;
            }
        }
    }

    pub(super) fn decided(&mut self, node: usize, decided: Decided) {
        let Decided { id, outcome } = decided;
        let found = self
            .clients
            .operations
            .iter()
            .position(|operation| operation.id == id.0 && !operation.is_read);
        match (found, outcome) {
            (Some(client), Outcome::Applied { result, .. }) => {
                let position = result.try_into().map(u64::from_le_bytes).unwrap();
                self.checker.borrow_mut().note_acknowledged(id.0, position);
                self.finish_operation(client, position);
            }
            (None, Outcome::Applied { result, .. }) => {
                let position = result.try_into().map(u64::from_le_bytes).unwrap();
                self.checker.borrow_mut().note_acknowledged(id.0, position);
            }
            (Some(client), _) => {
                self.count("fate unknown");
                let asked = self.clients.operations[client].at;
                if asked.is_some_and(|(asked, _)| asked == node) {
                    self.clients.operations[client].at = None;
                }
            }
            (None, outcome) => self.member_changed(id, outcome),
        }
    }

    pub(super) fn read_answered(&mut self, node: usize, outcome: ReadOutcome) {
        let Some(client) = self.clients.reads.remove(&(node, outcome.token)) else { return };
        let operation = self.clients.operations[client];
        if operation.token != outcome.token || !operation.is_read {
            return;
        }
        if !outcome.is_ready {
            self.count("read given up");
            self.clients.operations[client].at = None;
            return;
        }
        if !self.leads(node) {
            self.count("read at a follower");
        }
        let seen = self.nodes[node].raft.as_ref().map_or(0, |raft| raft.machine().count());
        self.finish_operation(client, seen);
    }

    fn finish_operation(&mut self, client: usize, position: u64) {
        let Operation { asked, is_read, .. } = self.clients.operations[client];
        let answered = Answered { asked, answered: self.now, position, is_read };
        self.checker.borrow_mut().note_answered(answered);
        self.clients.operations[client] = Operation::default();
        self.clients.done_since_calm += u64::from(self.clients.is_calm);
    }
}
