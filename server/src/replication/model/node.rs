//! A node of the model: replicas with their toy stores, leases, a clock of its own.

use std::sync::Arc;

use weft_protocol::{Member, PartitionId, Version};
use weft_transport::Time;

use super::super::{LeaseSettings, Leases, PlantedBug, Replica, Settings};
use super::Bug;
use super::coordinator::member;
use super::network::Event;
use super::store::Store;

pub(super) struct Node {
    pub(super) index: usize,
    pub(super) life: u64,
    pub(super) is_up: bool,
    pub(super) is_paused: bool,
    /// What happened while it was paused.
    pub(super) held: Vec<Event>,
    pub(super) clock: LocalClock,
    pub(super) leases: Arc<Leases>,
    pub(super) hosts: Vec<Host>,
    pub(super) map_version: u64,
    pub(super) tick_every: u64,
}

/// A clock that goes a little wrong from a beginning of its own.
#[derive(Clone, Copy)]
pub(super) struct LocalClock {
    pub(super) offset: u64,
    pub(super) ppm: i64,
}

impl LocalClock {
    pub(super) fn at(self, now: u64) -> Time {
        let skew = (now as i64) / 1_000_000 * self.ppm;
        Time::from_nanos((self.offset + now).saturating_add_signed(skew))
    }
}

/// A partition on a node, with what the node keeps beside the replica.
pub(super) struct Host {
    pub(super) replica: Replica,
    pub(super) store: Store,
    pub(super) writes: Vec<Waiting>,
    pub(super) reads: Vec<Waiting>,
    pub(super) walks: Vec<Walk>,
    pub(super) is_syncing: bool,
    pub(super) synced: u64,
    /// The epoch in which it last began to serve.
    pub(super) served_since: u32,
    pub(super) was_learner: bool,
}

/// A client's operation that waits until a sequence is committed.
pub(super) struct Waiting {
    pub(super) sequence: u64,
    pub(super) client: usize,
    pub(super) operation: u64,
    pub(super) version: Version,
    pub(super) value: Option<u64>,
}

pub(super) struct Walk {
    pub(super) learner: Member,
    pub(super) session: u32,
    pub(super) next: Option<u8>,
}

/// What outlives a crash: the store up to what was synced, and whether it is all that a member has.
pub(super) struct Disk {
    pub(super) store: Store,
    pub(super) is_complete: bool,
}

impl Node {
    pub(super) fn member(&self) -> Member {
        member(self.index, self.life)
    }

    /// The node begins, for the first time or anew with what is on disk.
    pub(super) fn start(
        &mut self,
        now: u64,
        settings: &Settings,
        lease: LeaseSettings,
        disks: Vec<Option<Disk>>,
        bug: Bug,
    ) {
        let local = self.clock.at(now);
        let planted: Option<PlantedBug> = bug.planted();
        let leases = Leases::new(lease, local, self.life > 1).with_planted(planted);
        self.leases = Arc::new(leases);
        (self.is_up, self.is_paused, self.map_version) = (true, false, 0);
        self.held.clear();
        let me = self.member();
        self.hosts = disks
            .into_iter()
            .enumerate()
            .map(|(number, disk)| {
                let partition = PartitionId(number as u16);
                let (settings, leases) = (settings.clone(), Arc::clone(&self.leases));
                let (replica, store) = match disk {
                    Some(disk) => {
                        let entries = disk.store.log.iter().map(|(version, bytes)| {
                            weft_protocol::replication::Entry { version: *version, bytes }
                        });
                        let base = disk.store.base;
                        let replica =
                            Replica::recovered(partition, me, settings, leases, base, entries, 0);
                        (replica, disk.store)
                    }
                    None => (Replica::new(partition, me, settings, leases), Store::default()),
                };
                let synced = replica.last().sequence();
                Host {
                    replica,
                    store,
                    writes: Vec::new(),
                    reads: Vec::new(),
                    walks: Vec::new(),
                    is_syncing: false,
                    synced,
                    served_since: 0,
                    was_learner: false,
                }
            })
            .collect();
    }

    /// What a crash leaves.
    pub(super) fn crash(&mut self, is_synced: bool) -> Vec<Option<Disk>> {
        (self.is_up, self.is_paused) = (false, false);
        self.held.clear();
        let hosts = std::mem::take(&mut self.hosts);
        hosts
            .into_iter()
            .map(|host| {
                let is_complete = host.replica.is_in_sync();
                let store = host.store.recovered(host.synced);
                (is_synced && is_complete).then_some(Disk { store, is_complete })
            })
            .collect()
    }
}
