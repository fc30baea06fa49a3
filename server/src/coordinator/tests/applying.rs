//! What commands do to configurations, tables and clients, and what is refused.

use weft_protocol::{
    CatalogError, Configuration, Durability, PartitionId, TableAlteration, TableClass, TableId,
    TableOptions,
};
use weft_transport::NodeId;

use super::{CLUSTER, apply, cluster, first_join, found, member};
use crate::coordinator::{
    Applied, ClientId, ClusterId, ClusterState, Command, Outcome, Proposal, ProposalId, Rejection,
};
use crate::limits::{PARTITIONS_PER_CLASS_MAX, PROPOSALS_MAX};

const P0: PartitionId = PartitionId(0);

fn configuration(state: &ClusterState) -> &Configuration {
    &state.partition(P0).unwrap().configuration
}

fn add(state: &mut ClusterState, expected_epoch: u32, node: u64) -> Applied {
    let learner = member(node, node);
    apply(state, Command::AddLearner { partition: P0, expected_epoch, learner })
}

fn promote(state: &mut ClusterState, expected_epoch: u32, node: u64) -> Applied {
    let learner = member(node, node);
    apply(state, Command::PromoteLearner { partition: P0, expected_epoch, learner })
}

fn remove(state: &mut ClusterState, expected_epoch: u32, node: u64) -> Applied {
    let member = member(node, node);
    apply(state, Command::RemoveMember { partition: P0, expected_epoch, member })
}

fn reconfigure(state: &mut ClusterState, next: Configuration) -> Applied {
    let expected_epoch = configuration(state).epoch;
    apply(state, Command::Reconfigure { partition: P0, expected_epoch, next })
}

fn next(state: &ClusterState) -> Configuration {
    let present = configuration(state).clone();
    Configuration { epoch: present.epoch + 1, ..present }
}

const fn in_epoch(epoch: u32) -> Applied {
    Ok(Outcome::Reconfigured { epoch })
}

#[test]
fn nothing_is_done_before_the_cluster_is_founded_and_it_is_founded_once() {
    let mut state = ClusterState::default();
    assert_eq!(apply(&mut state, Command::OpenClient), Err(Rejection::NotFounded));
    assert_eq!((state.cluster_map(), state.version()), (None, 0));
    for count in [0, PARTITIONS_PER_CLASS_MAX + 1] {
        let refused = Rejection::PartitionCount { count: count.into() };
        assert_eq!(apply(&mut state, found(TableOptions::default(), count)), Err(refused));
    }
    let ordered = TableOptions { ordered: true, ..TableOptions::default() };
    assert!(apply(&mut state, found(ordered, 4)).is_err());
    let command = found(TableOptions::default(), 4);
    assert_eq!(apply(&mut state, command.clone()), Ok(Outcome::Done));
    let founded = state.clone();
    assert_eq!(apply(&mut state, command.clone()), Ok(Outcome::Done));
    assert_eq!(state, founded);
    let Command::Found(mut other) = command else { unreachable!() };
    other.cluster = ClusterId(1);
    let refused = Rejection::AlreadyFounded { cluster: CLUSTER };
    assert_eq!(apply(&mut state, Command::Found(other)), Err(refused));
}

#[test]
fn a_proposal_that_comes_twice_is_done_once_and_answered_alike() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let open = |id| Proposal { id: ProposalId(id), command: Command::OpenClient };
    let first = state.apply(&open(1));
    assert_eq!(first, Ok(Outcome::ClientOpened { client: ClientId(1) }));
    let opened = state.clone();
    assert_eq!(state.apply(&open(1)), first);
    assert_eq!(state, opened);
    // As long as it is remembered.
    for id in 2..=PROPOSALS_MAX as u128 {
        state.apply(&open(id)).unwrap();
    }
    assert_eq!(state.apply(&open(1)), first);
    state.apply(&open(0xffff)).unwrap();
    assert_ne!(state.apply(&open(1)), first);
}

#[test]
fn each_change_of_a_partition_goes_by_the_epoch_that_it_knows() {
    let mut state = cluster(4, TableOptions::default(), 1);
    let refused = Err(Rejection::EpochMismatch { current: 1 });
    for epoch in [0, 2] {
        assert_eq!(add(&mut state, epoch, 4), refused);
        assert_eq!(promote(&mut state, epoch, 4), refused);
        assert_eq!(remove(&mut state, epoch, 3), refused);
        let lost = Command::DeclareLost { partition: P0, expected_epoch: epoch };
        assert_eq!(apply(&mut state, lost), refused);
        let next = Configuration { epoch: epoch + 1, ..next(&state) };
        let command = Command::Reconfigure { partition: P0, expected_epoch: epoch, next };
        assert_eq!(apply(&mut state, command), refused);
    }
    assert_eq!(add(&mut state, 1, 4), in_epoch(2));
    assert_eq!(promote(&mut state, 2, 4), in_epoch(3));
    let unknown = Command::DeclareLost { partition: PartitionId(1), expected_epoch: 1 };
    let refused = Rejection::PartitionUnknown { partition: PartitionId(1) };
    assert_eq!(apply(&mut state, unknown), Err(refused));
}

#[test]
fn who_has_not_caught_up_becomes_no_member() {
    let mut state = cluster(4, TableOptions::default(), 1);
    let not_a_member = Err(Rejection::NotAMember { node: NodeId(4) });
    assert_eq!(promote(&mut state, 1, 4), not_a_member);
    let mut with_four = next(&state);
    with_four.members.push(member(4, 4));
    assert_eq!(reconfigure(&mut state, with_four), not_a_member);
    let mut with_four = next(&state);
    with_four.learners.push(member(4, 4));
    assert_eq!(reconfigure(&mut state, with_four), not_a_member);
    assert_eq!(add(&mut state, 1, 1), Err(Rejection::AlreadyInvolved { node: NodeId(1) }));
    let other_life =
        Command::AddLearner { partition: P0, expected_epoch: 1, learner: member(4, 9) };
    let superseded = Rejection::Superseded { node: NodeId(4), current: member(4, 4).incarnation };
    assert_eq!(apply(&mut state, other_life), Err(superseded));
    assert_eq!(add(&mut state, 1, 9), Err(Rejection::NodeUnknown { node: NodeId(9) }));
    apply(&mut state, Command::MarkDown { member: member(4, 4) }).unwrap();
    assert_eq!(add(&mut state, 1, 4), Err(Rejection::NotAHolder { node: NodeId(4) }));
    apply(&mut state, Command::MarkUp { member: member(4, 4) }).unwrap();
    assert_eq!(add(&mut state, 1, 4), in_epoch(2));
    apply(&mut state, Command::MarkDown { member: member(4, 4) }).unwrap();
    assert_eq!(promote(&mut state, 2, 4), Err(Rejection::NotAHolder { node: NodeId(4) }));
}

#[test]
fn a_reconfiguration_changes_members_primary_and_learners_alone() {
    let mut state = cluster(3, TableOptions::default(), 1);
    let mut check = |change: fn(&mut Configuration), refused: Rejection| {
        let mut next = next(&state);
        change(&mut next);
        assert_eq!(reconfigure(&mut state, next), Err(refused));
    };
    check(|next| next.epoch = 3, Rejection::NotAReconfiguration);
    check(|next| next.min_in_sync = 1, Rejection::NotAReconfiguration);
    check(|next| next.is_lost = true, Rejection::NotAReconfiguration);
    check(|next| next.members.clear(), Rejection::LastMember);
    check(|next| next.primary = None, Rejection::PrimaryNotMember);
    check(|next| next.members.retain(|other| other.node.0 != 1), Rejection::PrimaryNotMember);
    check(|next| next.members.push(member(1, 1)), Rejection::Twice);
    let mut fewer = next(&state);
    fewer.primary = Some(member(2, 2));
    fewer.members.retain(|other| other.node.0 != 1);
    assert_eq!(reconfigure(&mut state, fewer.clone()), in_epoch(2));
    assert_eq!(*configuration(&state), fewer);
}

#[test]
fn a_node_that_is_down_or_has_not_settled_does_not_become_primary() {
    let durability = Durability::Fsync;
    let mut state = cluster(3, TableOptions { durability, ..TableOptions::default() }, 1);
    let to =
        |state: &ClusterState, primary| Configuration { primary: Some(primary), ..next(state) };
    apply(&mut state, Command::MarkDown { member: member(2, 2) }).unwrap();
    let not_ready = Err(Rejection::NotReady { node: NodeId(2) });
    let next = to(&state, member(2, 2));
    assert_eq!(reconfigure(&mut state, next), not_ready);
    apply(&mut state, Command::Join(super::next_join(2, 2, &[0]))).unwrap();
    let next = to(&state, member(2, 3));
    assert_eq!(reconfigure(&mut state, next.clone()), not_ready);
    apply(&mut state, Command::Settle { member: member(2, 3) }).unwrap();
    assert_eq!(reconfigure(&mut state, next), in_epoch(3));
}

#[test]
fn the_last_member_and_the_primary_are_not_removed() {
    let mut state = cluster(2, TableOptions::default(), 1);
    assert_eq!(remove(&mut state, 1, 1), Err(Rejection::IsPrimary { node: NodeId(1) }));
    assert_eq!(remove(&mut state, 1, 2), in_epoch(2));
    assert_eq!(remove(&mut state, 2, 2), Err(Rejection::NotAMember { node: NodeId(2) }));
    assert_eq!(remove(&mut state, 2, 1), Err(Rejection::LastMember));
    assert_eq!(add(&mut state, 2, 2), in_epoch(3));
    assert_eq!(remove(&mut state, 3, 2), in_epoch(4));
    assert_eq!(configuration(&state).learners, []);
}

#[test]
fn a_single_node_takes_writes_alone_until_there_were_two() {
    let mut state = cluster(1, TableOptions::default(), 1);
    assert!(configuration(&state).takes_writes());
    apply(&mut state, Command::Join(first_join(2, ""))).unwrap();
    add(&mut state, 1, 2).unwrap();
    assert!(configuration(&state).takes_writes(), "a learner is none of them");
    promote(&mut state, 2, 2).unwrap();
    assert_eq!(configuration(&state).min_in_sync, 2);
    remove(&mut state, 3, 2).unwrap();
    assert!(!configuration(&state).takes_writes(), "one alone might be the only one that knows");
    // The other goes for good.
    apply(&mut state, Command::Leave { node: NodeId(2) }).unwrap();
    assert!(configuration(&state).takes_writes());
    let epoch = configuration(&state).epoch;
    let last = Err(Rejection::LastNode { node: NodeId(1) });
    assert_eq!(apply(&mut state, Command::Leave { node: NodeId(1) }), last);
    assert_eq!(configuration(&state).epoch, epoch);
}

#[test]
fn the_last_node_with_a_disk_stays_as_long_as_there_are_tables_that_are_to_be_on_one() {
    let mut state = ClusterState::default();
    apply(&mut state, found(TableOptions::default(), 1)).unwrap();
    for node in 1..=3 {
        let Command::Join(mut join) = Command::Join(first_join(node, "")) else { unreachable!() };
        join.description.is_diskless = node == 3;
        apply(&mut state, Command::Join(join)).unwrap();
    }
    let options =
        TableOptions { durability: Durability::Disk, replicas: 1, ..TableOptions::default() };
    apply(&mut state, Command::CreateTable { name: "kept".to_owned(), options }).unwrap();
    let leave = |node| Command::Leave { node: NodeId(node) };
    apply(&mut state, leave(1)).unwrap();
    assert_eq!(apply(&mut state, leave(2)), Err(Rejection::LastNode { node: NodeId(2) }));
    // It holds nothing that has to be on one.
    apply(&mut state, leave(3)).unwrap();
    apply(&mut state, Command::Stay { node: NodeId(3) }).unwrap();
    apply(&mut state, Command::DropTable { name: "kept".to_owned() }).unwrap();
    apply(&mut state, leave(2)).unwrap();
}

#[test]
fn nodes_that_are_down_count_among_those_that_a_new_partition_waits_for() {
    let mut state = ClusterState::default();
    apply(&mut state, found(TableOptions::default(), 1)).unwrap();
    for node in 1..=2 {
        apply(&mut state, Command::Join(first_join(node, ""))).unwrap();
    }
    apply(&mut state, Command::MarkDown { member: member(2, 2) }).unwrap();
    let class = TableOptions::default().class();
    let place = |members| Command::Place { class, partitions: vec![members] };
    let down = Err(Rejection::NotAHolder { node: NodeId(2) });
    assert_eq!(apply(&mut state, place(vec![member(1, 1), member(2, 2)])), down);
    assert_eq!(apply(&mut state, place(vec![])), Err(Rejection::ReplicaCount));
    assert_eq!(apply(&mut state, place(vec![member(1, 1); 2])), Err(Rejection::Twice));
    let two = Command::Place { class, partitions: vec![vec![member(1, 1)]; 2] };
    assert_eq!(apply(&mut state, two), Err(Rejection::PartitionCount { count: 2 }));
    apply(&mut state, place(vec![member(1, 1)])).unwrap();
    assert!(!configuration(&state).takes_writes());
    assert_eq!(apply(&mut state, place(vec![member(1, 1)])), Err(Rejection::ClassPlaced));
}

#[test]
fn who_leaves_and_stays_after_all_is_counted_again() {
    let mut state = cluster(2, TableOptions::default(), 1);
    apply(&mut state, Command::Leave { node: NodeId(2) }).unwrap();
    assert_eq!(configuration(&state).min_in_sync, 1);
    let holds = Err(Rejection::StillHolds { node: NodeId(2), partition: P0 });
    assert_eq!(apply(&mut state, Command::Forget { member: member(2, 2) }), holds);
    apply(&mut state, Command::Stay { node: NodeId(2) }).unwrap();
    assert_eq!(configuration(&state).min_in_sync, 2);
    let staying = Err(Rejection::NotLeaving { node: NodeId(2) });
    assert_eq!(apply(&mut state, Command::Forget { member: member(2, 2) }), staying);
}

#[test]
fn a_partition_is_given_up_while_nobody_is_up_and_begins_anew_in_a_higher_epoch() {
    let mut state = cluster(2, TableOptions::default(), 1);
    let accept =
        |epoch, members| Command::AcceptLoss { partition: P0, expected_epoch: epoch, members };
    let declare = |epoch| Command::DeclareLost { partition: P0, expected_epoch: epoch };
    assert_eq!(apply(&mut state, accept(1, vec![member(1, 1)])), Err(Rejection::NotLost));
    apply(&mut state, Command::MarkDown { member: member(1, 1) }).unwrap();
    let is_up = Err(Rejection::MemberIsUp { node: NodeId(2) });
    assert_eq!(apply(&mut state, declare(1)), is_up);
    apply(&mut state, Command::MarkDown { member: member(2, 2) }).unwrap();
    assert_eq!(apply(&mut state, declare(1)), in_epoch(2));
    assert!(configuration(&state).is_lost && configuration(&state).members.is_empty());
    assert_eq!(apply(&mut state, declare(2)), Err(Rejection::Lost));
    assert_eq!(add(&mut state, 2, 1), Err(Rejection::Lost));
    apply(&mut state, Command::MarkUp { member: member(1, 1) }).unwrap();
    assert_eq!(apply(&mut state, accept(2, vec![member(1, 1)])), in_epoch(3));
    let partition = state.partition(P0).unwrap();
    assert_eq!((partition.born_in, partition.configuration.primary), (3, Some(member(1, 1))));
    assert!(!partition.configuration.is_lost);
}

#[test]
fn epochs_end_and_nothing_is_changed_then() {
    let mut state = cluster(2, TableOptions::default(), 1);
    state.partitions[0].configuration.epoch = Configuration::EPOCH_MAX;
    let exhausted = Err(Rejection::EpochsExhausted);
    assert_eq!(remove(&mut state, Configuration::EPOCH_MAX, 2), exhausted);
    assert_eq!(apply(&mut state, Command::Leave { node: NodeId(2) }), exhausted);
    apply(&mut state, Command::MarkDown { member: member(2, 2) }).unwrap();
    assert_eq!(apply(&mut state, Command::Join(super::next_join(2, 2, &[]))), exhausted);
}

#[test]
fn tables_bring_their_classes_and_the_map_has_all() {
    let mut state = cluster(2, TableOptions::default(), 4);
    let options = TableOptions { replicas: 1, ..TableOptions::default() };
    let create = |name: &str, options| Command::CreateTable { name: name.to_owned(), options };
    let created = apply(&mut state, create("people", options));
    assert_eq!(created, Ok(Outcome::TableCreated { id: TableId(1) }));
    assert_eq!(state.table_options(TableId(1)), Some(options));
    let exists = CatalogError::Exists { name: "people".to_owned() };
    assert_eq!(apply(&mut state, create("people", options)), Err(exists.into()));
    let replicas = CatalogError::Replicas { replicas: 4 };
    let four = TableOptions { replicas: 4, ..options };
    assert_eq!(apply(&mut state, create("four", four)), Err(replicas.into()));
    let class = options.class();
    assert_eq!(state.classes().find(|(other, _)| *other == class), Some((class, None)));
    let partitions = vec![vec![member(2, 2)]; 4];
    apply(&mut state, Command::Place { class, partitions }).unwrap();
    let second = state.partition(PartitionId(4)).unwrap();
    assert_eq!((second.class, second.first_slot.number()), (class, 0));
    assert_eq!(state.partition(PartitionId(7)).unwrap().last_slot.number(), 16_383);
    let change = TableAlteration { quota_bytes: Some(Some(7)), ..TableAlteration::default() };
    let alter = Command::AlterTable { name: "people".to_owned(), change };
    apply(&mut state, alter).unwrap();
    assert_eq!(state.table_options(TableId(1)).unwrap().quota_bytes, Some(7));
    let map = state.cluster_map().unwrap();
    assert_eq!((map.epoch(), map.nodes().len()), (state.version(), 2));
    let primaries = |class: TableClass| {
        let entries = map.partitions_of(class).iter();
        entries.map(|entry| entry.primary).collect::<Vec<_>>()
    };
    assert_eq!(primaries(TableClass::DEFAULT), [Some(NodeId(1)); 4]);
    assert_eq!(primaries(class), [Some(NodeId(2)); 4]);
    apply(&mut state, Command::DropTable { name: "people".to_owned() }).unwrap();
    assert_eq!(state.table_options(TableId(1)), None);
}

#[test]
fn a_lease_that_was_renewed_meanwhile_does_not_expire() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let client = ClientId(1);
    apply(&mut state, Command::OpenClient).unwrap();
    let before = state.version();
    let clients = vec![client, ClientId(5)];
    let renewed = apply(&mut state, Command::RenewClients { clients });
    assert_eq!(renewed, Ok(Outcome::Renewed { expired: vec![ClientId(5)] }));
    let expire = |renewals| Command::ExpireClient { client, renewals };
    assert_eq!(apply(&mut state, expire(0)), Err(Rejection::ClientRenewed { client }));
    assert_eq!(state.version(), before, "no node has to learn that");
    apply(&mut state, expire(1)).unwrap();
    assert_eq!(apply(&mut state, expire(1)), Err(Rejection::ClientUnknown { client }));
    let changes = state.changes_since(before).unwrap();
    assert_eq!((changes.is_whole, changes.expired), (false, vec![client]));
    // No number is given out again.
    let next = Outcome::ClientOpened { client: ClientId(2) };
    assert_eq!(apply(&mut state, Command::OpenClient), Ok(next));
}
