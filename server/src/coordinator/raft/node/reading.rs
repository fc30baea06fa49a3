//! Reads that are linearizable without an entry in the log: what raft-rs calls read index, and what it leaves out.
//!
//! A leader confirms by a round of heartbeats that it still leads, and names its commit index as of the question; whoever has applied that far
//! may answer. raft-rs drops such a question in silence where there is no leader or the leader has committed nothing in its term, and
//! ignores one whose context it already has; so questions are asked again, each time under a new context. Questions that come together are
//! asked as one.

use std::collections::BTreeMap;

use raft::{RawNode, ReadState};
use weft_transport::Time;

use super::{ReadOutcome, Refused};
use crate::coordinator::raft::limits::READS_WAITING_MAX;
use crate::coordinator::raft::view::LogView;

/// Reads of one member.
#[derive(Debug)]
pub(super) struct Reads {
    raft_id: u64,
    life: u64,
    /// The context's last part: with the member and its life, it is one that nobody ever used.
    counter: u64,
    unsent: Vec<Read>,
    sent: BTreeMap<u64, Question>,
}

#[derive(Debug, Clone, Copy)]
struct Read {
    token: u64,
    expires: Time,
}

#[derive(Debug)]
struct Question {
    reads: Vec<Read>,
    retry: Time,
    /// The index that must be applied.
    index: Option<u64>,
}

impl Reads {
    pub(super) fn new(raft_id: u64, life: u64) -> Self {
        Reads { raft_id, life, counter: 0, unsent: Vec::new(), sent: BTreeMap::new() }
    }

    pub(super) fn ask(&mut self, token: u64, expires: Time) -> Result<(), Refused> {
        let waiting = self.unsent.len()
            + self.sent.values().map(|question| question.reads.len()).sum::<usize>();
        if waiting >= READS_WAITING_MAX {
            return Err(Refused::Busy);
        }
        self.unsent.push(Read { token, expires });
        Ok(())
    }

    /// Asks what was not asked yet.
    pub(super) fn send(&mut self, raw: &mut RawNode<LogView>, retry: Time) {
        if self.unsent.is_empty() {
            return;
        }
        self.counter += 1;
        let reads = std::mem::take(&mut self.unsent);
        self.sent.insert(self.counter, Question { reads, retry, index: None });
        let context = [self.raft_id, self.life, self.counter].map(u64::to_le_bytes);
        raw.read_index(context.concat());
    }

    /// raft-rs has answers.
    pub(super) fn confirm(&mut self, states: Vec<ReadState>) {
        for ReadState { index, request_ctx } in states {
            let own = [self.raft_id, self.life].map(u64::to_le_bytes).concat();
            let counter = request_ctx.strip_prefix(&own[..]).and_then(|rest| rest.try_into().ok());
            // One that was given up since, or begun anew, is nobody's any more.
            let question =
                counter.and_then(|counter| self.sent.get_mut(&u64::from_le_bytes(counter)));
            if let Some(question) = question {
                question.index = Some(index);
            }
        }
    }

    /// Answers what needs no more than is applied.
    pub(super) fn answer(&mut self, applied: u64, outcomes: &mut Vec<ReadOutcome>) {
        let is_ready = |question: &Question| question.index.is_some_and(|index| index <= applied);
        let ready: Vec<u64> = self
            .sent
            .iter()
            .filter(|(_, question)| is_ready(question))
            .map(|(counter, _)| *counter)
            .collect();
        for question in ready.iter().filter_map(|counter| self.sent.remove(counter)) {
            let answered =
                question.reads.iter().map(|read| ReadOutcome { token: read.token, is_ready: true });
            outcomes.extend(answered);
        }
    }

    /// Another term or leader: nothing that was asked before counts.
    pub(super) fn begin_anew(&mut self) {
        let questions = std::mem::take(&mut self.sent).into_values();
        self.unsent.extend(questions.flat_map(|question| question.reads));
    }

    /// Time has passed: asks again what has no index yet, and gives up what is too old.
    pub(super) fn expire(&mut self, now: Time, outcomes: &mut Vec<ReadOutcome>) {
        let late = |question: &Question| question.retry <= now && question.index.is_none();
        let again: Vec<u64> = self
            .sent
            .iter()
            .filter(|(_, question)| late(question))
            .map(|(counter, _)| *counter)
            .collect();
        for question in again.iter().filter_map(|counter| self.sent.remove(counter)) {
            self.unsent.extend(question.reads);
        }
        let mut give_up = |read: &Read| {
            let is_late = read.expires <= now;
            if is_late {
                outcomes.push(ReadOutcome { token: read.token, is_ready: false });
            }
            !is_late
        };
        self.unsent.retain(&mut give_up);
        for question in self.sent.values_mut() {
            question.reads.retain(&mut give_up);
        }
        self.sent.retain(|_, question| !question.reads.is_empty());
    }
}
