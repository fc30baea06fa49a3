//! Nodes that come and come back, with what they have, and those that must not.

use weft_protocol::{Durability, PartitionId, TableOptions};
use weft_transport::{Incarnation, NodeId};

use super::{CLUSTER, WIRE_VERSION, apply, cluster, first_join, found, member, next_join};
use crate::coordinator::{
    Applied, ClusterId, ClusterState, Command, Found, Join, Outcome, Proposal, ProposalId,
    Rejection, Timing,
};

fn join(state: &mut ClusterState, join: Join) -> Applied {
    apply(state, Command::Join(join))
}

fn joined(incarnation: u64) -> Applied {
    Ok(Outcome::Joined {
        cluster: CLUSTER,
        incarnation: Incarnation(incarnation),
        timing: Timing::default(),
    })
}

fn with(durability: Durability) -> TableOptions {
    TableOptions { durability, ..TableOptions::default() }
}

fn down(state: &mut ClusterState, node: u64, incarnation: u64) {
    apply(state, Command::MarkDown { member: member(node, incarnation) }).unwrap();
}

#[test]
fn a_node_of_another_cluster_is_refused() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let presented = ClusterId(7);
    let stranger = Join { cluster: Some(presented), ..first_join(2, "") };
    let refused = Rejection::OtherCluster { presented, cluster: CLUSTER };
    assert_eq!(join(&mut state, stranger), Err(refused));
}

#[test]
fn an_older_wire_version_is_refused_and_a_newer_one_taken() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let with = |wire_version| Join { wire_version, ..first_join(2, "") };
    let (presented, required) = (WIRE_VERSION - 1, WIRE_VERSION);
    let refused = Rejection::WireVersion { presented, required };
    assert_eq!(join(&mut state, with(presented)), Err(refused));
    assert_eq!(join(&mut state, with(WIRE_VERSION + 1)), joined(2));
}

/// A node of the id that nothing is known of, in this life.
fn stranger(node: u64, incarnation: u64) -> Join {
    Join { incarnation: Incarnation(incarnation), ..first_join(node, "") }
}

#[test]
fn two_nodes_with_one_id_are_refused_while_one_is_up() {
    let mut state = cluster(2, TableOptions::default(), 1);
    let refused = Rejection::NodeIsUp { node: NodeId(2), incarnation: Incarnation(2) };
    assert_eq!(join(&mut state, stranger(2, 9)), Err(refused.clone()));
    let older = Join { last_incarnation: Some(Incarnation(1)), ..stranger(2, 9) };
    assert_eq!(join(&mut state, older), Err(refused.clone()));
    // Nor does it help to have begun a life in vain before.
    let in_vain = Join { last_incarnation: Some(Incarnation(9)), ..stranger(2, 10) };
    assert_eq!(join(&mut state, in_vain), Err(refused));
    // What has the disk of the life that is up is what was up.
    assert_eq!(join(&mut state, next_join(2, 2, &[])), joined(3));
    down(&mut state, 2, 3);
    assert_eq!(join(&mut state, stranger(2, 9)), joined(9));
}

#[test]
fn a_life_that_is_not_later_than_the_one_before_is_refused() {
    let mut state = cluster(2, TableOptions::default(), 1);
    join(&mut state, next_join(2, 8, &[])).unwrap();
    let refused = |presented| {
        let (presented, known) = (Incarnation(presented), Incarnation(9));
        Err(Rejection::IncarnationPast { node: NodeId(2), presented, known })
    };
    assert_eq!(join(&mut state, stranger(2, 8)), refused(8));
    assert_eq!(join(&mut state, next_join(2, 2, &[])), refused(3));
    // The same number, from elsewhere.
    let mut other = stranger(2, 9);
    other.description.data_address = "elsewhere:1".to_owned();
    assert_eq!(join(&mut state, other.clone()), refused(9));
    down(&mut state, 2, 9);
    assert_eq!(join(&mut state, other), refused(9));
}

#[test]
fn what_a_node_says_of_itself_is_checked() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let mut check = |change: fn(&mut Join), refused: Rejection| {
        let mut wrong = first_join(2, "");
        change(&mut wrong);
        assert_eq!(join(&mut state, wrong), Err(refused));
    };
    check(|join| join.node = NodeId(1 << 16), Rejection::NodeIdRange { node: NodeId(1 << 16) });
    check(|join| join.description.data_address.clear(), Rejection::AddressLength);
    check(|join| join.description.control_address = "x".repeat(261), Rejection::AddressLength);
    check(|join| join.description.zone = "x".repeat(65), Rejection::ZoneLength);
}

#[test]
fn a_node_that_comes_back_without_its_data_is_no_member_any_more() {
    for (durability, complete) in [(Durability::Memory, &[0][..]), (Durability::Fsync, &[])] {
        let mut state = cluster(3, with(durability), 1);
        assert_eq!(join(&mut state, next_join(2, 2, complete)), joined(3));
        let configuration = &state.partition(PartitionId(0)).unwrap().configuration;
        assert_eq!(configuration.members, [member(1, 1), member(3, 3)], "{durability}");
        assert_eq!((configuration.epoch, configuration.primary), (2, Some(member(1, 1))));
    }
}

#[test]
fn a_node_that_has_everything_on_disk_keeps_its_place_but_is_no_primary() {
    for durability in [Durability::Disk, Durability::Fsync] {
        let mut state = cluster(3, with(durability), 2);
        assert_eq!(join(&mut state, next_join(1, 1, &[1])), joined(2));
        let kept = &state.partition(PartitionId(1)).unwrap().configuration;
        assert_eq!(kept.members, [member(1, 2), member(2, 2), member(3, 3)]);
        assert_eq!((kept.epoch, kept.primary), (2, None));
        let lost = &state.partition(PartitionId(0)).unwrap().configuration;
        assert_eq!(lost.members, [member(2, 2), member(3, 3)]);
        assert!(!state.node(NodeId(1)).unwrap().is_settled);
    }
}

#[test]
fn what_was_complete_in_a_life_before_the_last_is_not() {
    let mut state = cluster(3, with(Durability::Fsync), 1);
    join(&mut state, next_join(2, 2, &[0])).unwrap();
    down(&mut state, 2, 3);
    // An old copy of the disk.
    let old = Join { incarnation: Incarnation(9), ..next_join(2, 2, &[0]) };
    join(&mut state, old).unwrap();
    let configuration = &state.partition(PartitionId(0)).unwrap().configuration;
    assert_eq!(configuration.members, [member(1, 1), member(3, 3)]);
}

#[test]
fn the_last_member_without_its_data_is_a_lost_partition() {
    let mut state = cluster(1, with(Durability::Fsync), 2);
    join(&mut state, next_join(1, 1, &[0])).unwrap();
    let kept = &state.partition(PartitionId(0)).unwrap().configuration;
    assert_eq!((kept.is_lost, &kept.members[..]), (false, &[member(1, 2)][..]));
    let lost = &state.partition(PartitionId(1)).unwrap().configuration;
    assert_eq!((lost.is_lost, lost.primary, &lost.members[..]), (true, None, &[][..]));
}

#[test]
fn a_node_whose_answer_was_lost_asks_again_and_is_told_the_same() {
    let mut state = cluster(1, with(Durability::Fsync), 1);
    assert_eq!(join(&mut state, next_join(1, 1, &[0])), joined(2));
    let before = state.clone();
    // Whatever came between, and under whichever proposal it asks.
    for id in [ProposalId::NONE, ProposalId(8)] {
        let again = Proposal { id, command: Command::Join(next_join(1, 1, &[0])) };
        assert_eq!(state.clone().apply(&again), joined(2));
        assert_eq!(join(&mut state, next_join(1, 1, &[0])), joined(2));
        assert_eq!(state, before);
    }
}

#[test]
fn a_node_that_ends_before_it_is_answered_loses_nothing() {
    let mut state = cluster(1, with(Durability::Fsync), 1);
    // Its disk is of life 5 when it asks for that, and it asks for each of the next ones again; some of them never arrive.
    for (last, incarnation) in [(1, 5), (5, 6), (8, 9)] {
        let next = Join { incarnation: Incarnation(incarnation), ..next_join(1, last, &[0]) };
        assert_eq!(join(&mut state, next), joined(incarnation));
        let kept = &state.partition(PartitionId(0)).unwrap().configuration;
        assert_eq!(kept.members, [member(1, incarnation)]);
    }
}

#[test]
fn a_node_that_comes_back_is_a_learner_no_more() {
    let mut state = cluster(4, TableOptions::default(), 1);
    let learner = member(4, 4);
    let add = Command::AddLearner { partition: PartitionId(0), expected_epoch: 1, learner };
    apply(&mut state, add).unwrap();
    join(&mut state, next_join(4, 4, &[0])).unwrap();
    let configuration = &state.partition(PartitionId(0)).unwrap().configuration;
    assert_eq!((configuration.epoch, &configuration.learners[..]), (3, &[][..]));
    assert_eq!(configuration.members.len(), 3);
}

#[test]
fn a_node_that_was_forgotten_may_come_again() {
    let mut state = cluster(3, TableOptions { replicas: 2, ..TableOptions::default() }, 1);
    let before = state.version();
    apply(&mut state, Command::Leave { node: NodeId(3) }).unwrap();
    apply(&mut state, Command::Forget { member: member(3, 3) }).unwrap();
    assert_eq!(state.changes_since(before).unwrap().forgotten, [NodeId(3)]);
    assert_eq!(join(&mut state, next_join(3, 3, &[])), joined(4));
    assert!(!state.node(NodeId(3)).unwrap().is_leaving);
    assert_eq!(state.changes_since(before).unwrap().forgotten, []);
}

#[test]
fn nobody_joins_a_node_that_keeps_nothing() {
    let mut state = ClusterState::default();
    let Command::Found(found) = found(TableOptions::default(), 4) else { unreachable!() };
    apply(&mut state, Command::Found(Found { is_kept: false, ..found })).unwrap();
    assert_eq!(join(&mut state, first_join(1, "")), joined(1));
    assert_eq!(join(&mut state, first_join(2, "")), Err(Rejection::NothingKept));
    // Told again, it is the same.
    assert_eq!(join(&mut state, first_join(1, "")), joined(1));
}
