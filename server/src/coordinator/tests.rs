//! The state and the planner together, by what they do.

mod applying;
mod conversation;
mod disks;
mod encoding;
mod joining;
mod planning;
pub(super) mod random;
mod random_runs;
mod scale;
mod workers;
mod world;

use weft_protocol::{Member, PartitionId, TableOptions};
use weft_transport::{Incarnation, NodeId};

use super::{
    Applied, ClusterId, ClusterState, Command, Found, Join, NodeDescription, Outcome, Proposal,
    ProposalId, Timing,
};

const CLUSTER: ClusterId = ClusterId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
const WIRE_VERSION: u16 = 3;

fn member(node: u64, incarnation: u64) -> Member {
    Member { node: NodeId(node), incarnation: Incarnation(incarnation) }
}

fn description(node: u64, zone: &str) -> NodeDescription {
    NodeDescription {
        data_address: format!("node{node}:7400"),
        control_address: format!("node{node}:7401"),
        zone: zone.to_owned(),
        capacity_bytes: 1 << 30,
        is_coordinator: node <= 3,
        is_diskless: false,
    }
}

/// A node that joins for the first time, in the life of its number.
fn first_join(node: u64, zone: &str) -> Join {
    Join {
        cluster: None,
        node: NodeId(node),
        incarnation: Incarnation(node),
        last_incarnation: None,
        complete: Vec::new(),
        wire_version: WIRE_VERSION,
        description: description(node, zone),
    }
}

/// A node that comes back, in the life after its last, and says that it has all of these partitions.
fn next_join(node: u64, last: u64, complete: &[u16]) -> Join {
    Join {
        cluster: Some(CLUSTER),
        incarnation: Incarnation(last + 1),
        last_incarnation: Some(Incarnation(last)),
        complete: complete.iter().copied().map(PartitionId).collect(),
        ..first_join(node, "")
    }
}

fn found(default_table: TableOptions, partitions_per_class: u16) -> Command {
    let wire_version = WIRE_VERSION;
    let timing = Timing::default();
    Command::Found(Found {
        cluster: CLUSTER,
        default_table,
        partitions_per_class,
        wire_version,
        timing,
        is_kept: true,
    })
}

fn apply(state: &mut ClusterState, command: Command) -> Applied {
    let before = state.clone();
    let applied = state.apply(&Proposal { id: ProposalId::NONE, command });
    if applied.is_err() {
        assert_eq!(*state, before, "what is refused changes nothing");
    }
    applied
}

/// A cluster of `nodes` nodes in incarnations 1, 2, … with one class of so many partitions, all of which have the members 1 to `replicas` and
/// node 1 as primary.
fn cluster(nodes: u64, options: TableOptions, partitions: u16) -> ClusterState {
    let mut state = ClusterState::default();
    apply(&mut state, found(options, partitions)).unwrap();
    for node in 1..=nodes {
        apply(&mut state, Command::Join(first_join(node, ""))).unwrap();
    }
    let members: Vec<_> =
        (1..=nodes.min(options.replicas.into())).map(|node| member(node, node)).collect();
    let class = options.class();
    let partitions = vec![members; usize::from(partitions)];
    assert_eq!(apply(&mut state, Command::Place { class, partitions }), Ok(Outcome::Done));
    state
}
