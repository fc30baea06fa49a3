//! Questions, answers and notices as bytes: read as they were written, and refused when they are something else.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weft_protocol::PartitionId;
use weft_protocol::control::v1;
use weft_protocol::limits::{ADDRESS_MAX, WORKERS_MAX};
use weft_transport::{Incarnation, NodeId};

use super::CLUSTER;
use super::encoding::{a_member, a_proposal, a_state, a_timing};
use crate::coordinator::codec::{
    CodecError, decode_answer, decode_ask, decode_notice, encode_answer, encode_ask, encode_notice,
};
use crate::coordinator::raft::RaftId;
use crate::coordinator::{
    Answer, Ask, ClientId, ClusterId, Denial, DenialKind, Heartbeat, Introduction, Leader, Notice,
    Outcome, ProposalId, Update, WorkerId,
};
use crate::handler::{Report, Told};
use crate::limits::{ANSWER_MAX, ENTRY_MAX, REPORTS_MAX};

fn an_ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        Just(Ask::Introduce),
        a_proposal().prop_map(Ask::Propose),
        (any::<u128>(), any::<u64>())
            .prop_map(|(id, node)| Ask::Admit { id: ProposalId(id), node: NodeId(node) }),
        Just(Ask::Status),
        Just(Ask::Tables),
        Just(Ask::Workers),
    ]
}

fn a_leader() -> impl Strategy<Value = Option<Leader>> {
    let leader = (any::<u64>(), ".{0,20}");
    option::of(leader.prop_map(|(node, data_address)| Leader { node: NodeId(node), data_address }))
}

fn an_outcome() -> impl Strategy<Value = Outcome> {
    let joined = (any::<u128>(), any::<u64>()).prop_map(|(cluster, incarnation)| {
        let (cluster, incarnation) = (ClusterId(cluster), Incarnation(incarnation));
        Outcome::Joined { cluster, incarnation, timing: a_timing(incarnation.0) }
    });
    let expired = vec(any::<u64>().prop_map(ClientId), 0..8);
    prop_oneof![
        Just(Outcome::Done),
        joined,
        any::<u32>().prop_map(|epoch| Outcome::Reconfigured { epoch }),
        any::<u64>().prop_map(|worker| Outcome::WorkerRegistered { worker: WorkerId(worker) }),
        expired.prop_map(|expired| Outcome::Renewed { expired }),
    ]
}

fn a_denial() -> impl Strategy<Value = Denial> {
    let kinds = [
        DenialKind::NotYet,
        DenialKind::NotFound,
        DenialKind::AlreadyExists,
        DenialKind::Precondition,
        DenialKind::Invalid,
        DenialKind::Conflict,
        DenialKind::Exhausted,
    ];
    (prop::sample::select(kinds.to_vec()), ".{0,40}")
        .prop_map(|(kind, message)| Denial { kind, message })
}

fn a_status() -> v1::StatusResponse {
    v1::StatusResponse {
        cluster_id: vec![7; 16],
        map_version: 300,
        coordinators: vec![v1::Coordinator {
            node: 1,
            is_leader: true,
            is_voter: true,
            ..v1::Coordinator::default()
        }],
        nodes: vec![v1::Node { heard_ms_ago: Some(0), ..v1::Node::default() }],
        partitions: vec![v1::Partition { partition: 9, ..v1::Partition::default() }],
        wanted_voters: 1,
        unplaced_kinds: 0,
    }
}

fn some_workers() -> impl Strategy<Value = v1::ListWorkersResponse> {
    vec((".{1,20}", any::<u32>()), 0..4).prop_map(|described| {
        let worker = |(worker, (address, slots))| v1::Worker {
            worker,
            address,
            slots,
            build: "1f".to_owned(),
            process: 7,
        };
        v1::ListWorkersResponse { workers: (1..).zip(described).map(worker).collect() }
    })
}

fn an_answer() -> impl Strategy<Value = Answer> {
    let ids = (any::<u64>(), any::<u64>(), option::of(any::<u128>()), any::<bool>());
    let introduction = (ids, a_leader()).prop_map(|((node, nonce, cluster, may), leader)| {
        Answer::Introduced(Introduction {
            node: NodeId(node),
            nonce,
            cluster: cluster.map(ClusterId),
            may_coordinate: may,
            leader,
        })
    });
    let tables = v1::ListTablesResponse { catalog_version: 3, tables: vec![v1::Table::default()] };
    prop_oneof![
        introduction,
        an_outcome().prop_map(|outcome| Answer::Decided(Ok(outcome))),
        a_denial().prop_map(|denial| Answer::Decided(Err(denial))),
        (any::<u128>(), 1..u64::MAX).prop_map(|(cluster, raft)| Answer::Admitted {
            cluster: ClusterId(cluster),
            raft: RaftId(raft)
        }),
        Just(Answer::Status(Box::new(a_status()))),
        Just(Answer::Tables(Box::new(tables))),
        some_workers().prop_map(|workers| Answer::Workers(Box::new(workers))),
        a_leader().prop_map(|leader| Answer::NotLeader { leader }),
        Just(Answer::Unavailable),
    ]
}

fn a_heartbeat() -> impl Strategy<Value = Heartbeat> {
    let report = prop::sample::select(vec![Report::Unreachable, Report::CaughtUp, Report::GivenUp]);
    let told = (any::<u16>(), a_member(), report, any::<u32>());
    let told = told.prop_map(|(partition, member, report, epoch)| Told {
        partition: PartitionId(partition),
        member,
        report,
        epoch,
    });
    let unserved = vec(any::<u16>().prop_map(PartitionId), 0..8);
    let parts = (any::<u128>(), a_member(), any::<u64>(), vec(told, 0..8), any::<bool>(), unserved);
    parts.prop_map(|(cluster, member, known_version, told, has_failed, unserved)| {
        let cluster = ClusterId(cluster);
        Heartbeat { cluster, member, known_version, told, has_failed, unserved }
    })
}

/// What one has to learn who knows the state as of some version.
fn an_update() -> impl Strategy<Value = Update> {
    let state = a_state();
    (0..state.version())
        .prop_map(move |since| Update::of(CLUSTER, since, &state.changes_since(since).unwrap()))
}

fn a_notice() -> impl Strategy<Value = Notice> {
    prop_oneof![
        vec(any::<u8>(), 0..64).prop_map(Notice::Raft),
        a_heartbeat().prop_map(Notice::Heartbeat),
        an_update().prop_map(|update| Notice::Update(Box::new(update))),
    ]
}

type Changed = Vec<(prop::sample::Index, u8)>;

/// Bytes of which some were changed.
fn changed(mut bytes: Vec<u8>, changes: Changed) -> Vec<u8> {
    for (at, byte) in changes.into_iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
        let at = at.index(bytes.len());
        bytes[at] = byte;
    }
    bytes
}

fn changes() -> impl Strategy<Value = Changed> {
    vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
}

proptest! {
    #[test]
    fn questions_are_read_as_they_were_written(ask in an_ask()) {
        prop_assert_eq!(decode_ask(&encode_ask(&ask)), Ok(ask));
    }

    #[test]
    fn answers_are_read_as_they_were_written(answer in an_answer()) {
        prop_assert_eq!(decode_answer(&encode_answer(&answer)), Ok(answer));
    }

    #[test]
    fn notices_are_read_as_they_were_written(notice in a_notice()) {
        prop_assert_eq!(decode_notice(&encode_notice(&notice)), Ok(notice));
    }

    #[test]
    fn a_question_that_was_changed_is_read_or_refused(ask in an_ask(), changes in changes()) {
        if let Ok(read) = decode_ask(&changed(encode_ask(&ask), changes)) {
            prop_assert_eq!(decode_ask(&encode_ask(&read)), Ok(read));
        }
    }

    #[test]
    fn an_answer_that_was_changed_is_read_or_refused(answer in an_answer(), changes in changes()) {
        if let Ok(read) = decode_answer(&changed(encode_answer(&answer), changes)) {
            prop_assert_eq!(decode_answer(&encode_answer(&read)), Ok(read));
        }
    }

    #[test]
    fn a_notice_that_was_changed_is_read_or_refused(notice in a_notice(), changes in changes()) {
        if let Ok(read) = decode_notice(&changed(encode_notice(&notice), changes)) {
            prop_assert_eq!(decode_notice(&encode_notice(&read)), Ok(read));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        drop((decode_ask(&bytes), decode_answer(&bytes), decode_notice(&bytes)));
    }
}

#[test]
fn an_update_says_what_changes_say() {
    let state = a_state();
    let whole = Update::of(CLUSTER, 0, &state.changes_since(0).unwrap());
    assert!(whole.is_whole());
    assert!(state.nodes().eq(&whole.nodes));
    assert_eq!(whole.version, state.version());
    let since = state.version() - 1;
    let latest = Update::of(CLUSTER, since, &state.changes_since(since).unwrap());
    assert_eq!((latest.since, latest.nodes.len()), (since, 1));
}

#[test]
fn lists_and_texts_have_limits() {
    let told = Told {
        partition: PartitionId(1),
        member: super::member(1, 1),
        report: Report::CaughtUp,
        epoch: 1,
    };
    let told = vec![told; REPORTS_MAX + 1];
    let heartbeat = Heartbeat {
        cluster: CLUSTER,
        member: super::member(1, 1),
        known_version: 0,
        told,
        has_failed: false,
        unserved: Vec::new(),
    };
    let bytes = encode_notice(&Notice::Heartbeat(heartbeat));
    assert_eq!(decode_notice(&bytes), Err(CodecError::ListTooLong { field: "told" }));
    let leader = Leader { node: NodeId(1), data_address: "x".repeat(ADDRESS_MAX + 1) };
    let bytes = encode_answer(&Answer::NotLeader { leader: Some(leader) });
    assert_eq!(decode_answer(&bytes), Err(CodecError::Field { field: "data_address" }));
    let (len, limit) = (ENTRY_MAX + 1, ENTRY_MAX);
    assert_eq!(decode_ask(&vec![0; len]), Err(CodecError::TooLong { len, limit }));
    let (len, limit) = (ANSWER_MAX + 1, ANSWER_MAX);
    assert_eq!(decode_answer(&vec![0; len]), Err(CodecError::TooLong { len, limit }));
    assert_eq!(decode_ask(&[]), Err(CodecError::Field { field: "ask" }));
}

/// Whoever passes them on to a client could not write them down.
#[test]
fn workers_of_an_answer_are_some_that_there_can_be() {
    let worker = |worker, address_len| v1::Worker {
        worker,
        address: "a".repeat(address_len),
        ..v1::Worker::default()
    };
    let read = |workers: Vec<v1::Worker>| {
        let answer = Answer::Workers(Box::new(v1::ListWorkersResponse { workers }));
        decode_answer(&encode_answer(&answer)).map(|read| assert_eq!(read, answer))
    };
    assert_eq!(read(vec![worker(1, 1), worker(3, ADDRESS_MAX)]), Ok(()));
    let refused = Err(CodecError::Field { field: "workers" });
    for workers in [
        vec![worker(1, 0)],
        vec![worker(1, ADDRESS_MAX + 1)],
        vec![worker(2, 1), worker(1, 1)],
        vec![worker(2, 1), worker(2, 1)],
        vec![worker(0, 1)],
    ] {
        assert_eq!(read(workers), refused);
    }
    let many = (1..=WORKERS_MAX as u64 + 1).map(|number| worker(number, 1)).collect();
    assert_eq!(read(many), Err(CodecError::ListTooLong { field: "workers" }));
}
