//! What must hold: one order of commands, one leader a term, nothing acknowledged that is lost, no read of the past.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::coordinator::raft::{
    Dropped, Leadership, ProposalId, RaftId, RestoreError, StateMachine, Unfit,
};

/// A register of all commands: each is applied once, and its answer is its place among them.
pub(super) struct Model {
    positions: BTreeMap<u128, u64>,
    digest: u64,
    checker: Rc<RefCell<Checker>>,
}

impl Model {
    pub(super) fn new(checker: Rc<RefCell<Checker>>) -> Self {
        Model { positions: BTreeMap::new(), digest: 0, checker }
    }

    pub(super) fn count(&self) -> u64 {
        self.positions.len() as u64
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn positions(&self) -> &BTreeMap<u128, u64> {
        &self.positions
    }
}

impl StateMachine for Model {
    fn apply(&mut self, index: u64, id: ProposalId, command: &[u8]) -> Vec<u8> {
        let next = self.count() + 1;
        let position = *self.positions.entry(id.0).or_insert(next);
        if position == next {
            self.digest = mix(self.digest ^ id.0 as u64 ^ command.len() as u64);
        }
        self.checker.borrow_mut().note_applied(index, id, self.digest);
        position.to_le_bytes().to_vec()
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut bytes = self.digest.to_le_bytes().to_vec();
        for (id, position) in &self.positions {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&position.to_le_bytes());
        }
        bytes
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let short = || RestoreError("cut short".to_owned());
        let (digest, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        self.digest = u64::from_le_bytes(*digest);
        self.positions.clear();
        for pair in rest.chunks(24) {
            let (id, position) = pair.split_first_chunk::<16>().ok_or_else(short)?;
            let position = u64::from_le_bytes(position.try_into().map_err(|_| short())?);
            self.positions.insert(u128::from_le_bytes(*id), position);
        }
        self.checker.borrow_mut().count("restored");
        Ok(())
    }
}

/// An operation that was answered.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// The place of a write; of a read, the number of writes that it saw.
    pub(super) position: u64,
    pub(super) is_read: bool,
}

#[derive(Default)]
pub(super) struct Checker {
    pub(super) violations: Vec<String>,
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// By index: the command and the state after it.
    applied: BTreeMap<u64, (u128, u64)>,
    leaders: BTreeMap<u64, RaftId>,
    acknowledged: BTreeMap<u128, u64>,
    /// Members that others know to be removed.
    pub(super) former: BTreeSet<RaftId>,
    history: Vec<Answered>,
}

impl Checker {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn note_applied(&mut self, index: u64, id: ProposalId, digest: u64) {
        let found = *self.applied.entry(index).or_insert((id.0, digest));
        if found != (id.0, digest) {
            let told = format!("index {index}: {found:x?} and {:x?} were applied", (id.0, digest));
            self.violations.push(told);
        }
    }

    pub(super) fn note_leadership(&mut self, own: Option<RaftId>, leadership: Leadership) {
        let Some(own) = own.filter(|_| leadership.is_own) else { return };
        let first = *self.leaders.entry(leadership.term).or_insert(own);
        if first != own {
            self.violations.push(format!("{first} and {own} both led term {}", leadership.term));
        }
    }

    /// Members that follow the rules send nothing unfit.
    pub(super) fn note_dropped(&mut self, node: usize, dropped: &Dropped) {
        match dropped {
            Dropped::FormerMember(member) => {
                self.former.insert(*member);
                self.count("heard a former member");
            }
            Dropped::EarlierLife(_) => self.count("heard an earlier life"),
            Dropped::OtherMember { .. } => self.count("heard what was for another"),
            Dropped::Unused(_) | Dropped::Failed => self.count("heard without use"),
            Dropped::Unfit { unfit: Unfit::Sender | Unfit::Unasked, .. } => {
                self.count("heard out of turn")
            }
            Dropped::Unfit { .. } | Dropped::Malformed(_) | Dropped::OtherCluster(_) => {
                self.violations.push(format!("node {node} heard {dropped}"));
            }
        }
    }

    pub(super) fn note_acknowledged(&mut self, id: u128, position: u64) {
        let first = *self.acknowledged.entry(id).or_insert(position);
        if first != position {
            self.violations.push(format!("{id:x} was acknowledged at {first} and at {position}"));
        }
    }

    pub(super) fn note_answered(&mut self, answered: Answered) {
        self.count(if answered.is_read { "reads" } else { "writes" });
        self.history.push(answered);
    }

    /// Nothing acknowledged is lost, and all happened in one order that time agrees with: what was asked after an answer comes after it.
    pub(super) fn check_ledger(&mut self, state: &BTreeMap<u128, u64>) {
        for (id, position) in &self.acknowledged {
            if state.get(id) != Some(position) {
                self.violations.push(format!(
                    "{id:x} was acknowledged at {position}, and is at {:?}",
                    state.get(id)
                ));
            }
        }
        self.check_order();
    }

    pub(super) fn check_order(&mut self) {
        let mut asked: Vec<Answered> = self.history.clone();
        asked.sort_by_key(|answered| answered.asked);
        let mut finished: Vec<Answered> = self.history.clone();
        finished.sort_by_key(|answered| answered.answered);
        // The greatest position that was seen before each question.
        let mut finished = finished.into_iter().peekable();
        let mut seen = 0;
        for question in asked {
            while let Some(earlier) = finished.next_if(|earlier| earlier.answered < question.asked)
            {
                seen = seen.max(earlier.position);
            }
            let least = if question.is_read { seen } else { seen + 1 };
            // A write that is repeated has the place of its first try, which is not before it was asked either.
            if question.position < least {
                let kind = if question.is_read { "read" } else { "write" };
                let told = format!(
                    "a {kind} asked at {} came to {}, after {seen} was seen",
                    question.asked, question.position
                );
                self.violations.push(told);
            }
        }
    }

    pub(super) fn digest(&self, events: u64) -> u64 {
        let applied = self.applied.iter().fold(events, |sum, (index, (id, digest))| {
            mix(sum ^ index ^ *id as u64 ^ digest.rotate_left(17))
        });
        self.leaders.iter().fold(applied, |sum, (term, leader)| mix(sum ^ (term << 8) ^ leader.0))
    }
}

fn mix(value: u64) -> u64 {
    let mixed = (value ^ (value >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
