//! How the cluster is, as the control API says it.

use std::collections::BTreeMap;

use weft_protocol::control::v1;
use weft_protocol::{Durability, Eviction, Member, PartitionId, TableEntry, TableOptions};
use weft_transport::Time;

use super::Coordinator;
use super::members::odd;
use crate::coordinator::node::{Node, Standing};
use crate::coordinator::partition::Partition;
use crate::coordinator::raft::{MemberRole, RaftMember};
use crate::coordinator::state::ClusterState;
use crate::coordinator::worker::{Worker, WorkerDescription, WorkerId};
use crate::limits::COORDINATORS_MAX;

impl Coordinator {
    /// How the cluster is.
    #[expect(clippy::big_endian_bytes, reason = "people read the id in the order of its digits")]
    pub(super) fn status(&self, now: Time) -> v1::StatusResponse {
        let state = self.state();
        let own = self.member();
        let coordinator = |member: &RaftMember| v1::Coordinator {
            node: member.node.0,
            is_leader: member.raft == own,
            is_voter: member.role == MemberRole::Voter,
            behind: self.raft.behind(member.raft).unwrap_or(0),
            is_missed: member.role == MemberRole::Voter && !self.raft.is_ready(now, member.raft),
        };
        let mut loads = BTreeMap::new();
        for (_, partition) in state.partitions() {
            let configuration = &partition.configuration;
            for member in &configuration.members {
                let (replicas, primaries) = loads.entry(member.node).or_insert((0, 0));
                *replicas += 1;
                *primaries += u32::from(configuration.primary == Some(*member));
            }
        }
        let node = |node: &Node| {
            let (replicas, primaries) = loads.get(&node.id).copied().unwrap_or_default();
            let silence = self.liveness.silence_of(node.member(), now);
            let heard_ms_ago = silence.map(|silence| silence.as_millis() as u64);
            v1::Node { heard_ms_ago, primaries, replicas, ..node_message(node) }
        };
        v1::StatusResponse {
            cluster_id: self.cluster.0.to_be_bytes().to_vec(),
            map_version: state.version(),
            coordinators: self.raft.members().iter().map(coordinator).collect(),
            wanted_voters: wanted_voters(state) as u32,
            unplaced_kinds: unplaced_kinds(state) as u32,
            nodes: state.nodes().map(node).collect(),
            partitions: state
                .partitions()
                .map(|(id, partition)| v1::Partition {
                    is_starting: self.is_starting(id, partition),
                    is_unused: !state.is_used(partition.class),
                    ..partition_message(u32::from(id.0), partition)
                })
                .collect(),
        }
    }

    /// Whether a partition has a primary that has not said yet that it serves it.
    fn is_starting(&self, id: PartitionId, partition: &Partition) -> bool {
        let serves = |primary| self.liveness.serves(primary, id, partition.primary_since);
        partition.configuration.primary.is_some_and(|primary| !serves(primary))
    }

    /// Which tables there are: that which is always there first.
    pub(super) fn tables(&self) -> v1::ListTablesResponse {
        let catalog = self.state().catalog();
        let table = |table: &TableEntry| v1::Table {
            table: u32::from(table.id.0),
            name: table.name.clone(),
            options: Some(options_message(table.options)),
        };
        v1::ListTablesResponse {
            catalog_version: catalog.version(),
            tables: catalog.tables().iter().map(table).collect(),
        }
    }

    /// Which workers are registered, in the order in which they registered.
    pub(super) fn workers(&self) -> v1::ListWorkersResponse {
        let message = |(worker, known): (WorkerId, &Worker)| {
            let WorkerDescription { address, slots, build, process } = known.description.clone();
            v1::Worker { worker: worker.0, address, slots, build, process }
        };
        v1::ListWorkersResponse { workers: self.state().workers().map(message).collect() }
    }
}

/// With how many votes the coordinators are complete.
fn wanted_voters(state: &ClusterState) -> usize {
    let may = state.nodes().filter(|node| node.description.is_coordinator && !node.is_leaving);
    odd(may.count().min(COORDINATORS_MAX))
}

/// How many classes have tables, and no partitions.
fn unplaced_kinds(state: &ClusterState) -> usize {
    state.classes().filter(|(class, run)| run.is_none() && state.is_used(*class)).count()
}

fn node_message(node: &Node) -> v1::Node {
    let description = &node.description;
    v1::Node {
        member: Some(member_message(node.member())),
        standing: match node.standing() {
            Standing::Up => v1::Standing::Up,
            Standing::Down => v1::Standing::Down,
            Standing::Leaving => v1::Standing::Leaving,
            Standing::LeavingDown => v1::Standing::LeavingDown,
        }
        .into(),
        data_address: description.data_address.clone(),
        control_address: description.control_address.clone(),
        zone: description.zone.clone(),
        capacity_bytes: description.capacity_bytes,
        is_diskless: description.is_diskless,
        ..v1::Node::default()
    }
}

fn partition_message(number: u32, partition: &Partition) -> v1::Partition {
    let configuration = &partition.configuration;
    let members = |members: &[Member]| members.iter().copied().map(member_message).collect();
    v1::Partition {
        partition: number,
        first_slot: u32::from(partition.first_slot.number()),
        last_slot: u32::from(partition.last_slot.number()),
        replicas: u32::from(partition.class.replicas),
        durability: durability(partition.class.durability).into(),
        epoch: configuration.epoch,
        primary: configuration.primary.map(member_message),
        members: members(&configuration.members),
        learners: members(&configuration.learners),
        min_in_sync: u32::from(configuration.min_in_sync),
        is_lost: configuration.is_lost,
        is_starting: false,
        is_unused: false,
    }
}

fn options_message(options: TableOptions) -> v1::TableOptions {
    let TableOptions { ordered, quota_bytes, eviction, replicas, durability: kept } = options;
    v1::TableOptions {
        ordered,
        quota_bytes,
        eviction: match eviction {
            Eviction::None => v1::Eviction::None,
            Eviction::LeastRecentlyUsed => v1::Eviction::LeastRecentlyUsed,
            Eviction::SoonestExpiry => v1::Eviction::SoonestExpiry,
        }
        .into(),
        replicas: u32::from(replicas),
        durability: durability(kept).into(),
    }
}

fn member_message(member: Member) -> v1::Member {
    v1::Member { node: member.node.0, incarnation: member.incarnation.0 }
}

const fn durability(durability: Durability) -> v1::Durability {
    match durability {
        Durability::Memory => v1::Durability::Memory,
        Durability::Disk => v1::Durability::Disk,
        Durability::Fsync => v1::Durability::Fsync,
    }
}
