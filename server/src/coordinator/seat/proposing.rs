//! What is on its way into the log, and who waits for what comes of it.
//!
//! Questions that come together go into one entry: a commit is a round trip and a sync, whatever it carries. Each entry is proposed under an id of its
//! own, since one of its proposals may be asked for twice; an admission under that of who asks, since the log remembers it.

use std::collections::{BTreeMap, VecDeque};

use super::Coordinator;
use crate::coordinator::ask::{Answer, Denial};
use crate::coordinator::codec;
use crate::coordinator::command::{Command, Outcome, Proposal, ProposalId};
use crate::coordinator::raft::{self, COMMAND_BYTES_MAX, Decided, RaftId, Refused};
use crate::limits::ENTRY_COMMANDS_MAX;

/// Proposals on their way.
#[derive(Debug)]
pub(super) struct Proposing {
    raft: RaftId,
    life: u64,
    entries_made: u64,
    /// Questions whose proposals were not proposed yet.
    queue: VecDeque<(u64, Proposal)>,
    /// Entries whose fate is open.
    entries: BTreeMap<ProposalId, Entry>,
    open_count: usize,
}

/// An entry that was proposed.
#[derive(Debug)]
pub(super) enum Entry {
    /// Proposals, and who asked for each.
    Asked(Vec<u64>),
    /// What the leader planned.
    Planned,
    /// A change of members that the leader wants.
    Reshaped,
    /// A node is admitted, under the id that it asked under, and who asked.
    Admission(Vec<u64>),
}

impl Proposing {
    pub(super) const fn new(raft: RaftId, life: u64) -> Self {
        Self {
            raft,
            life,
            entries_made: 0,
            queue: VecDeque::new(),
            entries: BTreeMap::new(),
            open_count: 0,
        }
    }

    /// Questions that are open.
    pub(super) const fn open_count(&self) -> usize {
        self.open_count
    }

    pub(super) fn push(&mut self, token: u64, proposal: Proposal) {
        self.queue.push_back((token, proposal));
        self.open_count += 1;
    }

    /// An id that no entry has, of this member in this life or of any other.
    pub(super) fn next_id(&mut self) -> ProposalId {
        self.entries_made += 1;
        let (raft, life) = (u128::from(self.raft.0 as u32), u128::from(self.life as u32));
        ProposalId(raft << 96 | life << 64 | u128::from(self.entries_made))
    }

    /// An entry was proposed.
    pub(super) fn begin(&mut self, entry: ProposalId, what: Entry) {
        if let Entry::Admission(tokens) = &what {
            self.open_count += tokens.len();
        }
        self.entries.insert(entry, what);
    }

    /// An entry's fate is known.
    pub(super) fn end(&mut self, entry: ProposalId) -> Option<Entry> {
        let ended = self.entries.remove(&entry)?;
        match &ended {
            Entry::Asked(tokens) | Entry::Admission(tokens) => {
                self.open_count -= tokens.len();
            }
            Entry::Planned | Entry::Reshaped => {}
        }
        Some(ended)
    }

    /// Somebody else waits for an admission that is under way. Returns whether there is one.
    pub(super) fn wait_for_admission(&mut self, id: ProposalId, token: u64) -> bool {
        let Some(Entry::Admission(waiting)) = self.entries.get_mut(&id) else { return false };
        waiting.push(token);
        self.open_count += 1;
        true
    }

    /// Whether a plan, or a part of one, is neither committed nor given up.
    pub(super) fn has_plan_in_flight(&self) -> bool {
        self.entries.values().any(|entry| matches!(entry, Entry::Planned))
    }
}

impl Coordinator {
    /// Proposes what was asked for since the last turn. Returns whether there was something.
    pub(super) fn propose_queue(&mut self) -> bool {
        let mut has_proposed = false;
        while !self.proposing.queue.is_empty() {
            let count = self.proposing.queue.len().min(ENTRY_COMMANDS_MAX);
            let asked: Vec<(u64, Proposal)> = self.proposing.queue.drain(..count).collect();
            has_proposed |= self.propose_asked(asked);
        }
        has_proposed
    }

    /// In one entry, or as many as it takes.
    fn propose_asked(&mut self, mut asked: Vec<(u64, Proposal)>) -> bool {
        let (tokens, proposals): (Vec<u64>, Vec<Proposal>) = asked.iter().cloned().unzip();
        match entry(&proposals) {
            Ok(bytes) => {
                let id = self.proposing.next_id();
                match self.raft.propose(id, bytes) {
                    Ok(()) => self.proposing.begin(id, Entry::Asked(tokens)),
                    Err(refused) => {
                        self.proposing.open_count -= tokens.len();
                        let answer = match refused {
                            Refused::NotLeader { .. } => {
                                Answer::NotLeader { leader: self.leader.clone() }
                            }
                            _ => Answer::Unavailable,
                        };
                        self.answers
                            .extend(tokens.into_iter().map(|token| (token, answer.clone())));
                        return false;
                    }
                }
                true
            }
            Err(_) if asked.len() > 1 => {
                let rest = asked.split_off(asked.len() / 2);
                let has_proposed = self.propose_asked(asked);
                self.propose_asked(rest) || has_proposed
            }
            // Each was looked at when it was asked for.
            Err(denial) => {
                self.proposing.open_count -= 1;
                self.answers.push((tokens[0], Answer::Decided(Err(denial))));
                false
            }
        }
    }

    /// Proposes what was planned. Returns whether something was proposed; what was not is planned again.
    pub(super) fn propose_plan(&mut self, commands: Vec<Command>) -> bool {
        let with_id = |command| Proposal { id: ProposalId::NONE, command };
        let proposals: Vec<Proposal> = commands.into_iter().map(with_id).collect();
        self.propose_planned(&proposals)
    }

    fn propose_planned(&mut self, proposals: &[Proposal]) -> bool {
        if proposals.is_empty() {
            return false;
        }
        match entry(proposals) {
            Ok(bytes) => {
                let id = self.proposing.next_id();
                let is_proposed = self.raft.propose(id, bytes).is_ok();
                if is_proposed {
                    self.proposing.begin(id, Entry::Planned);
                }
                is_proposed
            }
            Err(_) if proposals.len() > 1 => {
                let (first, rest) = proposals.split_at(proposals.len() / 2);
                // In their order.
                self.propose_planned(first) && self.propose_planned(rest)
            }
            Err(denial) => {
                tracing::error!(
                    ?denial,
                    "a plan is none that coordinators can read: it is left out"
                );
                false
            }
        }
    }

    /// An entry's fate is known, or will not be known here.
    pub(super) fn decided(&mut self, decided: Decided) {
        let Some(entry) = self.proposing.end(decided.id) else { return };
        match entry {
            Entry::Asked(tokens) => self.asked_decided(tokens, &decided.outcome),
            Entry::Planned | Entry::Reshaped => {}
            Entry::Admission(tokens) => self.admission_decided(tokens, &decided.outcome),
        }
    }

    fn asked_decided(&mut self, tokens: Vec<u64>, outcome: &raft::Outcome) {
        let results = match outcome {
            raft::Outcome::Applied { result, .. } => codec::decode_decisions(result).ok(),
            raft::Outcome::Changed(_) | raft::Outcome::Overtaken | raft::Outcome::Unknown => None,
        };
        // Of an entry that could not be applied there are none; then this coordinator ends.
        let results = results.filter(|results| results.len() == tokens.len());
        let answers: Vec<Answer> = match results {
            Some(results) => results.into_iter().map(Answer::Decided).collect(),
            None => vec![Answer::Unavailable; tokens.len()],
        };
        self.answers.extend(tokens.into_iter().zip(answers));
    }

    /// This one does not lead, or not in the same term: what was not proposed yet was not done.
    pub(super) fn give_up_queue(&mut self) {
        let queue = std::mem::take(&mut self.proposing.queue);
        self.proposing.open_count -= queue.len();
        let leader = self.find_leader();
        let answer = |(token, _)| (token, Answer::NotLeader { leader: leader.clone() });
        self.answers.extend(queue.into_iter().map(answer));
    }

    /// Nothing is known any more of what was asked.
    pub(super) fn give_up_questions(&mut self) {
        self.give_up_queue();
        let open: Vec<ProposalId> = self.proposing.entries.keys().copied().collect();
        for entry in open {
            if let Some(Entry::Asked(tokens) | Entry::Admission(tokens)) = self.proposing.end(entry)
            {
                self.answers.extend(tokens.into_iter().map(|token| (token, Answer::Unavailable)));
            }
        }
        let reads = std::mem::take(&mut self.reads).into_values();
        self.answers.extend(reads.map(|reading| (reading.token, Answer::Unavailable)));
    }

    /// What came of a proposal that was accepted before.
    pub(super) fn known_outcome(&self, id: ProposalId) -> Option<Outcome> {
        self.state().proposals.outcome(id).cloned()
    }
}

/// Proposals as an entry that every coordinator can read: it is tried, since one that is committed and cannot be read ends all of them.
pub(super) fn entry(proposals: &[Proposal]) -> Result<Vec<u8>, Denial> {
    let bytes = codec::encode_entry(proposals).map_err(|error| Denial::invalid(&error))?;
    codec::decode_entry(&bytes).map_err(|error| Denial::invalid(&error))?;
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(Denial::too_long(bytes.len()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use weft_protocol::{Configuration, Member, PartitionId};
    use weft_transport::{Incarnation, NodeId};

    use super::*;

    #[test]
    fn what_no_coordinator_could_read_is_no_entry() {
        let member = |node| Member { node: NodeId(node), incarnation: Incarnation(1) };
        let reconfigure = |primary| {
            let next = Configuration {
                epoch: 2,
                primary: Some(primary),
                members: vec![member(1), member(2)],
                learners: Vec::new(),
                min_in_sync: 2,
                is_lost: false,
            };
            let partition = PartitionId(0);
            let command = Command::Reconfigure { partition, expected_epoch: 1, next };
            entry(&[Proposal { id: ProposalId::NONE, command }])
        };
        assert!(reconfigure(member(2)).is_ok());
        assert!(reconfigure(member(3)).is_err());
    }
}
