//! What the leader has seen of the state since it began to lead, and when.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weft_protocol::{Member, PartitionId};
use weft_transport::{NodeId, Time};

use super::settings::PlannerSettings;
use crate::coordinator::command::ClientId;
use crate::coordinator::node::Node;
use crate::coordinator::state::ClusterState;
use crate::coordinator::worker::WorkerId;

/// Changes of a partition that are remembered: no setting may ask for more.
const CHANGES_MAX: usize = 64;

/// The state knows no time: this is when the leader saw what in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    nodes: BTreeMap<NodeId, NodeMemory>,
    /// By number.
    partitions: Vec<PartitionMemory>,
    /// How often each lease had been renewed, and since when.
    clients: BTreeMap<ClientId, (u64, Time)>,
    /// The last renewal of each worker's registration, and since when.
    workers: BTreeMap<WorkerId, (u64, Time)>,
    /// When it looked at the state first.
    pub(super) began: Option<Time>,
    pub(super) clients_checked: Time,
    pub(super) workers_checked: Time,
    pub(super) handed_over: Time,
}

#[derive(Debug, Clone, Copy)]
struct NodeMemory {
    member: Member,
    seen: Time,
    /// Whether it had just been started anew then.
    is_reborn: bool,
    down_since: Option<Time>,
}

#[derive(Debug, Clone)]
struct PartitionMemory {
    epoch: u32,
    since: Time,
    member_count: usize,
    /// When it last had fewer members than before.
    shrunk: Option<Time>,
    /// When its epoch rose within the last minute.
    changes: VecDeque<Time>,
}

impl Memory {
    /// Looks at nodes and partitions.
    pub(super) fn observe(&mut self, state: &ClusterState, now: Time) {
        self.began.get_or_insert(now);
        self.nodes.retain(|node, _| state.node(*node).is_some());
        for node in state.nodes() {
            self.observe_node(node, now);
        }
        for (index, (_, partition)) in state.partitions().enumerate() {
            let epoch = partition.configuration.epoch;
            let member_count = partition.configuration.members.len();
            let Some(known) = self.partitions.get_mut(index) else {
                let (shrunk, changes) = (None, VecDeque::new());
                let fresh = PartitionMemory { epoch, since: now, member_count, shrunk, changes };
                self.partitions.push(fresh);
                continue;
            };
            if member_count < known.member_count {
                known.shrunk = Some(now);
            }
            known.member_count = member_count;
            while known.changes.front().is_some_and(|at| now.since(*at) > PlannerSettings::MINUTE) {
                known.changes.pop_front();
            }
            if known.epoch == epoch {
                continue;
            }
            let rises = (epoch.saturating_sub(known.epoch) as usize).min(CHANGES_MAX);
            known.changes.extend(std::iter::repeat_n(now, rises));
            let surplus = known.changes.len().saturating_sub(CHANGES_MAX);
            known.changes.drain(..surplus);
            (known.epoch, known.since) = (epoch, now);
        }
    }

    fn observe_node(&mut self, node: &Node, now: Time) {
        let member = node.member();
        let is_reborn = !node.is_settled;
        let fresh = NodeMemory { member, seen: now, is_reborn, down_since: None };
        let known = self.nodes.entry(node.id).or_insert(fresh);
        if known.member != member {
            *known = fresh;
        }
        known.down_since = match (node.is_up, known.down_since) {
            (true, _) => None,
            (false, since) => Some(since.unwrap_or(now)),
        };
    }

    /// When the node was first seen in its present life.
    pub(super) fn seen(&self, member: Member) -> Option<Time> {
        let known = self.nodes.get(&member.node)?;
        (known.member == member).then_some(known.seen)
    }

    /// Whether the node was started anew less than `within` ago, after earlier lives.
    pub(super) fn is_newly_reborn(&self, member: Member, within: Duration, now: Time) -> bool {
        let known = self.nodes.get(&member.node).filter(|known| known.member == member);
        known.is_some_and(|known| known.is_reborn && now.since(known.seen) < within)
    }

    /// Whether a node of the cluster went down less than `within` ago.
    pub(super) fn is_one_newly_down(&self, within: Duration, now: Time) -> bool {
        let mut since = self.nodes.values().filter_map(|known| known.down_since);
        since.any(|since| now.since(since) < within)
    }

    /// When the partition was first seen in its present epoch.
    pub(super) fn since(&self, partition: PartitionId) -> Time {
        self.partitions.get(usize::from(partition.0)).map_or(Time::MAX, |known| known.since)
    }

    /// Whether the partition lost a member less than `within` ago.
    pub(super) fn is_newly_shrunk(&self, id: PartitionId, within: Duration, now: Time) -> bool {
        let shrunk = self.partitions.get(usize::from(id.0)).and_then(|known| known.shrunk);
        shrunk.is_some_and(|shrunk| now.since(shrunk) < within)
    }

    /// How often the partition was changed within the last minute.
    pub(super) fn changes(&self, partition: PartitionId) -> usize {
        self.partitions.get(usize::from(partition.0)).map_or(0, |known| known.changes.len())
    }

    /// The clients whose leases were not renewed for `lease`, and how often they were before. It looks at all clients.
    pub(super) fn silent_clients(
        &mut self,
        state: &ClusterState,
        lease: Duration,
        now: Time,
    ) -> Vec<(ClientId, u64)> {
        silent(&mut self.clients, state.clients(), lease, now)
    }

    /// The workers whose registrations were not renewed for `lifetime`, and their last renewals. It looks at all workers.
    pub(super) fn silent_workers(
        &mut self,
        state: &ClusterState,
        lifetime: Duration,
        now: Time,
    ) -> Vec<(WorkerId, u64)> {
        let workers = state.workers().map(|(worker, known)| (worker, known.renewal));
        silent(&mut self.workers, workers, lifetime, now)
    }
}

/// Those of `present` of which the last renewal has been the same for longer than `lease`; of all it is `known` then which it was, and since when.
fn silent<Id: Copy + Ord>(
    known: &mut BTreeMap<Id, (u64, Time)>,
    present: impl Iterator<Item = (Id, u64)>,
    lease: Duration,
    now: Time,
) -> Vec<(Id, u64)> {
    let mut before = std::mem::take(known);
    let mut silent = Vec::new();
    for (id, renewal) in present {
        let since = match before.remove(&id) {
            Some((last, since)) if last == renewal => since,
            _ => now,
        };
        if now.since(since) > lease {
            silent.push((id, renewal));
        }
        known.insert(id, (renewal, since));
    }
    silent
}
