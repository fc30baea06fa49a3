//! What must never be.

use std::collections::{BTreeMap, BTreeSet};

use weft_protocol::{Catalog, Member, PartitionId};
use weft_transport::{Incarnation, NodeId};

use crate::coordinator::raft::RaftId;
use crate::coordinator::{
    Changes, ClientId, ClusterState, Node, Outcome, Partition, ProposalId, Update, WorkerId,
};

/// What a node knows, from updates alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) version: u64,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) partitions: BTreeMap<PartitionId, Partition>,
    pub(super) catalog: Catalog,
}

impl Known {
    pub(super) fn take(&mut self, update: Update) {
        if update.is_whole() {
            *self = Self::default();
        }
        self.version = update.version;
        for node in update.forgotten {
            self.nodes.remove(&node);
        }
        let settled = |node: Node| (node.id, Node { is_settled: true, ..node });
        self.nodes.extend(update.nodes.into_iter().map(settled));
        self.partitions.extend(update.partitions);
        if let Some(catalog) = update.catalog {
            self.catalog = catalog;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Checker {
    /// What was committed, by version.
    committed: BTreeMap<u64, Known>,
    outcomes: BTreeMap<ProposalId, Outcome>,
    clients: BTreeSet<ClientId>,
    workers: BTreeSet<WorkerId>,
    /// The latest member that a node was admitted as.
    admitted: BTreeMap<NodeId, RaftId>,
    latest_known: BTreeMap<Member, u64>,
    lives: BTreeMap<NodeId, Incarnation>,
    pub(super) updates: u64,
}

impl Checker {
    /// What a node knows that knows a state.
    pub(super) fn known(state: &ClusterState) -> Option<Known> {
        let mut known = Known::default();
        let changes: Changes<'_> = state.changes_since(0).filter(|changes| changes.version > 0)?;
        known.take(Update::of(super::CLUSTER, 0, &changes));
        Some(known)
    }

    /// A coordinator has a state of which nodes know this: all that have come so far have the same.
    pub(super) fn see(&mut self, known: Option<Known>) {
        let Some(known) = known else { return };
        let before = self.committed.entry(known.version).or_insert_with(|| known.clone());
        assert_eq!(*before, known, "coordinators have different states of one version");
    }

    /// A node knows this now, by updates.
    pub(super) fn told(&mut self, known: &Known) {
        self.updates += 1;
        let committed = self.committed.get(&known.version);
        assert_eq!(committed, Some(known), "a node was told what was not committed");
    }

    /// A node begins a life: it never had that before.
    pub(super) fn begin(&mut self, member: Member) {
        let last = self.lives.insert(member.node, member.incarnation);
        assert!(last.is_none_or(|last| last < member.incarnation), "{member:?} again");
        self.latest_known.insert(member, 0);
    }

    /// Something was accepted: whoever asks again is told the same.
    pub(super) fn decided(&mut self, id: ProposalId, outcome: &Outcome) {
        if matches!(outcome, Outcome::Renewed { .. }) {
            return;
        }
        let is_new = !self.outcomes.contains_key(&id);
        let before = self.outcomes.entry(id).or_insert_with(|| outcome.clone());
        assert_eq!(before, outcome, "one proposal has two outcomes");
        if let (true, Outcome::ClientOpened { client }) = (is_new, outcome) {
            assert!(self.clients.insert(*client), "a client's number was given out twice");
        }
        if let (true, Outcome::WorkerRegistered { worker }) = (is_new, outcome) {
            assert!(self.workers.insert(*worker), "a worker's number was given out twice");
        }
    }

    /// A node became a member of the log: a new one each time that it has lost its log.
    pub(super) fn admitted(&mut self, node: NodeId, raft: RaftId) {
        let before = self.admitted.insert(node, raft);
        assert!(before.is_none_or(|before| before < raft), "{node} is {raft} again");
    }
}
