//! Entries and snapshots as bytes: read as they were written, refused when they are something else, and the same in the next version.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weft_protocol::limits::{ADDRESS_MAX, WORKERS_MAX};
use weft_protocol::{
    Configuration, Durability, Eviction, Member, PartitionId, TableAlteration, TableClass,
    TableOptions,
};
use weft_transport::{Incarnation, NodeId};

use super::{apply, cluster, description, first_join, found, member};
use crate::coordinator::codec::{
    CodecError, FORMAT, decode_entry, decode_snapshot, encode_entry, encode_snapshot,
};
use crate::coordinator::{
    ClientId, ClusterId, ClusterState, Command, Found, Join, NodeDescription, Outcome, Proposal,
    ProposalId, Timing, WorkerDescription, WorkerId,
};
use crate::limits::{ENTRY_COMMANDS_MAX, ENTRY_MAX, REPLICAS_HELD_MAX};

pub(super) fn a_member() -> impl Strategy<Value = Member> {
    (any::<u64>(), any::<u64>()).prop_map(|(node, incarnation)| member(node, incarnation))
}

fn some_members() -> impl Strategy<Value = Vec<Member>> {
    vec(any::<u64>(), 0..=REPLICAS_HELD_MAX).prop_map(|incarnations| {
        (1..).zip(incarnations).map(|(node, incarnation)| member(node, incarnation)).collect()
    })
}

fn a_class() -> impl Strategy<Value = TableClass> {
    let durability = prop::sample::select(&Durability::ALL[..]);
    (1..=3_u8, durability).prop_map(|(replicas, durability)| TableClass { replicas, durability })
}

fn some_options() -> impl Strategy<Value = TableOptions> {
    let eviction = prop::sample::select(&Eviction::ALL[..]);
    let parts = (any::<bool>(), option::of(any::<u64>()), eviction, a_class());
    parts.prop_map(|(ordered, quota_bytes, eviction, TableClass { replicas, durability })| {
        TableOptions { ordered, quota_bytes, eviction, replicas, durability }
    })
}

fn an_alteration() -> impl Strategy<Value = TableAlteration> {
    let eviction = option::of(prop::sample::select(&Eviction::ALL[..]));
    let quota = option::of(option::of(1..=u64::MAX));
    (quota, eviction).prop_map(|(quota_bytes, eviction)| TableAlteration { quota_bytes, eviction })
}

fn a_configuration() -> impl Strategy<Value = Configuration> {
    let parts = (1..=Configuration::EPOCH_MAX, some_members(), some_members(), any::<bool>());
    (parts, 1..=3_u8).prop_map(|((epoch, members, learners, is_lost), min_in_sync)| {
        let primary = members.last().copied();
        Configuration { epoch, primary, members, learners, min_in_sync, is_lost }
    })
}

fn a_join() -> impl Strategy<Value = Join> {
    let names = (".{0,20}", ".{0,20}", ".{0,20}");
    let description = (names, any::<u64>(), any::<[bool; 2]>()).prop_map(
        |(names, capacity_bytes, [is_coordinator, is_diskless])| {
            let (data_address, control_address, zone) = names;
            NodeDescription {
                data_address,
                control_address,
                zone,
                capacity_bytes,
                is_coordinator,
                is_diskless,
            }
        },
    );
    let ids = (option::of(any::<u128>()), any::<u64>(), any::<u64>(), option::of(any::<u64>()));
    let rest = (vec(any::<u16>(), 0..20), any::<u16>(), description);
    (ids, rest).prop_map(
        |((cluster, node, incarnation, last), (complete, wire_version, description))| Join {
            cluster: cluster.map(ClusterId),
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
            last_incarnation: last.map(Incarnation),
            complete: complete.into_iter().map(PartitionId).collect(),
            wire_version,
            description,
        },
    )
}

/// One of many, by a number.
pub(super) fn a_timing(number: u64) -> Timing {
    let heartbeat = Duration::from_millis(10 + number % 1_000);
    Timing::new(heartbeat, 4 * heartbeat + Duration::from_millis(number % 777)).unwrap()
}

fn a_command() -> impl Strategy<Value = Command> {
    let partition = || (any::<u16>().prop_map(PartitionId), any::<u32>());
    let node = || any::<u64>().prop_map(NodeId);
    let client = || any::<u64>().prop_map(ClientId);
    let founding = (any::<u128>(), some_options(), any::<u16>(), any::<u16>());
    let founding = founding.prop_map(|(cluster, default_table, partitions_per_class, wire)| {
        let cluster = ClusterId(cluster);
        let wire_version = wire;
        let timing = a_timing(u64::from(wire));
        let is_kept = wire % 2 == 0;
        Command::Found(Found {
            cluster,
            default_table,
            partitions_per_class,
            wire_version,
            timing,
            is_kept,
        })
    });
    let nodes = prop_oneof![
        founding,
        a_join().prop_map(Command::Join),
        node().prop_map(|node| Command::Leave { node }),
        node().prop_map(|node| Command::Stay { node }),
        a_member().prop_map(|member| Command::Forget { member }),
        a_member().prop_map(|member| Command::MarkDown { member }),
        a_member().prop_map(|member| Command::MarkUp { member }),
        a_member().prop_map(|member| Command::Settle { member }),
    ];
    let partitions = prop_oneof![
        (a_class(), vec(some_members(), 0..20))
            .prop_map(|(class, partitions)| Command::Place { class, partitions }),
        (partition(), a_configuration()).prop_map(|((partition, expected_epoch), next)| {
            Command::Reconfigure { partition, expected_epoch, next }
        }),
        (partition(), a_member()).prop_map(|((partition, expected_epoch), learner)| {
            Command::AddLearner { partition, expected_epoch, learner }
        }),
        (partition(), a_member()).prop_map(|((partition, expected_epoch), learner)| {
            Command::PromoteLearner { partition, expected_epoch, learner }
        }),
        (partition(), a_member()).prop_map(|((partition, expected_epoch), member)| {
            Command::RemoveMember { partition, expected_epoch, member }
        }),
        partition().prop_map(|(partition, expected_epoch)| {
            Command::DeclareLost { partition, expected_epoch }
        }),
        (partition(), some_members()).prop_map(|((partition, expected_epoch), members)| {
            Command::AcceptLoss { partition, expected_epoch, members }
        }),
    ];
    let others = prop_oneof![
        (".{0,20}", some_options())
            .prop_map(|(name, options)| Command::CreateTable { name, options }),
        ".{0,20}".prop_map(|name| Command::DropTable { name }),
        (".{0,20}", an_alteration())
            .prop_map(|(name, change)| Command::AlterTable { name, change }),
        Just(Command::OpenClient),
        vec(client(), 0..20).prop_map(|clients| Command::RenewClients { clients }),
        (client(), any::<u64>())
            .prop_map(|(client, renewals)| Command::ExpireClient { client, renewals }),
    ];
    let worker = || any::<u64>().prop_map(WorkerId);
    let described = (".{1,20}", any::<u32>(), ".{0,16}", any::<u32>()).prop_map(
        |(address, slots, build, process)| WorkerDescription { address, slots, build, process },
    );
    let workers = prop_oneof![
        (option::of(worker()), described)
            .prop_map(|(former, description)| Command::RegisterWorker { former, description }),
        worker().prop_map(|worker| Command::RenewWorker { worker }),
        worker().prop_map(|worker| Command::UnregisterWorker { worker }),
        (worker(), any::<u64>())
            .prop_map(|(worker, renewal)| Command::ExpireWorker { worker, renewal }),
    ];
    prop_oneof![nodes, partitions, others, workers]
}

pub(super) fn a_proposal() -> impl Strategy<Value = Proposal> {
    (any::<u128>(), a_command()).prop_map(|(id, command)| Proposal { id: ProposalId(id), command })
}

proptest! {
    #[test]
    fn entries_are_read_as_they_were_written(proposals in vec(a_proposal(), 0..8)) {
        let bytes = encode_entry(&proposals).unwrap();
        prop_assert_eq!(decode_entry(&bytes), Ok(proposals));
    }

    #[test]
    fn whatever_bytes_there_are_is_read_or_refused(
        proposals in vec(a_proposal(), 1..4),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encode_entry(&proposals).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(read) = decode_entry(&bytes) {
            let again = encode_entry(&read).unwrap();
            prop_assert_eq!(decode_entry(&again), Ok(read));
        }
    }

    #[test]
    fn a_snapshot_that_was_changed_is_refused_or_a_state_that_can_be(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encode_snapshot(&with_workers(a_state())).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(state) = decode_snapshot(&bytes) {
            let again = encode_snapshot(&state).unwrap();
            prop_assert_eq!(decode_snapshot(&again), Ok(state.clone()));
            drop(state.cluster_map());
            prop_assert!(state.changes_since(0).unwrap().is_whole);
        }
    }
}

/// One that has something of everything.
pub(super) fn a_state() -> ClusterState {
    let durability = Durability::Fsync;
    let mut state =
        cluster(3, TableOptions { replicas: 2, durability, ..TableOptions::default() }, 2);
    let options = TableOptions { ordered: true, quota_bytes: Some(9), ..TableOptions::default() };
    let commands = [
        Command::CreateTable { name: "yarns".to_owned(), options },
        Command::AddLearner { partition: PartitionId(1), expected_epoch: 1, learner: member(3, 3) },
        Command::OpenClient,
        Command::OpenClient,
        Command::RenewClients { clients: vec![ClientId(2)] },
        Command::ExpireClient { client: ClientId(1), renewals: 0 },
        Command::MarkDown { member: member(2, 2) },
        Command::Join(super::next_join(2, 2, &[0])),
        Command::Join(first_join(4, "attic")),
        Command::Leave { node: NodeId(4) },
        Command::Forget { member: member(4, 4) },
        Command::Leave { node: NodeId(3) },
    ];
    for (id, command) in (1..).zip(commands) {
        state.apply(&Proposal { id: ProposalId(id), command }).unwrap();
    }
    state
}

/// The same with workers.
fn with_workers(mut state: ClusterState) -> ClusterState {
    for address in ["loom:1", "loom:2", "loom:3"] {
        let description = super::workers::description(address);
        apply(&mut state, Command::RegisterWorker { former: None, description }).unwrap();
    }
    apply(&mut state, Command::RenewWorker { worker: WorkerId(1) }).unwrap();
    apply(&mut state, Command::UnregisterWorker { worker: WorkerId(3) }).unwrap();
    state
}

#[test]
fn a_snapshot_is_the_whole_state() {
    let state = with_workers(a_state());
    let bytes = encode_snapshot(&state).unwrap();
    let mut read = decode_snapshot(&bytes).unwrap();
    assert_eq!(read, state);
    // What was proposed before is known after.
    let again = Proposal { id: ProposalId(3), command: Command::OpenClient };
    let mut state = state;
    assert_eq!(read.apply(&again), state.apply(&again));
    assert_eq!(read, state);
    let empty = ClusterState::default();
    assert_eq!(decode_snapshot(&encode_snapshot(&empty).unwrap()), Ok(empty));
}

/// A change of these bytes is a change of what is on the disks of clusters that run: fields may be added, under new numbers, and a cluster of the version before
/// must be able to leave them out.
#[test]
fn the_bytes_are_those_of_format_1() {
    let learner = member(3, 300);
    let (partition, expected_epoch) = (PartitionId(5), 7);
    let next = Configuration {
        epoch: 8,
        primary: Some(member(1, 2)),
        members: vec![member(1, 2), member(2, 1)],
        learners: vec![learner],
        min_in_sync: 2,
        is_lost: false,
    };
    let name = "yarns".to_owned();
    let eviction = Some(Eviction::SoonestExpiry);
    let change = TableAlteration { quota_bytes: Some(None), eviction };
    let class = TableClass { replicas: 2, durability: Durability::Disk };
    let partitions = vec![vec![member(1, 2), member(2, 1)], vec![member(2, 1)]];
    let join = Join { description: description(3, "attic"), ..super::next_join(3, 2, &[1, 5]) };
    let commands = [
        found(TableOptions { quota_bytes: Some(9), ..TableOptions::default() }, 64),
        Command::Join(join),
        Command::Leave { node: NodeId(3) },
        Command::Stay { node: NodeId(3) },
        Command::Forget { member: learner },
        Command::MarkDown { member: learner },
        Command::MarkUp { member: learner },
        Command::Settle { member: learner },
        Command::Place { class, partitions },
        Command::Reconfigure { partition, expected_epoch, next },
        Command::AddLearner { partition, expected_epoch, learner },
        Command::PromoteLearner { partition, expected_epoch, learner },
        Command::RemoveMember { partition, expected_epoch, member: learner },
        Command::DeclareLost { partition, expected_epoch },
        Command::AcceptLoss { partition, expected_epoch, members: vec![learner] },
        Command::CreateTable { name: name.clone(), options: TableOptions::default() },
        Command::DropTable { name: name.clone() },
        Command::AlterTable { name, change },
        Command::OpenClient,
        Command::RenewClients { clients: vec![ClientId(1), ClientId(300)] },
        Command::ExpireClient { client: ClientId(300), renewals: 4 },
    ];
    let proposals: Vec<Proposal> =
        (0..).zip(commands).map(|(id, command)| Proposal { id: ProposalId(id), command }).collect();
    let bytes = encode_entry(&proposals).unwrap();
    assert_eq!(hex(&bytes), include_str!("encoding/entry.hex").replace('\n', ""));
    let bytes = encode_snapshot(&a_state()).unwrap();
    assert_eq!(hex(&bytes), include_str!("encoding/snapshot.hex").replace('\n', ""));
}

/// What a coordinator would leave out that knows the first format alone is nothing that it takes.
#[test]
fn nodes_without_disks_are_told_of_in_format_2() {
    let first = |bytes: Vec<u8>| [bytes[0], bytes[1]];
    for is_diskless in [false, true] {
        let join = super::next_join(9, 2, &[]);
        let description = NodeDescription { is_diskless, ..join.description };
        let command =
            Command::Join(Join { last_incarnation: None, cluster: None, description, ..join });
        let proposal = Proposal { id: ProposalId(77), command };
        let mut state = a_state();
        state.apply(&proposal).unwrap();
        let format = if is_diskless { 2 } else { 1 };
        assert_eq!(first(encode_snapshot(&state).unwrap()), [0x08, format]);
        assert_eq!(decode_snapshot(&encode_snapshot(&state).unwrap()), Ok(state));
        let entry = encode_entry(std::slice::from_ref(&proposal)).unwrap();
        assert_eq!(decode_entry(&entry), Ok(vec![proposal]));
        assert_eq!(first(entry), [0x08, format]);
    }
}

/// Nor does it take what tells of workers, or that there were some: it would give out their numbers again.
#[test]
fn workers_are_told_of_in_format_3() {
    let told_in = |bytes: &[u8]| (bytes[0] == 0x08).then_some(u32::from(bytes[1]));
    let mut state = with_workers(a_state());
    assert_eq!(told_in(&encode_snapshot(&state).unwrap()), Some(FORMAT));
    for worker in [1, 2].map(WorkerId) {
        apply(&mut state, Command::UnregisterWorker { worker }).unwrap();
    }
    let bytes = encode_snapshot(&state).unwrap();
    assert_eq!(told_in(&bytes), Some(FORMAT));
    let mut read = decode_snapshot(&bytes).unwrap();
    let description = super::workers::description("loom:4");
    let register = Command::RegisterWorker { former: None, description };
    let expected = Outcome::WorkerRegistered { worker: WorkerId(4) };
    assert_eq!(apply(&mut read, register.clone()), Ok(expected));
    let worker = WorkerId(4);
    let commands = [
        register,
        Command::RenewWorker { worker },
        Command::UnregisterWorker { worker },
        Command::ExpireWorker { worker, renewal: 300 },
    ];
    for command in commands {
        let (open, last) = (Command::OpenClient, command);
        let proposals = [open, last].map(|command| Proposal { id: ProposalId::NONE, command });
        assert_eq!(told_in(&encode_entry(&proposals).unwrap()), Some(FORMAT));
    }
}

/// What no worker can be is refused before it is a part of any state.
#[test]
fn workers_that_cannot_be_are_refused() {
    let description = |address: &str| super::workers::description(address);
    let entry = |address: &str| {
        let command = Command::RegisterWorker { former: None, description: description(address) };
        encode_entry(&[Proposal { id: ProposalId::NONE, command }]).unwrap()
    };
    assert!(decode_entry(&entry("loom:1")).is_ok());
    let refused = |field| CodecError::Field { field };
    assert_eq!(decode_entry(&entry("")), Err(refused("worker")));
    assert_eq!(decode_entry(&entry(&"a".repeat(ADDRESS_MAX + 1))), Err(refused("worker")));
    let changed = |change: fn(&mut ClusterState)| {
        let mut state = with_workers(a_state());
        change(&mut state);
        decode_snapshot(&encode_snapshot(&state).unwrap())
    };
    assert!(changed(|_| ()).is_ok());
    let never_given_out = changed(|state| state.last_worker = 1);
    assert_eq!(never_given_out, Err(refused("workers")));
    let never_renewed = changed(|state| state.last_renewal = 3);
    assert_eq!(never_renewed, Err(refused("workers")));
    let too_many = changed(|state| {
        let worker = state.workers[&WorkerId(1)].clone();
        state.last_worker = WORKERS_MAX as u64 + 1;
        state.workers.extend((1..=state.last_worker).map(|id| (WorkerId(id), worker.clone())));
    });
    assert_eq!(too_many, Err(CodecError::ListTooLong { field: "workers" }));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_this_version_does_not_know_is_refused_as_a_whole() {
    let format = CodecError::UnknownFormat { format: 4 };
    assert_eq!(decode_entry(&[0x08, 4]), Err(format.clone()));
    assert_eq!(decode_snapshot(&[0x08, 4]), Err(format));
    assert_eq!(decode_entry(&[]), Err(CodecError::UnknownFormat { format: 0 }));
    // A proposal of command 100: field 100 of length 0.
    let unknown = [0x08, 1, 0x12, 3, 0xa2, 0x06, 0];
    assert_eq!(decode_entry(&unknown), Err(CodecError::UnknownCommand));
    // A field that a later version has added beside a command is left out.
    let added = [0x08, 1, 0x12, 6, 0x92, 0x02, 0, 0xa0, 0x06, 1];
    let open = Proposal { id: ProposalId::NONE, command: Command::OpenClient };
    assert_eq!(decode_entry(&added), Ok(vec![open]));
}

#[test]
fn what_is_too_long_is_refused_before_it_is_read() {
    let (len, limit) = (ENTRY_MAX + 1, ENTRY_MAX);
    assert_eq!(decode_entry(&vec![0; len]), Err(CodecError::TooLong { len, limit }));
    let open = Proposal { id: ProposalId::NONE, command: Command::OpenClient };
    let many = vec![open; ENTRY_COMMANDS_MAX + 1];
    let refused = CodecError::ListTooLong { field: "proposals" };
    assert_eq!(encode_entry(&many), Err(refused));
    let name = "x".repeat(ENTRY_MAX);
    let long = Proposal { id: ProposalId::NONE, command: Command::DropTable { name } };
    assert!(matches!(encode_entry(&[long]), Err(CodecError::TooLong { .. })));
    let mut state = a_state();
    assert!(apply(&mut state, Command::DropTable { name: "x".repeat(1_000) }).is_err());
}
