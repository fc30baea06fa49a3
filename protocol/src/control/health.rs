//! What is to be said of a cluster's status: which partitions are served, and how well the whole is.

use std::collections::BTreeMap;
use std::fmt;

use super::v1::{Coordinator, Durability, Member, Node, Partition, Standing, StatusResponse};

/// How a partition is, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// No table is in it, and nobody misses it.
    Unused,
    /// It has its primary and all replicas.
    Whole,
    /// It is served, and has fewer replicas than it should.
    Short,
    /// It is read, and takes no writes: too few replicas are there.
    NoWrites,
    /// Nobody serves it now.
    Unserved,
    /// All that had it have lost it.
    Lost,
}

/// How well a cluster is, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All is there that should be.
    Healthy,
    /// All is served, and something is missing.
    Degraded,
    /// Something is not served, or takes no writes.
    NotServing,
}

/// What is to be said of a status.
#[derive(Debug)]
pub struct Health<'s> {
    status: &'s StatusResponse,
    nodes: BTreeMap<u64, &'s Node>,
    /// How many nodes there are to hold partitions, down or up: of any kind, and those that can hold what is kept on disk.
    holders: usize,
    disk_holders: usize,
}

impl<'s> Health<'s> {
    /// Of this status.
    pub fn of(status: &'s StatusResponse) -> Self {
        let numbered = |node: &'s Node| Some((node.member?.node, node));
        let is_holder = |node: &&Node| node.capacity_bytes > 0 && !node.standing().is_leaving();
        let holders = status.nodes.iter().filter(is_holder);
        let disk_holders = holders.clone().filter(|node| !node.is_diskless).count();
        let nodes = status.nodes.iter().filter_map(numbered).collect();
        Self { status, nodes, holders: holders.count(), disk_holders }
    }

    /// A partition has its replicas if it has as many as its tables ask for, or as there are nodes. One that is down counts for nothing.
    pub fn condition(&self, partition: &Partition) -> Condition {
        if partition.is_unused {
            return Condition::Unused;
        }
        if partition.is_lost {
            return Condition::Lost;
        }
        if partition.is_starting || !partition.primary.is_some_and(|primary| self.is_up(primary)) {
            return Condition::Unserved;
        }
        let up = partition.members.iter().filter(|member| self.is_up(**member)).count();
        if up < partition.min_in_sync as usize {
            return Condition::NoWrites;
        }
        let holders = match partition.durability() {
            Durability::Disk | Durability::Fsync => self.disk_holders,
            Durability::Memory | Durability::Unspecified => self.holders,
        };
        let wanted = (partition.replicas as usize).min(holders);
        if up < wanted { Condition::Short } else { Condition::Whole }
    }

    /// How many partitions are in which condition.
    pub fn conditions(&self) -> BTreeMap<Condition, usize> {
        let mut counts = BTreeMap::new();
        for partition in &self.status.partitions {
            *counts.entry(self.condition(partition)).or_default() += 1;
        }
        counts
    }

    /// The nodes in a standing, by id.
    pub fn nodes_in(&self, standing: Standing) -> Vec<u64> {
        let nodes = self.nodes.iter().filter(|(_, node)| node.standing() == standing);
        nodes.map(|(id, _)| *id).collect()
    }

    /// The nodes that are down, whether they are to leave or not, by id.
    pub fn down_nodes(&self) -> Vec<u64> {
        let nodes = self.nodes.iter().filter(|(_, node)| node.standing().is_down());
        nodes.map(|(id, _)| *id).collect()
    }

    /// The coordinators that are down, or no nodes of the cluster; and those whose vote cannot be counted on though their node is up: where a
    /// directory was put back from an old copy, for one.
    pub fn missing_coordinators(&self) -> Vec<u64> {
        let is_up =
            |node| self.nodes.get(&node).is_some_and(|node: &&Node| !node.standing().is_down());
        let is_there =
            |coordinator: &&Coordinator| is_up(coordinator.node) && !coordinator.is_missed;
        let missing = self.status.coordinators.iter().filter(|one| !is_there(one));
        missing.map(|coordinator| coordinator.node).collect()
    }

    /// How many coordinators vote, if they are fewer than there should be: the cluster decides nothing any more when most of these are gone.
    pub fn lacking_voters(&self) -> Option<usize> {
        let voters = self.status.coordinators.iter().filter(|coordinator| coordinator.is_voter);
        Some(voters.count()).filter(|voters| *voters < self.status.wanted_voters as usize)
    }

    /// Whether there are tables for which no node can hold partitions, or none did yet.
    pub fn has_unplaced(&self) -> bool {
        self.status.unplaced_kinds > 0
    }

    /// How well the whole is: as well as its worst partition, and its coordinators.
    pub fn verdict(&self) -> Verdict {
        // What has no partitions serves nothing.
        let worst = self.conditions().keys().last().copied().unwrap_or(Condition::Unserved);
        let coordinators_are_whole =
            self.missing_coordinators().is_empty() && self.lacking_voters().is_none();
        match worst {
            _ if self.has_unplaced() => Verdict::NotServing,
            Condition::Unused | Condition::Whole if coordinators_are_whole => Verdict::Healthy,
            Condition::Unused | Condition::Whole | Condition::Short => Verdict::Degraded,
            Condition::NoWrites | Condition::Unserved | Condition::Lost => Verdict::NotServing,
        }
    }

    /// Whether the node is there, in this life of it.
    fn is_up(&self, member: Member) -> bool {
        let node = self.nodes.get(&member.node);
        node.is_some_and(|node| node.member == Some(member) && !node.standing().is_down())
    }
}

impl Standing {
    /// Whether nothing is heard of the node.
    pub const fn is_down(self) -> bool {
        matches!(self, Self::Down | Self::LeavingDown)
    }

    /// Whether it is to leave.
    pub const fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving | Self::LeavingDown)
    }
}

impl Condition {
    /// All of them, from good to bad.
    pub const ALL: [Self; 6] =
        [Self::Unused, Self::Whole, Self::Short, Self::NoWrites, Self::Unserved, Self::Lost];

    /// What scripts know it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Whole => "whole",
            Self::Short => "short",
            Self::NoWrites => "no-writes",
            Self::Unserved => "unserved",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unused => "unused",
            Self::Whole => "whole",
            Self::Short => "short of replicas",
            Self::NoWrites => "without writes",
            Self::Unserved => "not served",
            Self::Lost => "lost",
        })
    }
}

impl Verdict {
    /// What scripts know it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::NotServing => "not-serving",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::NotServing => "not serving",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u64) -> Member {
        Member { node, incarnation: 10 + node }
    }

    /// Three nodes, a partition that all of them hold, and one coordinator on each.
    fn three() -> StatusResponse {
        let node = |id| Node {
            member: Some(member(id)),
            standing: Standing::Up.into(),
            capacity_bytes: 1,
            ..Node::default()
        };
        let partition = Partition {
            replicas: 3,
            primary: Some(member(1)),
            members: [1, 2, 3].map(member).to_vec(),
            min_in_sync: 2,
            ..Partition::default()
        };
        let coordinator = |node| Coordinator { node, is_voter: true, ..Coordinator::default() };
        StatusResponse {
            nodes: [1, 2, 3].map(node).to_vec(),
            coordinators: [1, 2, 3].map(coordinator).to_vec(),
            partitions: vec![partition],
            ..StatusResponse::default()
        }
    }

    #[track_caller]
    fn check(change: impl Fn(&mut StatusResponse), condition: Condition, verdict: Verdict) {
        let mut status = three();
        change(&mut status);
        let health = Health::of(&status);
        let told = status.partitions.first().map(|partition| health.condition(partition));
        assert_eq!((told.unwrap_or(condition), health.verdict()), (condition, verdict));
    }

    #[test]
    fn a_cluster_is_as_well_as_its_worst_partition() {
        use Condition::{Lost, NoWrites, Short, Unserved, Whole};
        use Verdict::{Degraded, Healthy, NotServing};
        let down = |status: &mut StatusResponse, node: usize| {
            status.nodes[node - 1].set_standing(Standing::Down);
        };
        check(|_| {}, Whole, Healthy);
        check(|status| down(status, 3), Short, Degraded);
        check(|status| status.partitions[0].members.truncate(2), Short, Degraded);
        check(
            |status| {
                down(status, 3);
                down(status, 2);
            },
            NoWrites,
            NotServing,
        );
        check(|status| down(status, 1), Unserved, NotServing);
        check(|status| status.partitions[0].primary = None, Unserved, NotServing);
        check(|status| status.partitions[0].is_starting = true, Unserved, NotServing);
        check(|status| status.partitions[0].is_lost = true, Lost, NotServing);
        // Nobody misses what no table is in, whatever it is.
        let drop_table = |status: &mut StatusResponse| {
            (status.partitions[0].is_lost, status.partitions[0].is_unused) = (true, true);
        };
        check(drop_table, Condition::Unused, Healthy);
        // The primary is in another life.
        check(|status| status.nodes[0].member = None, Unserved, NotServing);
        check(|status| status.partitions.clear(), Whole, NotServing);
    }

    #[test]
    fn nobody_misses_replicas_for_which_there_are_no_nodes() {
        let leave = |status: &mut StatusResponse| {
            status.nodes[2].set_standing(Standing::Leaving);
            status.partitions[0].members.truncate(2);
        };
        check(leave, Condition::Whole, Verdict::Healthy);
        // One that is down serves nothing, whether it is to leave or not.
        let gone = |status: &mut StatusResponse| {
            let primary = status.partitions[0].primary.map(|primary| primary.node);
            let of = |node: &&mut Node| node.member.map(|member| member.node) == primary;
            let node = status.nodes.iter_mut().find(of).unwrap();
            node.set_standing(Standing::LeavingDown);
        };
        check(gone, Condition::Unserved, Verdict::NotServing);
        let alone = |status: &mut StatusResponse| {
            status.nodes.truncate(1);
            status.coordinators.truncate(1);
            status.partitions[0].members.truncate(1);
            status.partitions[0].min_in_sync = 1;
        };
        check(alone, Condition::Whole, Verdict::Healthy);
        let on_disk = |status: &mut StatusResponse, diskless: usize| {
            status.nodes[..diskless].iter_mut().for_each(|node| node.is_diskless = true);
            let partition = &mut status.partitions[0];
            partition.set_durability(Durability::Fsync);
            partition.members.remove(0);
            partition.primary = partition.members.first().copied();
        };
        check(|status| on_disk(status, 1), Condition::Whole, Verdict::Healthy);
        check(|status| on_disk(status, 0), Condition::Short, Verdict::Degraded);
    }

    #[test]
    fn a_coordinator_that_is_down_is_missed() {
        let of_its_own = |status: &mut StatusResponse| {
            status.coordinators[2].node = 4;
            let idle = Node { member: Some(member(4)), ..status.nodes[0].clone() };
            status.nodes.push(Node { capacity_bytes: 0, ..idle });
            status.nodes[3].set_standing(Standing::Down);
        };
        check(of_its_own, Condition::Whole, Verdict::Degraded);
        let mut status = three();
        of_its_own(&mut status);
        assert_eq!(Health::of(&status).missing_coordinators(), [4]);
        // Its node is up.
        let unheard = |status: &mut StatusResponse| status.coordinators[1].is_missed = true;
        check(unheard, Condition::Whole, Verdict::Degraded);
    }

    #[test]
    fn tables_without_partitions_are_not_served() {
        check(|status| status.unplaced_kinds = 1, Condition::Whole, Verdict::NotServing);
    }

    #[test]
    fn fewer_votes_than_there_should_be_are_told() {
        let wanted = |wanted, learners: usize| {
            move |status: &mut StatusResponse| {
                status.wanted_voters = wanted;
                let learning = status.coordinators.iter_mut().take(learners);
                learning.for_each(|coordinator| coordinator.is_voter = false);
            }
        };
        check(wanted(3, 0), Condition::Whole, Verdict::Healthy);
        check(wanted(3, 2), Condition::Whole, Verdict::Degraded);
        check(wanted(5, 0), Condition::Whole, Verdict::Degraded);
        // Of a cluster of two one votes, and none is asked for by a node that does not say how many.
        check(wanted(1, 2), Condition::Whole, Verdict::Healthy);
        check(wanted(0, 2), Condition::Whole, Verdict::Healthy);
        let mut status = three();
        wanted(3, 2)(&mut status);
        assert_eq!(Health::of(&status).lacking_voters(), Some(1));
    }
}
