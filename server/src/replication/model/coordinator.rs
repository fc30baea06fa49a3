//! A coordinator of a few lines: configurations that are changed by compare-and-set on their epoch, by a plan that goes by what was
//! last heard of nodes. It commits late what it decided on early.

use weft_protocol::{Configuration, Member};
use weft_transport::{Incarnation, NodeId};

use super::random::Random;

pub(super) struct Coordinator {
    pub(super) configurations: Vec<Configuration>,
    /// All that was ever committed; the first has version 1 of the map.
    pub(super) history: Vec<(usize, Configuration)>,
    heard: Vec<u64>,
    pub(super) lives: Vec<u64>,
    replicas: usize,
    /// After how long a node that is not heard of is taken for dead.
    dead_after: u64,
    /// One plan in so many moves a primary for no reason.
    move_one_in: u64,
}

pub(super) fn member(node: usize, life: u64) -> Member {
    Member { node: NodeId(node as u64), incarnation: Incarnation(life) }
}

pub(super) fn index(member: Member) -> usize {
    member.node.0 as usize
}

impl Coordinator {
    pub(super) fn new(nodes: usize, partitions: usize, random: &mut Random, lease_ns: u64) -> Self {
        let replicas = (if random.one_in(4) { 2 } else { 3 }).min(nodes);
        let min_in_sync = random.range(1, 2) as u8;
        let configurations: Vec<_> = (0..partitions)
            .map(|partition| {
                let members: Vec<_> =
                    (0..replicas).map(|index| member((partition + index) % nodes, 1)).collect();
                Configuration {
                    epoch: 1,
                    primary: Some(members[0]),
                    members,
                    learners: Vec::new(),
                    min_in_sync,
                    is_lost: false,
                }
            })
            .collect();
        Self {
            history: configurations.iter().cloned().enumerate().collect(),
            configurations,
            heard: vec![0; nodes],
            lives: vec![1; nodes],
            replicas,
            dead_after: lease_ns / 2 + random.range(0, lease_ns),
            move_one_in: random.range(20, 100),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.history.len() as u64
    }

    pub(super) fn replicas(&self) -> usize {
        self.replicas
    }

    pub(super) fn heard(&mut self, node: usize, life: u64, now: u64) {
        if self.lives[node] == life {
            self.heard[node] = now;
        }
    }

    /// Commits, if nothing was committed since `epoch`.
    pub(super) fn commit(&mut self, partition: usize, epoch: u32, mut next: Configuration) -> bool {
        if self.configurations[partition].epoch != epoch {
            return false;
        }
        next.epoch = epoch + 1;
        self.configurations[partition] = next.clone();
        self.history.push((partition, next));
        true
    }

    fn lives(&self, member: Member, now: u64) -> bool {
        !self.is_gone(member) && now - self.heard[index(member)] < self.dead_after
    }

    fn is_gone(&self, member: Member) -> bool {
        self.lives[index(member)] != member.incarnation.0
    }

    /// A node is there in another life. Of the partitions of `kept` it has everything on disk, and keeps its place.
    pub(super) fn joined(&mut self, node: usize, life: u64, kept: &[bool], now: u64) -> usize {
        let former = member(node, self.lives[node]);
        self.lives[node] = life;
        self.heard[node] = now;
        let mut places = 0;
        for (partition, _) in kept.iter().enumerate().filter(|(_, is_kept)| **is_kept) {
            let mut next = self.configurations[partition].clone();
            let Some(place) = next.members.iter_mut().find(|member| **member == former) else {
                continue;
            };
            *place = member(node, life);
            if next.primary == Some(former) {
                next.primary = None;
            }
            let epoch = next.epoch;
            self.commit(partition, epoch, next);
            places += 1;
        }
        places
    }

    /// What to commit next, if anything.
    pub(super) fn plan(
        &self,
        partition: usize,
        now: u64,
        random: &mut Random,
    ) -> Option<Configuration> {
        let known = &self.configurations[partition];
        if known.is_lost {
            return None;
        }
        let mut next = known.clone();
        if known.members.iter().all(|member| self.is_gone(*member)) {
            (next.primary, next.is_lost) = (None, true);
            (next.members, next.learners) = (Vec::new(), Vec::new());
            return Some(next);
        }
        let living: Vec<_> =
            known.members.iter().copied().filter(|member| self.lives(*member, now)).collect();
        if living.is_empty() {
            return None;
        }
        next.members.clone_from(&living);
        next.learners.retain(|learner| self.lives(*learner, now));
        if !known.primary.is_some_and(|primary| living.contains(&primary)) {
            next.primary = Some(living[random.index(living.len())]);
        } else if next.members.len() + next.learners.len() < self.replicas {
            let free: Vec<_> = (0..self.lives.len())
                .map(|node| member(node, self.lives[node]))
                .filter(|member| self.lives(*member, now))
                .filter(|member| !next.members.contains(member) && !next.learners.contains(member))
                .collect();
            if !free.is_empty() {
                next.learners.push(free[random.index(free.len())]);
            }
        } else if random.one_in(self.move_one_in) {
            next.primary = Some(living[random.index(living.len())]);
        }
        (next != *known).then_some(next)
    }

    /// What a primary's word that a member does not answer, or that a learner is given up, makes of the configuration of `epoch`.
    pub(super) fn without(
        &self,
        partition: usize,
        epoch: u32,
        gone: Member,
    ) -> Option<Configuration> {
        let mut next = self.configurations[partition].clone();
        let is_there = next.has_member(gone) || next.learners.contains(&gone);
        if next.epoch != epoch || next.is_lost || next.members == [gone] || !is_there {
            return None;
        }
        next.members.retain(|member| *member != gone);
        if next.primary == Some(gone) {
            // It says so of itself.
            next.primary = next.members.first().copied();
        }
        next.learners.retain(|learner| *learner != gone);
        Some(next)
    }

    /// What a primary's word that a learner has everything makes of it.
    pub(super) fn with(
        &self,
        partition: usize,
        epoch: u32,
        learner: Member,
    ) -> Option<Configuration> {
        let mut next = self.configurations[partition].clone();
        if next.epoch != epoch || !next.learners.contains(&learner) || self.is_gone(learner) {
            return None;
        }
        next.learners.retain(|other| *other != learner);
        next.members.push(learner);
        Some(next)
    }
}
