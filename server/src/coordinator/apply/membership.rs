//! Nodes join, are heard or not, and leave.

use std::collections::BTreeSet;

use weft_protocol::limits::NODES_MAX;
use weft_protocol::{Configuration, Durability, Member};
use weft_transport::NodeId;

use super::NODE_ID_MAX;
use super::partition::lose;
use crate::coordinator::command::{Applied, Join, Outcome};
use crate::coordinator::history::Gone;
use crate::coordinator::node::Node;
use crate::coordinator::partition::Partition;
use crate::coordinator::rejection::Rejection;
use crate::coordinator::state::ClusterState;

/// What a node that joins is to the cluster.
enum Coming {
    /// In this life it joined already: the answer was lost.
    Again,
    /// What it was in its last life, so that what it says of its logs counts.
    GoesOn,
    /// A node without anything that counts.
    Anew,
}

impl ClusterState {
    /// A node begins another life, with which the one before is over: what that one held is kept where all of it is on disk, and is gone elsewhere.
    pub(super) fn join(&mut self, join: &Join) -> Applied {
        let cluster = self.founded()?;
        let goes_on = match self.check_join(join)? {
            Coming::Again => {
                let (incarnation, timing) = (join.incarnation, self.timing);
                return Ok(Outcome::Joined { cluster, incarnation, timing });
            }
            Coming::GoesOn => true,
            Coming::Anew => false,
        };
        let known = self.nodes.get(&join.node);
        let member = Member { node: join.node, incarnation: join.incarnation };
        let complete = goes_on.then(|| join.complete.iter().copied().collect::<BTreeSet<_>>());
        let complete = complete.unwrap_or_default();
        let mut changed = Vec::new();
        for (id, partition) in self.partitions() {
            if partition.involves(join.node) {
                changed.push((id, reborn(partition, member, complete.contains(&id))?));
            }
        }
        let is_new = known.is_none() && join.last_incarnation.is_none();
        let is_leaving = known.is_some_and(|node| node.is_leaving);
        let node = Node {
            id: member.node,
            incarnation: member.incarnation,
            description: join.description.clone(),
            wire_version: join.wire_version,
            is_up: true,
            is_leaving,
            // Who never was here has promised nothing.
            is_settled: is_new,
            changed_at: self.next_version(),
        };
        self.nodes.insert(node.id, node);
        for (id, next) in changed {
            self.install(id, next);
        }
        Ok(Outcome::Joined { cluster, incarnation: member.incarnation, timing: self.timing })
    }

    fn check_join(&self, join: &Join) -> Result<Coming, Rejection> {
        let cluster = self.founded()?;
        if let Some(presented) = join.cluster.filter(|presented| *presented != cluster) {
            return Err(Rejection::OtherCluster { presented, cluster });
        }
        let (presented, required) = (join.wire_version, self.wire_version);
        if presented < required {
            return Err(Rejection::WireVersion { presented, required });
        }
        if join.node > NODE_ID_MAX {
            return Err(Rejection::NodeIdRange { node: join.node });
        }
        join.description.check()?;
        let Some(node) = self.nodes.get(&join.node) else {
            if !self.is_kept && !self.nodes.is_empty() {
                return Err(Rejection::NothingKept);
            }
            let is_full = self.nodes.len() >= NODES_MAX;
            return if is_full { Err(Rejection::TooManyNodes) } else { Ok(Coming::Anew) };
        };
        let (presented, known) = (join.incarnation, node.incarnation);
        if presented == known && join.description == node.description {
            return Ok(Coming::Again);
        }
        if presented <= known {
            return Err(Rejection::IncarnationPast { node: node.id, presented, known });
        }
        // A disk may be of a later life than is known: one that ended before anybody heard of it, in which the node did nothing. One of an earlier life is
        // an old copy, or another node's; and one that was never taken by the cluster is no node's of it, whatever life it says that it had begun.
        let goes_on =
            join.cluster.is_some() && join.last_incarnation.is_some_and(|last| last >= known);
        match (goes_on, node.is_up) {
            (true, _) => Ok(Coming::GoesOn),
            (false, false) => Ok(Coming::Anew),
            (false, true) => Err(Rejection::NodeIsUp { node: node.id, incarnation: known }),
        }
    }

    /// As often as it is asked, since whoever got no answer asks again: of a node that has left meanwhile, there is nothing to be done.
    pub(super) fn leave(&mut self, id: NodeId) -> Applied {
        let node = match self.known(id) {
            Err(_) if self.history.has(Gone::Node(id)) => return Ok(Outcome::Done),
            known => known?,
        };
        if node.is_leaving {
            return Ok(Outcome::Done);
        }
        let holders_left =
            |durability| self.holder_count_of(durability) - usize::from(node.can_hold(durability));
        // What is to be on disk needs a node that has one: the last of these would keep what it has, and leave for ever.
        let is_needed = |durability| node.can_hold(durability) && holders_left(durability) == 0;
        let is_last =
            self.classes().any(|(class, _)| self.is_used(class) && is_needed(class.durability));
        if is_last || holders_left(Durability::Memory) == 0 {
            return Err(Rejection::LastNode { node: id });
        }
        // With fewer nodes than replicas there cannot be as many in sync as before. Where nobody else has a disk, it keeps what is on its own of tables that were dropped.
        let mut changed = Vec::new();
        for (partition_id, partition) in self.partitions() {
            let holders = holders_left(partition.class.durability);
            let can_be = Self::replicas_wanted(partition.class, holders).max(1) as u8;
            let Configuration { epoch, min_in_sync, is_lost, .. } = partition.configuration;
            if min_in_sync > can_be && !is_lost {
                let next = partition.next_after(epoch)?;
                changed.push((partition_id, Configuration { min_in_sync: can_be, ..next }));
            }
        }
        self.set_leaving(id, true);
        for (partition_id, next) in changed {
            self.install(partition_id, next);
        }
        Ok(Outcome::Done)
    }

    pub(super) fn stay(&mut self, id: NodeId) -> Applied {
        let node = self.known(id)?;
        if !node.is_leaving {
            return Ok(Outcome::Done);
        }
        let holders = |durability| {
            self.holder_count_of(durability) + usize::from(node.could_hold(durability))
        };
        let mut changed = Vec::new();
        for (partition_id, partition) in self.partitions() {
            let Configuration { epoch, ref members, min_in_sync, .. } = partition.configuration;
            // What leaving took back.
            let (class, count) = (partition.class, members.len());
            let due =
                Self::min_in_sync_raised(min_in_sync, class, count, holders(class.durability));
            if due != min_in_sync {
                let next = partition.next_after(epoch)?;
                changed.push((partition_id, Configuration { min_in_sync: due, ..next }));
            }
        }
        self.set_leaving(id, false);
        for (partition_id, next) in changed {
            self.install(partition_id, next);
        }
        Ok(Outcome::Done)
    }

    fn set_leaving(&mut self, id: NodeId, is_leaving: bool) {
        let version = self.next_version();
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.is_leaving, node.changed_at) = (is_leaving, version);
        }
    }

    pub(super) fn forget(&mut self, member: Member) -> Applied {
        let node = self.current(member)?.id;
        if !self.nodes[&node].is_leaving {
            return Err(Rejection::NotLeaving { node });
        }
        if let Some((partition, _)) = self.partitions().find(|(_, held)| held.involves(node)) {
            return Err(Rejection::StillHolds { node, partition });
        }
        self.nodes.remove(&node);
        let version = self.next_version();
        self.history.record(version, Gone::Node(node));
        Ok(Outcome::Done)
    }

    pub(super) fn mark(&mut self, member: Member, is_up: bool) -> Applied {
        if self.current(member)?.is_up != is_up {
            let version = self.next_version();
            if let Some(node) = self.nodes.get_mut(&member.node) {
                (node.is_up, node.changed_at) = (is_up, version);
            }
        }
        Ok(Outcome::Done)
    }

    /// Of concern to whoever chooses primaries alone, so the version stays.
    pub(super) fn settle(&mut self, member: Member) -> Applied {
        self.current(member)?;
        if let Some(node) = self.nodes.get_mut(&member.node) {
            node.is_settled = true;
        }
        Ok(Outcome::Done)
    }
}

/// What becomes of a partition when one of its nodes is reborn as `member`, whose log of it is complete or not.
fn reborn(
    partition: &Partition,
    member: Member,
    is_complete: bool,
) -> Result<Configuration, Rejection> {
    let mut next = partition.next_after(partition.configuration.epoch)?;
    // Memory does not outlive the process, whatever is said.
    let stays = is_complete && partition.class.durability != Durability::Memory;
    next.learners.retain(|learner| learner.node != member.node);
    // It has promised nothing in this life: another member, or itself when it has settled, will be primary.
    next.primary = next.primary.filter(|primary| primary.node != member.node);
    if stays {
        for other in next.members.iter_mut().filter(|other| other.node == member.node) {
            *other = member;
        }
    } else {
        next.members.retain(|other| other.node != member.node);
    }
    if next.members.is_empty() {
        lose(&mut next);
    }
    Ok(next)
}
