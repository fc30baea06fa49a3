//! Who brings nodes back that lost their disks, and makes learners voters.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{CLUSTER, Event, World, node_id};
use crate::coordinator::raft::{Batch, Identity, MemberRole, Outcome, ProposalId, RaftId};

/// Ids of the operator's proposals, apart from the clients'.
const FIRST_ID: u128 = 1 << 100;

#[derive(Default)]
pub(super) struct Operator {
    made: u128,
    open: BTreeMap<u128, Intent>,
    /// Nodes without a log that are to have one.
    pub(super) homeless: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Intent {
    Admit { node: usize, asked_at: usize },
    Promote { asked_at: usize },
    Remove { node: usize, asked_at: usize },
}

impl Operator {
    pub(super) fn forget_node(&mut self, node: usize) {
        self.open.retain(|_, intent| {
            let (Intent::Admit { asked_at, .. }
            | Intent::Promote { asked_at }
            | Intent::Remove { asked_at, .. }) = intent;
            *asked_at != node
        });
    }

    fn next_id(&mut self) -> ProposalId {
        self.made += 1;
        ProposalId(FIRST_ID + self.made)
    }
}

impl World {
    pub(super) fn operate(&mut self) {
        self.after(Duration::from_millis(200), Event::Operate);
        for node in 0..self.nodes.len() {
            let own = self.nodes[node].identity.map(|identity| identity.raft);
            let knows = self.nodes[node].raft.as_ref().is_some_and(|raft| raft.is_removed());
            if knows || own.is_some_and(|own| self.checker.borrow().former.contains(&own)) {
                self.wipe(node);
            }
            if !self.nodes[node].has_log && !self.operator.homeless.contains(&node) {
                self.operator.homeless.push(node);
            }
        }
        let leaders: Vec<usize> = (0..self.nodes.len()).filter(|node| self.leads(*node)).collect();
        for leader in leaders {
            self.operate_at(leader);
        }
    }

    fn operate_at(&mut self, leader: usize) {
        if self.nodes[leader].paused_until > self.now {
            return;
        }
        let (now, boot) = (self.time(), self.nodes[leader].boot);
        if let Some(&node) = self.operator.homeless.first() {
            let id = self.operator.next_id();
            let mut admitted = None;
            self.operator.open.insert(id.0, Intent::Admit { node, asked_at: leader });
            self.with(leader, boot, |raft| admitted = Some(raft.admit(now, id, node_id(node))));
            if !matches!(admitted, Some(Ok(()))) {
                self.operator.open.remove(&id.0);
                self.count("admission refused");
            }
            return;
        }
        let learner = self.nodes[leader].raft.as_ref().and_then(|raft| {
            let learner =
                raft.members().into_iter().find(|member| member.role == MemberRole::Learner);
            learner.map(|member| member.raft)
        });
        if let Some(learner) = learner {
            let id = self.operator.next_id();
            self.operator.open.insert(id.0, Intent::Promote { asked_at: leader });
            let mut refused = None;
            self.with(leader, boot, |raft| refused = raft.promote(now, id, learner).err());
            if refused.is_some() {
                self.operator.open.remove(&id.0);
            }
        }
    }

    /// Removes a member on purpose.
    pub(super) fn remove_member(&mut self, leader: usize, node: usize) {
        let Some(identity) = self.nodes[node].identity else { return };
        let id = self.operator.next_id();
        let (now, boot) = (self.time(), self.nodes[leader].boot);
        let mut refused = None;
        self.operator.open.insert(id.0, Intent::Remove { node, asked_at: leader });
        self.with(leader, boot, |raft| refused = raft.remove(now, id, identity.raft).err());
        if refused.is_some() {
            self.count("removal refused");
            self.operator.open.remove(&id.0);
        }
    }

    pub(super) fn member_changed(&mut self, id: ProposalId, outcome: Outcome) {
        let Some(intent) = self.operator.open.remove(&id.0) else { return };
        match (intent, outcome) {
            (Intent::Admit { node, .. }, Outcome::Changed(Some(raft))) => self.house(node, raft),
            (Intent::Promote { .. }, Outcome::Changed(_)) => self.count("promoted"),
            (Intent::Remove { node, .. }, Outcome::Changed(_)) => {
                self.count("removed");
                self.wipe(node);
            }
            _ => self.count("change of fate unknown"),
        }
    }

    /// The node was admitted: it writes down who it is, and starts.
    fn house(&mut self, node: usize, raft: RaftId) {
        if self.nodes[node].has_log {
            return;
        }
        self.count("admitted");
        let identity = Identity { cluster: CLUSTER, node: node_id(node), raft };
        self.operator.homeless.retain(|homeless| *homeless != node);
        let state = &mut self.nodes[node];
        if state.disk.create(&Batch::joining(identity)).is_err() {
            // It never said anything under that id, and nobody will.
            return self.wipe(node);
        }
        state.has_log = true;
        self.after(Duration::from_millis(5), Event::Boot { node });
    }
}
