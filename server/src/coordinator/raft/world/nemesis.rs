//! Who breaks things.

use std::time::Duration;

use super::random::Random;
use super::{CLUSTER, Event, World, nanos, node_id};
use crate::coordinator::raft::planted::PlantedBug;
use crate::coordinator::raft::{Batch, Fault, Identity, MemberRole, MemoryLog};

#[derive(Default)]
pub(super) struct Nemesis {
    is_over: bool,
    watches_votes: bool,
}

impl Nemesis {
    pub(super) fn is_watching(&self) -> bool {
        self.watches_votes
    }

    /// Whether to strike between a write and the word of it: the longer the write, the likelier.
    pub(super) fn strikes_at_write(&self, random: &mut Random, is_snapshot: bool) -> bool {
        !self.is_over && random.chance(if is_snapshot { 0.02 } else { 0.002 })
    }
}

impl World {
    /// One thing is broken, or mended.
    pub(super) fn do_damage(&mut self) {
        if self.nemesis.is_over {
            return;
        }
        let pause = self.random.between(100, 900);
        self.after(Duration::from_millis(pause), Event::Break);
        let node = self.random.index(self.nodes.len());
        let other = self.random.index(self.nodes.len());
        match self.random.below(20) {
            0 | 1 => self.crash(node, false),
            2 | 3 => self.crash(node, true),
            4 => self.crash_all(),
            5 => self.split(),
            6 => self.cut(node, other, true),
            7 => self.cut(node, other, false),
            8 => self.isolate_leader(),
            9 | 10 => {
                self.network.join();
                self.nemesis.watches_votes = false;
            }
            11 => self.pause(node),
            12 => self.fail_disk(node),
            13 => self.stall_disk(node),
            14 => self.lose_disk(node),
            15 => self.transfer(node),
            16 => self.change_members(node),
            17 => self.stand(node),
            _ => self.nemesis.watches_votes = true,
        }
    }

    fn crash(&mut self, node: usize, loses_power: bool) {
        if self.nodes[node].raft.is_none() {
            return;
        }
        self.count(if loses_power { "power lost" } else { "killed" });
        if loses_power {
            self.power_off(node)
        } else {
            self.kill(node)
        }
        let rest = self.random.between(5, 2500);
        self.after(Duration::from_millis(rest), Event::Boot { node });
    }

    pub(super) fn crash_at_write(&mut self, node: usize) {
        self.count("crashed at a write");
        let loses_power = self.random.chance(0.5);
        self.crash(node, loses_power);
    }

    fn crash_all(&mut self) {
        self.count("power lost everywhere");
        for node in 0..self.nodes.len() {
            self.crash(node, true);
        }
    }

    fn split(&mut self) {
        self.count("split");
        let sides: Vec<bool> = self.nodes.iter().map(|_| self.random.chance(0.5)).collect();
        for (from, side) in sides.iter().enumerate() {
            for (to, other) in sides.iter().enumerate() {
                self.network.set_cut(from, to, side != other);
            }
        }
    }

    fn cut(&mut self, from: usize, to: usize, both: bool) {
        self.count(if both { "cut a pair" } else { "cut one way" });
        self.network.set_cut(from, to, true);
        if both {
            self.network.set_cut(to, from, true);
        }
    }

    fn isolate_leader(&mut self) {
        let Some(leader) = (0..self.nodes.len()).find(|node| self.leads(*node)) else { return };
        self.count("leader isolated");
        let one_way = self.random.chance(0.3);
        for node in 0..self.nodes.len() {
            self.network.set_cut(node, leader, true);
            self.network.set_cut(leader, node, !one_way);
        }
    }

    fn pause(&mut self, node: usize) {
        self.count("paused");
        let rest = self.random.between(100, 3000);
        self.nodes[node].paused_until = self.now + nanos(Duration::from_millis(rest));
        self.after(Duration::from_millis(rest), Event::Resume { node });
    }

    pub(super) fn resume(&mut self, node: usize) {
        let boot = self.nodes[node].boot;
        self.with(node, boot, |_| ());
    }

    fn fail_disk(&mut self, node: usize) {
        let fault = if self.random.chance(0.5) { Fault::Full } else { Fault::Sync };
        self.nodes[node].disk.fail_next(fault);
    }

    fn stall_disk(&mut self, node: usize) {
        self.count("disk stalled");
        let rest = self.random.between(100, 4000);
        self.nodes[node].stalled_until = self.now + nanos(Duration::from_millis(rest));
    }

    /// A disk is lost for good. Not another one before the first node is a voter again: a majority of disks is what Raft needs.
    fn lose_disk(&mut self, node: usize) {
        if !self.has_disks_to_spare() {
            return;
        }
        self.count("disk lost");
        let former = self.nodes[node].identity;
        self.wipe(node);
        if let Some(former) = former.filter(|_| self.plan.bug == Some(PlantedBug::ReusedRaftId)) {
            let identity = Identity { cluster: CLUSTER, node: node_id(node), raft: former.raft };
            self.nodes[node].disk.create(&Batch::joining(identity)).unwrap();
            self.nodes[node].has_log = true;
            self.after(Duration::from_millis(20), Event::Boot { node });
        }
    }

    fn has_disks_to_spare(&self) -> bool {
        let leaders = self.nodes.iter().filter_map(|node| node.raft.as_ref());
        let leaders =
            leaders.filter(|raft| raft.leadership().is_own && !raft.is_changing_members());
        let Some(leader) = leaders.max_by_key(|raft| raft.leadership().term) else { return false };
        let voters = leader.members();
        let is_whole = voters.len() == self.nodes.len()
            && voters.iter().all(|member| member.role == MemberRole::Voter);
        self.nodes.len() >= 3 && is_whole && self.nodes.iter().all(|node| node.raft.is_some())
    }

    pub(super) fn wipe(&mut self, node: usize) {
        self.stop(node);
        let state = &mut self.nodes[node];
        state.disk = MemoryLog::new(&format!("disk {node}"));
        (state.has_log, state.identity) = (false, None);
    }

    fn transfer(&mut self, node: usize) {
        let Some(leader) = (0..self.nodes.len()).find(|node| self.leads(*node)) else { return };
        let Some(identity) = self.nodes[node].identity else { return };
        let boot = self.nodes[leader].boot;
        let mut is_begun = false;
        self.with(leader, boot, |raft| is_begun = raft.transfer(identity.raft).is_ok());
        if is_begun {
            self.count("transfers");
        }
    }

    fn change_members(&mut self, node: usize) {
        if !self.has_disks_to_spare() || self.plan.bug == Some(PlantedBug::ReusedRaftId) {
            return;
        }
        if let Some(leader) = (0..self.nodes.len()).find(|node| self.leads(*node)) {
            self.remove_member(leader, node);
        }
    }

    fn stand(&mut self, node: usize) {
        self.count("stood for election");
        let boot = self.nodes[node].boot;
        self.with(node, boot, |raft| {
            let _ = raft.campaign();
        });
    }

    /// Who has just voted loses its power, sometimes with all others but the candidate, who hears of the vote and is heard no more: nobody but
    /// disks remembers the term.
    pub(super) fn strike_voter(&mut self, voter: usize, candidate: usize) {
        self.count("power lost at a vote");
        self.nemesis.watches_votes = false;
        let all = self.random.chance(0.6);
        for node in (0..self.nodes.len()).filter(|node| *node != candidate) {
            self.network.set_cut(candidate, node, true);
            self.network.set_cut(node, candidate, node != voter);
            if node == voter || (all && self.nodes[node].raft.is_some()) {
                let rest = self.random.between(5, 60);
                self.power_off(node);
                self.after(Duration::from_millis(rest), Event::Boot { node });
            }
        }
    }

    /// From now on nothing is broken, and what is down comes back.
    pub(super) fn mend(&mut self) {
        (self.nemesis.is_over, self.nemesis.watches_votes) = (true, false);
        self.network.mend();
        self.clients.be_calm();
        for node in 0..self.nodes.len() {
            let state = &mut self.nodes[node];
            (state.paused_until, state.stalled_until) = (0, 0);
            self.after(Duration::from_millis(10), Event::Boot { node });
        }
    }
}
