//! Whether a cluster is as it should be.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_protocol::control::health::{Condition, Health};
use weft_protocol::control::v1::{ListTablesResponse, StatusResponse};
use weft_protocol::{ClusterMap, Durability, PartitionEntry, PartitionId, TableId};
use weft_transport::NodeId;

use super::Role;
use super::host::Host;
use super::nodes::Cluster;
use crate::world::MemberId;

impl Cluster {
    /// How often partitions of `default` have changed hands since they were placed: others, which come and go with tables, begin with any epoch.
    pub(super) fn epochs_changed(&self) -> u64 {
        let map = newest_map(&self.hosts.borrow());
        let changes = |map: Arc<ClusterMap>| {
            let of_default = |entry: &&PartitionEntry| entry.class == map.default_class();
            let entries = map.partitions().iter().filter(of_default);
            entries.map(|entry| u64::from(entry.epoch.saturating_sub(1))).sum()
        };
        map.map_or(0, changes)
    }

    /// How many partitions are lost.
    pub(super) fn partitions_lost(&self) -> u64 {
        let map = newest_map(&self.hosts.borrow());
        map.map_or(0, |map| map.partitions().iter().filter(|entry| entry.is_lost).count() as u64)
    }

    /// How many learners were given up by nodes in their last lives.
    pub(super) fn given_up(&self) -> u64 {
        let hosts = self.hosts.borrow();
        let handlers = hosts.values().filter_map(|host| host.handler.as_ref());
        handlers.map(|handler| handler.learners_given_up()).sum()
    }

    /// How many lives have begun with partitions that their logs had whole.
    pub(super) fn recovered(&self) -> u64 {
        self.hosts.borrow().values().map(|host| host.recovered).sum()
    }
}

/// The newest map that any node knows.
pub(super) fn newest_map(hosts: &BTreeMap<MemberId, Host>) -> Option<Arc<ClusterMap>> {
    let maps = hosts.values().filter_map(|host| host.handler.as_ref()?.map());
    maps.max_by_key(|map| map.epoch())
}

/// What keeps the cluster from being as it should be.
pub(super) fn unsettled(hosts: &BTreeMap<MemberId, Host>) -> Option<String> {
    let storage: Vec<&Host> = hosts.values().filter(|host| host.role == Role::Storage).collect();
    let ended = hosts.values().find_map(|host| Some((host.node, host.ended.borrow().clone()?)));
    if let Some((node, ended)) = ended {
        return Some(format!("{node} coordinates no more: {ended:?}"));
    }
    if let Some(host) = hosts.values().find(|host| !host.has_joined.get()) {
        return Some(format!("{} has not joined", host.node));
    }
    let Some(map) = newest_map(hosts).filter(|map| !map.partitions().is_empty()) else {
        return Some("there are no partitions".to_owned());
    };
    for entry in map.partitions() {
        let PartitionEntry { id, class, members, primary, .. } = entry;
        let can_hold = |host: &&&Host| class.durability == Durability::Memory || host.has_disk;
        let wanted = usize::from(class.replicas).min(storage.iter().filter(can_hold).count());
        if !entry.is_lost && (members.len() != wanted || primary.is_none()) {
            return Some(format!("{id} has members {members:?} and primary {primary:?}"));
        }
    }
    let digests: BTreeMap<NodeId, BTreeMap<PartitionId, (u128, bool)>> = storage
        .iter()
        .filter_map(|host| {
            let digests = host.handler.as_ref()?.digests();
            let digests = digests.into_iter().map(|(id, digest, sync)| (id, (digest, sync)));
            Some((host.node, digests.collect()))
        })
        .collect();
    for host in &storage {
        let is_its = |id: PartitionId| {
            let entry = map.partitions().iter().find(|entry| entry.id == id);
            entry.is_some_and(|entry| entry.is_lost || entry.members.contains(&host.node))
        };
        for (id, objects, tables) in host.handler.iter().flat_map(|handler| handler.holdings()) {
            if !is_its(id) && (objects > 0 || !tables.is_empty()) {
                return Some(format!("{} has {objects} objects, {tables:?} of {id}", host.node));
            }
        }
    }
    for entry in map.partitions().iter().filter(|entry| !entry.is_lost) {
        let held: Vec<_> = entry
            .members
            .iter()
            .map(|member| digests.get(member).and_then(|held| held.get(&entry.id)).copied())
            .collect();
        let are_equal = held.iter().all(|one| *one == held[0] && one.is_some_and(|(_, sync)| sync));
        if !are_equal {
            return Some(format!("{} on {:?}: {held:x?}", entry.id, entry.members));
        }
    }
    None
}

/// What is wrong with a cluster that is as it should be by what its nodes have, by what its coordinators say of it; and what nodes have of tables that
/// there are no more. That a partition is lost is said elsewhere.
pub(super) fn ill(
    hosts: &BTreeMap<MemberId, Host>,
    status: &StatusResponse,
    tables: &ListTablesResponse,
) -> Option<String> {
    let health = Health::of(status);
    for partition in &status.partitions {
        let (number, condition) = (partition.partition, health.condition(partition));
        match condition {
            Condition::Unused if partition.is_lost => {
                return Some(format!("partition {number} is lost, and has nothing that is missed"));
            }
            Condition::Unused | Condition::Whole | Condition::Lost => {}
            Condition::Short | Condition::NoWrites | Condition::Unserved => {
                return Some(format!("partition {number} is said to be {condition}"));
            }
        }
    }
    let (down, missing) = (health.down_nodes(), health.missing_coordinators());
    if !down.is_empty() || !missing.is_empty() {
        return Some(format!("nodes {down:?} are said to be down, {missing:?} to be missing"));
    }
    let is_there = |id: &TableId| tables.tables.iter().any(|table| table.table == u32::from(id.0));
    hosts.values().find_map(|host| {
        let held = host.handler.as_ref()?.holdings().into_iter();
        let mut held =
            held.flat_map(|(partition, _, ids)| ids.into_iter().map(move |id| (partition, id)));
        let (partition, id) = held.find(|(_, id)| !is_there(id))?;
        Some(format!("{} has {id:?} still in {partition}, which was dropped", host.node))
    })
}
