//! What a member does once it is known that its leader's process is gone: it does not wait until patience runs out.
//!
//! That is known by the system of the leader's host, which refuses connections at the address where the process listened. Nothing of Raft's safety rests on
//! it: a member that believes it by mistake asks for votes too early, and gets none while others hear the leader.

use std::time::Duration;

use raft::StateRole;
use weft_transport::{NodeId, Time};

use super::{RaftNode, StateMachine};

/// After this a member stands for election the first time: the others are to know by then that there is no leader, or they would give it no vote.
const SUCCEED_AFTER: Duration = Duration::from_millis(10);

/// A leader that is gone, and who is to follow.
#[derive(Debug)]
pub(super) struct Succession {
    /// The voters that are left, in the order in which they stand for election, a tick apart: two at once would each keep their own vote.
    candidates: Vec<u64>,
    ticks: usize,
}

impl<M: StateMachine> RaftNode<M> {
    /// The process that ran on `node` is gone, says the system there. If it led, somebody else is to, soon.
    pub fn process_gone(&mut self, now: Time, node: NodeId) {
        let raft = &self.raw.raft;
        let leader = raft.leader_id;
        let led = leader != 0 && self.roster.node(leader) == Some(node);
        if self.failure.is_some() || raft.state != StateRole::Follower || !led {
            return;
        }
        let term = raft.term;
        let mut candidates = self.conf_state().voters;
        candidates.retain(|voter| *voter != leader);
        candidates.sort_unstable();
        // raft-rs refuses its vote while it believes in a leader. Nothing else of a follower changes: it keeps its vote of this term.
        self.raw.raft.become_follower(term, 0);
        self.settle_jitter();
        self.succession = Some(Succession { candidates, ticks: 0 });
        self.next_tick = self.next_tick.min(now + SUCCEED_AFTER);
    }

    /// A tick has passed: stands for election if there is still nobody, and it is this member's turn.
    pub(super) fn succeed(&mut self) {
        let is_open = self.raw.raft.leader_id == 0 && self.failure.is_none();
        let Some(succession) = self.succession.as_mut().filter(|_| is_open) else {
            self.succession = None;
            return;
        };
        let turn = succession.ticks % succession.candidates.len().max(1);
        let is_own = succession.candidates.get(turn) == Some(&self.identity.raft.0);
        succession.ticks += 1;
        if succession.ticks >= self.settings.election_ticks {
            // Patience does the rest.
            self.succession = None;
        }
        if is_own {
            // While the disk is behind it is refused, and tried again.
            let _ = self.campaign();
        }
    }
}
