//! What is committed takes effect.

use raft::eraftpb::{ConfState, Entry, EntryType, Snapshot};

use super::{Decided, Outcome, RaftNode};
use crate::coordinator::raft::identity::RaftId;
use crate::coordinator::raft::log::Position;
use crate::coordinator::raft::roster::StateRecord;
use crate::coordinator::raft::state_machine::{ProposalId, StateMachine};

impl<M: StateMachine> RaftNode<M> {
    /// Applies entries whose commit index is written.
    pub(super) fn apply(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            let at = Position { index: entry.index, term: entry.term };
            // What raft-rs handed out before a snapshot overtook it.
            if at.index <= self.applied.index {
                continue;
            }
            self.apply_one(entry);
            self.applied = at;
        }
        if self.applied.index > self.raw.raft.raft_log.applied {
            self.raw.advance_apply_to(self.applied.index);
        }
    }

    fn apply_one(&mut self, entry: Entry) {
        let id = entry.context[..].try_into().ok().map(|id| ProposalId(u128::from_le_bytes(id)));
        let outcome = match EntryType::from_i32(entry.entry_type) {
            Some(EntryType::EntryConfChangeV2) => {
                let change = self.apply_change(id.unwrap_or(ProposalId(0)), &entry.data);
                change.map_or(Outcome::Overtaken, Outcome::Changed)
            }
            // Without an id: a leader's first entry.
            Some(EntryType::EntryNormal) => {
                let Some(id) = id else { return };
                let result = self.machine.apply(entry.index, id, &entry.data);
                Outcome::Applied { index: entry.index, result }
            }
            // The old kind of change, which nobody proposes, or none: the same for every member.
            Some(EntryType::EntryConfChange) | None => return,
        };
        if let Some(id) = id.filter(|id| self.proposals.remove(id).is_some()) {
            self.effects.decided.push(Decided { id, outcome });
        }
    }

    /// The leader's snapshot, now that it is written, takes the place of all that was applied.
    pub(super) fn restore(&mut self, snapshot: &Snapshot) {
        let metadata = snapshot.metadata.clone().unwrap_or_default();
        let restored = StateRecord::decode(&snapshot.data).and_then(|(roster, state)| {
            self.machine.restore(&state)?;
            Ok(roster)
        });
        match restored {
            Ok(roster) => {
                self.roster = roster;
                self.applied = Position { index: metadata.index, term: metadata.term };
            }
            Err(error) => self.fail(error.into()),
        }
    }

    /// Members have changed: those who are gone are not heard any more.
    pub(super) fn note_members(&mut self, conf_state: &ConfState) {
        self.roster.keep_members_of(conf_state);
        let roster = &self.roster;
        self.heard.retain(|id, _| !roster.is_former(*id));
        self.snapshot_deadlines.retain(|id, _| !roster.is_former(*id));
    }

    /// Whether this node was removed, as far as it was told.
    pub fn is_removed(&self) -> bool {
        let RaftId(own) = self.identity.raft;
        self.is_told_removed || (self.applied.index > 0 && self.roster.is_former(own))
    }
}
