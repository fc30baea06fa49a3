//! What goes wrong, and how it is healed.

use super::Bug;
use super::coordinator::index;
use super::network::{Event, MS};
use super::situations::Situation;
use super::world::{Check, World};

impl World {
    /// Something goes wrong.
    pub(super) fn fault(&mut self) {
        if self.is_healed {
            return;
        }
        let delay = self.random.range(self.fault_every / 4, self.fault_every * 2);
        self.agenda.after(delay, Event::Fault);
        let count = self.nodes.len();
        let node = self.random.index(count);
        // Primaries are the more interesting ones.
        let partition = self.random.index(self.partitions);
        let primary = self.coordinator.configurations[partition].primary.map(index);
        let node = primary.filter(|_| self.random.one_in(2)).unwrap_or(node);
        let other = (node + self.random.range(1, count as u64 - 1) as usize) % count;
        let lease = self.lease.duration.as_nanos() as u64;
        let length = if self.random.one_in(3) {
            self.random.range(MS, lease / 4)
        } else {
            self.random.range(lease / 4, lease * 4)
        };
        match self.random.range(0, 16) {
            0..=2 => self.crash(node, length),
            3 => {
                let all = self.random.one_in(2);
                let members = self.coordinator.configurations[partition].members.clone();
                for member in members {
                    if all || self.random.one_in(2) {
                        let apart = self.random.range(0, 20 * MS);
                        self.crash(index(member), length / 2 + apart);
                    }
                }
            }
            4..=6 => self.pause(node, length),
            7 => self.cut(node, other, true, length),
            8 | 9 => self.cut(node, other, false, length),
            10 => {
                for other in (0..count).filter(|other| *other != node) {
                    self.cut(node, other, true, length);
                }
                if self.random.one_in(2) {
                    self.cut(node, count, true, length);
                }
            }
            11 | 12 => {
                self.situations.note(Situation::CoordinatorUnreachable);
                self.cut(node, count, true, length);
            }
            13 => self.fail(node, partition),
            _ => self.reset(node, other),
        }
    }

    pub(super) fn crash(&mut self, node: usize, down_for: u64) {
        if !self.nodes[node].is_up {
            return;
        }
        self.situations.note(Situation::NodeCrashed);
        let was_unsynced = self.nodes[node]
            .hosts
            .iter()
            .any(|host| host.replica.is_in_sync() && host.synced < host.replica.last().sequence());
        if self.settings.is_synced && was_unsynced {
            self.situations.note(Situation::UnsyncedEntriesLost);
        }
        self.disks[node] = self.nodes[node].crash(self.settings.is_synced);
        for peer in (0..self.nodes.len()).filter(|peer| *peer != node) {
            self.network.reconnect(node, peer);
            let life = self.nodes[peer].life;
            self.agenda.after(MS, Event::Disconnected { node: peer, life, peer: node });
        }
        self.agenda.after(down_for, Event::Restart { node });
    }

    /// A replica's store or disk fails: it is of no use until it is given everything anew.
    fn fail(&mut self, node: usize, partition: usize) {
        let me = &mut self.nodes[node];
        if me.is_up && !me.is_paused && me.hosts[partition].replica.is_in_sync() {
            self.situations.note(Situation::ReplicaFailed);
            me.hosts[partition].replica.fail();
        }
    }

    pub(super) fn restart(&mut self, node: usize) {
        if self.nodes[node].is_up {
            return;
        }
        let coordinator = self.nodes.len();
        if self.network.is_cut(node, coordinator) || self.network.is_cut(coordinator, node) {
            // A life begins with the coordinator's word.
            self.agenda.after(20 * MS, Event::Restart { node });
            return;
        }
        let mut disks = std::mem::take(&mut self.disks[node]);
        let now = self.agenda.now;
        if self.bug == Bug::ReuseIncarnation {
            disks.iter_mut().for_each(|disk| *disk = None);
        } else {
            self.nodes[node].life += 1;
            let life = self.nodes[node].life;
            let kept: Vec<_> = disks
                .iter()
                .map(|disk| disk.as_ref().is_some_and(|disk| disk.is_complete))
                .collect();
            let before: Vec<_> = self.coordinator.configurations.clone();
            if self.coordinator.joined(node, life, &kept, now) > 0 {
                self.situations.note(Situation::RestartedNodeKeptItsPlace);
                for configuration in before {
                    let is_all_dead = !configuration.members.is_empty()
                        && configuration.members.iter().all(|member| {
                            let node = &self.nodes[index(*member)];
                            !node.is_up || node.life != member.incarnation.0
                        });
                    if is_all_dead {
                        self.situations.note(Situation::AllMembersDiedAndKeptTheirPlace);
                    }
                }
            }
        }
        self.nodes[node].start(now, &self.settings, self.lease, disks, self.bug);
        self.tell_map();
        self.tick_soon(node);
        for peer in (0..self.nodes.len()).filter(|peer| *peer != node) {
            let (life, own) = (self.nodes[peer].life, self.nodes[node].life);
            self.agenda.after(2 * MS, Event::Connected { node: peer, life, peer: node });
            self.agenda.after(2 * MS, Event::Connected { node, life: own, peer });
        }
    }

    /// The process stops, and its clock goes on.
    fn pause(&mut self, node: usize, length: u64) {
        let paused = &mut self.nodes[node];
        if !paused.is_up || paused.is_paused {
            return;
        }
        paused.is_paused = true;
        self.situations.note(Situation::NodePaused);
        if u128::from(length) > self.lease.duration.as_nanos() {
            self.situations.note(Situation::NodePausedBeyondLease);
        }
        self.agenda.after(length, Event::Resume { node });
    }

    pub(super) fn resume(&mut self, node: usize) -> Check {
        if !self.nodes[node].is_paused {
            return Ok(());
        }
        self.nodes[node].is_paused = false;
        let mut held = std::mem::take(&mut self.nodes[node].held);
        if self.random.one_in(2) {
            // Threads run in any order: what clients ask may come first.
            held.sort_by_key(|event| !matches!(event, Event::Request { .. }));
        }
        for event in held {
            if self.nodes[node].is_up {
                self.happen_at(node, event)?;
            }
        }
        Ok(())
    }

    fn cut(&mut self, first: usize, second: usize, is_both_ways: bool, length: u64) {
        self.network.cut(first, second, true);
        if is_both_ways {
            self.network.cut(second, first, true);
        }
        self.situations.note(if is_both_ways { Situation::LinkCut } else { Situation::OneWayCut });
        if self.random.one_in(2) {
            self.tell_connection(first, second, false);
        }
        self.agenda.after(length, Event::Heal { first, second });
    }

    pub(super) fn heal(&mut self, first: usize, second: usize) {
        self.network.cut(first, second, false);
        self.network.cut(second, first, false);
        self.network.reconnect(first, second);
        self.tell_connection(first, second, true);
    }

    fn reset(&mut self, first: usize, second: usize) {
        self.situations.note(Situation::ConnectionReset);
        self.network.reconnect(first, second);
        self.tell_connection(first, second, true);
    }

    fn tell_connection(&mut self, first: usize, second: usize, is_there: bool) {
        for (node, peer) in [(first, second), (second, first)] {
            if node == self.nodes.len() || peer == self.nodes.len() {
                continue;
            }
            let life = self.nodes[node].life;
            let event = if is_there {
                Event::Connected { node, life, peer }
            } else {
                Event::Disconnected { node, life, peer }
            };
            let delay = self.random.range(MS / 2, 3 * MS);
            self.agenda.after(delay, event);
        }
    }

    /// Nothing goes wrong any more: everything has to come to rest.
    pub(super) fn heal_all(&mut self) -> Check {
        self.is_healed = true;
        (self.network.loss_permille, self.network.twice_permille) = (0, 0);
        let all = self.nodes.len() + 1;
        for first in 0..all {
            for second in 0..first {
                self.heal(first, second);
            }
        }
        for node in 0..self.nodes.len() {
            self.resume(node)?;
            self.restart(node);
            let is_failed = self.nodes[node].hosts.iter().any(|host| host.replica.is_failed);
            if is_failed {
                // Somebody sees to it, or the only member would stay as it is.
                self.crash(node, 10 * MS);
            }
        }
        self.agenda.after(100 * MS, Event::Converged);
        Ok(())
    }

    pub(super) fn look_whether_converged(&mut self) {
        self.agenda.after(20 * MS, Event::Converged);
        let wanted = self.coordinator.replicas();
        let is_whole = (0..self.partitions).all(|partition| {
            let configuration = &self.coordinator.configurations[partition];
            let (wrote, read) = self.clients.went_well[partition];
            configuration.is_lost
                || (wrote
                    && read
                    && configuration.members.len() == wanted
                    && self.serving_host(partition).is_some())
        });
        if !is_whole {
            return;
        }
        self.clients.is_stopped = true;
        let is_quiet = (0..self.partitions).all(|partition| {
            let configuration = &self.coordinator.configurations[partition];
            let Some((primary, host)) = self.serving_host(partition) else {
                return configuration.is_lost;
            };
            let last = host.replica.last();
            let is_committed = host.replica.committed() == last.sequence();
            let are_same = configuration.members.iter().all(|member| {
                let node = index(*member);
                node == primary
                    || (self.nodes[node].is_up
                        && self.nodes[node].life == member.incarnation.0
                        && self.last_of(node, partition) == last)
            });
            is_committed && are_same && host.replica.epoch() == configuration.epoch
        });
        self.is_over = is_quiet && self.clients.are_idle();
    }
}
