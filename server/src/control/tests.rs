//! The control port over sockets, of a node whose questions are answered by a state of its own.
#![expect(
    clippy::big_endian_bytes,
    reason = "people read a cluster's id in the order of its digits"
)]

pub(crate) mod lone_coordinator;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};
use weft_protocol::control::ERROR_CODE;
use weft_protocol::control::v1::control_client::ControlClient;
use weft_protocol::control::v1::{
    AcceptLossRequest, AlterTableRequest, CreateTableRequest, DropTableRequest, JoinRequest,
    LeaveRequest, ListTablesRequest, Member, Standing, StatusRequest, StayRequest, TableOptions,
    WatchMapRequest, alter_table_request::Quota,
};
use weft_protocol::{ErrorCode, PartitionId};
use weft_transport::{Incarnation, NodeId};

use self::lone_coordinator::LoneCoordinator;
use super::ControlServer;
use crate::coordinator::Command;
use crate::limits::{CONTROL_REQUEST_MAX, control_connections_max};

/// How long a test waits for what has to come.
const SOON: Duration = Duration::from_secs(20);

struct Port {
    coordinator: Arc<LoneCoordinator>,
    server: ControlServer,
}

impl Port {
    /// Of the first of three nodes that hold all partitions together.
    async fn start() -> Port {
        let coordinator = LoneCoordinator::of_three_nodes();
        let server = serve(&coordinator).await;
        tokio::spawn(Arc::clone(&coordinator).answer());
        Port { coordinator, server }
    }

    async fn client(&self) -> ControlClient<Channel> {
        connect(&self.server).await
    }
}

async fn serve(coordinator: &LoneCoordinator) -> ControlServer {
    let node = Arc::clone(&coordinator.node);
    let network = node.memory.network.clone();
    let start = move || ControlServer::start(([127, 0, 0, 1], 0).into(), node, &network);
    // It has a runtime of its own.
    tokio::task::spawn_blocking(start).await.unwrap().unwrap()
}

async fn connect(server: &ControlServer) -> ControlClient<Channel> {
    let address = format!("http://{}", server.address());
    ControlClient::new(Channel::from_shared(address).unwrap().connect().await.unwrap())
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, ours: ErrorCode) {
    let status = result.unwrap_err();
    let number = status.metadata().get(ERROR_CODE).and_then(|number| number.to_str().ok());
    assert_eq!((status.code(), number), (code, Some(&*ours.number().to_string())), "{status:?}");
}

fn create(request: u64, name: &str, options: Option<TableOptions>) -> CreateTableRequest {
    CreateTableRequest { request, name: name.to_owned(), options }
}

fn alter(name: &str, quota: Option<Quota>) -> AlterTableRequest {
    AlterTableRequest { request: 0, name: name.to_owned(), eviction: None, quota }
}

fn drop_of(name: &str) -> DropTableRequest {
    DropTableRequest { request: 0, name: name.to_owned() }
}

#[tokio::test]
async fn tables_are_created_altered_listed_and_dropped() {
    let port = Port::start().await;
    let mut client = port.client().await;
    let options = TableOptions { ordered: true, replicas: 1, ..TableOptions::default() };
    let created = client.create_table(create(0, "yarn", Some(options))).await.unwrap().into_inner();
    let table = created.table.unwrap();
    assert_eq!((&*table.name, table.table), ("yarn", 1));
    let told = table.options.unwrap();
    assert_eq!((told.ordered, told.replicas, told.quota_bytes), (true, 1, None));

    let altered = client.alter_table(alter("yarn", Some(Quota::QuotaBytes(7)))).await.unwrap();
    let altered = altered.into_inner();
    assert!(altered.catalog_version > created.catalog_version);
    assert_eq!(altered.table.unwrap().options.unwrap().quota_bytes, Some(7));
    client.alter_table(alter("yarn", None)).await.unwrap();
    client.alter_table(alter("yarn", Some(Quota::NoQuota(true)))).await.unwrap();

    let listed = client.list_tables(ListTablesRequest {}).await.unwrap().into_inner();
    let names: Vec<_> = listed.tables.iter().map(|table| &*table.name).collect();
    assert_eq!(names, ["default", "yarn"]);
    assert_eq!(listed.tables[1].options.unwrap().quota_bytes, None);

    let dropped = client.drop_table(drop_of("yarn")).await.unwrap().into_inner();
    assert!(dropped.catalog_version > listed.catalog_version);
}

/// A node in one of its lives, as the coordinator of these tests takes it.
fn join(node: u64, incarnation: u64) -> JoinRequest {
    JoinRequest {
        member: Some(Member { node, incarnation }),
        cluster_id: Some(5_u128.to_be_bytes().to_vec()),
        wire_version: 1,
        data_address: format!("node{node}:7400"),
        control_address: format!("node{node}:7401"),
        zone: "east".to_owned(),
        capacity_bytes: 1 << 30,
        ..JoinRequest::default()
    }
}

#[tokio::test]
async fn a_node_joins_and_is_there() {
    let port = Port::start().await;
    let mut client = port.client().await;
    let before = client.status(StatusRequest {}).await.unwrap().into_inner().map_version;
    let joined = client.join(join(9, 700)).await.unwrap().into_inner();
    assert_eq!(joined.cluster_id, 5_u128.to_be_bytes());
    assert!(joined.map_version > before);
    assert_eq!((joined.heartbeat_ms, joined.lease_ms), (50, 500));
    // Whoever got no answer asks again.
    assert_eq!(client.join(join(9, 700)).await.unwrap().into_inner(), joined);
    let known = |coordinator: &LoneCoordinator| {
        coordinator.state.lock().node(NodeId(9)).map(|node| (node.member(), node.clone()))
    };
    let (member, node) = known(&port.coordinator).unwrap();
    assert_eq!(member.incarnation.0, 700);
    assert_eq!(
        (&*node.description.zone, node.description.data_address.as_str()),
        ("east", "node9:7400")
    );
    assert!(!node.description.is_coordinator);
}

#[tokio::test]
async fn a_node_that_cannot_be_of_the_cluster_is_refused_and_nothing_is_changed() {
    let port = Port::start().await;
    let mut client = port.client().await;
    client.join(join(9, 700)).await.unwrap();
    let before = port.coordinator.state.lock().clone();
    let older = client.join(JoinRequest { wire_version: 0, ..join(8, 700) }).await;
    assert!(older.as_ref().unwrap_err().message().contains("version"), "{older:?}");
    check_refused(older, Code::FailedPrecondition, ErrorCode::NotPossible);
    let other = JoinRequest { cluster_id: Some(vec![6; 16]), ..join(8, 700) };
    check_refused(client.join(other).await, Code::FailedPrecondition, ErrorCode::NotPossible);
    let living = client.join(join(9, 800)).await;
    check_refused(living, Code::Unavailable, ErrorCode::NotYet);
    let past = client.join(join(9, 600)).await;
    check_refused(past, Code::Aborted, ErrorCode::ChangedMeanwhile);
    let malformed = [
        JoinRequest { member: None, ..join(8, 700) },
        JoinRequest { cluster_id: Some(vec![5; 15]), ..join(8, 700) },
        JoinRequest { wire_version: 1 << 16, ..join(8, 700) },
        JoinRequest { data_address: String::new(), ..join(8, 700) },
        JoinRequest { zone: "z".repeat(1 << 10), ..join(8, 700) },
        join(1 << 16, 700),
    ];
    for request in malformed {
        let refused = client.join(request).await;
        check_refused(refused, Code::InvalidArgument, ErrorCode::MalformedRequest);
    }
    assert_eq!(*port.coordinator.state.lock(), before);
}

#[tokio::test]
async fn what_is_asked_again_for_the_same_request_is_done_once() {
    let port = Port::start().await;
    let mut client = port.client().await;
    let first = client.create_table(create(77, "yarn", None)).await.unwrap().into_inner();
    let again = client.create_table(create(77, "yarn", None)).await.unwrap().into_inner();
    assert_eq!(first, again);
    let other = client.create_table(create(78, "yarn", None)).await;
    check_refused(other, Code::AlreadyExists, ErrorCode::TableExists);
}

#[tokio::test]
async fn refusals_say_which_kind_they_are_of() {
    let port = Port::start().await;
    let mut client = port.client().await;
    let malformed = client.create_table(create(0, "a b", None)).await;
    check_refused(malformed, Code::InvalidArgument, ErrorCode::TableNameMalformed);
    let always = client.create_table(create(0, "default", None)).await;
    check_refused(always, Code::AlreadyExists, ErrorCode::TableExists);
    let many = TableOptions { replicas: 300, ..TableOptions::default() };
    let many = client.create_table(create(0, "yarn", Some(many))).await;
    check_refused(many, Code::InvalidArgument, ErrorCode::UnsupportedReplicas);
    let odd = TableOptions { eviction: 9, ..TableOptions::default() };
    let odd = client.create_table(create(0, "yarn", Some(odd))).await;
    check_refused(odd, Code::InvalidArgument, ErrorCode::MalformedRequest);
    let none = client.drop_table(drop_of("yarn")).await;
    check_refused(none, Code::NotFound, ErrorCode::TableUnknown);
    let nothing = client.alter_table(alter("default", Some(Quota::QuotaBytes(0)))).await;
    check_refused(nothing, Code::InvalidArgument, ErrorCode::MalformedRequest);
    let nobody = client.leave(LeaveRequest { node: 9 }).await;
    check_refused(nobody, Code::NotFound, ErrorCode::NodeUnknown);
    client.leave(LeaveRequest { node: 1 }).await.unwrap();
    client.leave(LeaveRequest { node: 2 }).await.unwrap();
    let last = client.leave(LeaveRequest { node: 3 }).await;
    check_refused(last, Code::FailedPrecondition, ErrorCode::NotPossible);
    let no_loss = AcceptLossRequest { partitions: vec![0], ..AcceptLossRequest::default() };
    let no_loss = client.accept_loss(no_loss).await;
    check_refused(no_loss, Code::FailedPrecondition, ErrorCode::NotPossible);
    let unknown = AcceptLossRequest { partitions: vec![70_000], ..AcceptLossRequest::default() };
    let unknown = client.accept_loss(unknown).await;
    check_refused(unknown, Code::NotFound, ErrorCode::PartitionUnknown);
    // What is longer than any request is not even read.
    let long = client.create_table(create(0, &"a".repeat(CONTROL_REQUEST_MAX), None)).await;
    assert_eq!(long.unwrap_err().code(), Code::OutOfRange);
}

#[tokio::test]
async fn nodes_leave_and_stay() {
    let port = Port::start().await;
    let mut client = port.client().await;
    let left = client.leave(LeaveRequest { node: 2 }).await.unwrap().into_inner();
    let status = client.status(StatusRequest {}).await.unwrap().into_inner();
    assert_eq!(left.map_version, status.map_version);
    assert_eq!(status.nodes[1].standing(), Standing::Leaving);
    let stayed = client.stay(StayRequest { node: 2 }).await.unwrap().into_inner();
    assert!(stayed.map_version > left.map_version);
}

/// Who was not told of it asks again, as often as it takes.
#[tokio::test]
async fn a_node_that_has_left_may_be_asked_to_again() {
    let port = Port::start().await;
    let mut client = port.client().await;
    for _ in 0..2 {
        let left = client.leave(LeaveRequest { node: 2 }).await.unwrap().into_inner();
        assert!(!left.has_left, "it holds something still");
    }
    for partition in [0, 1] {
        port.coordinator.remove_member(PartitionId(partition), NodeId(2));
    }
    let member = weft_protocol::Member { node: NodeId(2), incarnation: Incarnation(2) };
    port.coordinator.apply(Command::Forget { member });
    let left = client.leave(LeaveRequest { node: 2 }).await.unwrap().into_inner();
    assert!(left.has_left);
    let gone = client.stay(StayRequest { node: 2 }).await;
    check_refused(gone, Code::NotFound, ErrorCode::NodeUnknown);
}

#[tokio::test]
async fn lost_partitions_begin_anew_on_nodes_that_are_up() {
    let port = Port::start().await;
    let mut client = port.client().await;
    let coordinator = &port.coordinator;
    let nothing = client.accept_loss(AcceptLossRequest::default()).await.unwrap().into_inner();
    assert!(nothing.partitions.is_empty(), "nothing was lost");

    // Partition 1 is on node 3 alone, which is down then.
    for node in [1, 2] {
        coordinator.remove_member(PartitionId(1), NodeId(node));
    }
    coordinator.mark_down(NodeId(3));
    let give_up = AcceptLossRequest { request: 5, partitions: vec![0], give_up: true };
    check_refused(
        client.accept_loss(give_up).await,
        Code::FailedPrecondition,
        ErrorCode::NotPossible,
    );
    let give_up = AcceptLossRequest { request: 6, partitions: vec![], give_up: true };
    let done = client.accept_loss(give_up.clone()).await.unwrap().into_inner();
    assert_eq!(done.partitions, [1]);
    let partition = coordinator.partition(PartitionId(1));
    let nodes: Vec<u64> =
        partition.configuration.members.iter().map(|member| member.node.0).collect();
    assert_eq!(nodes, [2, 1], "node 1 is primary of the other partition");
    assert_eq!(partition.born_in, partition.configuration.epoch);

    // Asked again, it is what it has become.
    let named = AcceptLossRequest { partitions: vec![1, 1], ..give_up };
    let again = client.accept_loss(named).await.unwrap().into_inner();
    assert_eq!(again.partitions, [1]);
    assert_eq!(coordinator.partition(PartitionId(1)), partition);
}

#[tokio::test]
async fn watchers_are_told_the_map_and_then_what_changes() {
    let port = Port::start().await;
    let mut client = port.client().await;
    let watch = |known_version| WatchMapRequest { known_version };
    let mut updates = client.watch_map(watch(0)).await.unwrap().into_inner();
    let whole = updates.message().await.unwrap().unwrap();
    assert!(whole.is_whole);
    assert_eq!((whole.nodes.len(), whole.partitions.len()), (3, 2));

    // Who has it already is told nothing before there is something.
    let mut others = client.watch_map(watch(whole.version)).await.unwrap().into_inner();
    let other = tokio::spawn(async move { others.message().await.unwrap().unwrap() });
    // One that is not known here.
    let mut unknown = client.watch_map(watch(1)).await.unwrap().into_inner();
    check_refused(unknown.message().await, Code::Aborted, ErrorCode::ChangedMeanwhile);

    let tables = client.create_table(create(0, "yarn", None)).await.unwrap().into_inner();
    port.coordinator.remove_member(PartitionId(1), NodeId(2));
    port.coordinator.have_node_learn();
    let change = updates.message().await.unwrap().unwrap();
    assert!(!change.is_whole && change.version > whole.version);
    assert_eq!(change.catalog_version, tables.catalog_version);
    let numbers: Vec<u32> = change.partitions.iter().map(|partition| partition.partition).collect();
    assert_eq!(numbers, [1]);
    let nodes: Vec<u64> = change.nodes.iter().map(|node| node.member.unwrap().node).collect();
    assert_eq!(nodes, [2], "it holds less");
    assert_eq!(timeout(SOON, other).await.unwrap().unwrap(), change);

    port.coordinator.apply(Command::Leave { node: NodeId(3) });
    port.coordinator.have_node_learn();
    let change = updates.message().await.unwrap().unwrap();
    assert!(change.partitions.is_empty());
    assert_eq!(change.nodes[0].standing(), Standing::Leaving);

    // The server ends them, and does not wait for them.
    let closing = tokio::task::spawn_blocking(move || drop(port.server));
    check_refused(updates.message().await, Code::Unavailable, ErrorCode::ShuttingDown);
    timeout(SOON, closing).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_node_that_takes_part_in_no_cluster_says_so_at_once() {
    let coordinator = LoneCoordinator::of_three_nodes();
    let server = serve(&coordinator).await;
    let mut client = connect(&server).await;
    let status = client.status(StatusRequest {}).await;
    let left = client.leave(LeaveRequest { node: 1 }).await;
    let may_have_been_done =
        |status: &Status| status.message().contains("what was asked may have been done");
    assert!(
        !may_have_been_done(status.as_ref().unwrap_err())
            && may_have_been_done(left.as_ref().unwrap_err())
    );
    check_refused(status, Code::Unavailable, ErrorCode::CoordinatorsUnavailable);
    check_refused(left, Code::Unavailable, ErrorCode::CoordinatorsUnavailable);
}

#[tokio::test]
async fn who_connects_last_is_answered_while_all_places_are_taken() {
    let port = Port::start().await;
    let network = &port.coordinator.node.memory.network;
    let places = control_connections_max(network.account().limit_bytes);
    let watching = join_all((0..places).map(async |_| {
        let mut client = port.client().await;
        let known_version = 0;
        let mut updates =
            client.watch_map(WatchMapRequest { known_version }).await.unwrap().into_inner();
        updates.message().await.unwrap().unwrap();
        updates
    }));
    let mut watching = watching.await;
    let mut client = port.client().await;
    client.status(StatusRequest {}).await.unwrap();
    port.coordinator.mark_down(NodeId(3));
    port.coordinator.have_node_learn();
    let mut ended = 0;
    for updates in &mut watching {
        ended += usize::from(timeout(SOON, updates.message()).await.unwrap().is_err());
    }
    assert_eq!(ended, 1, "the oldest had to go");
}
