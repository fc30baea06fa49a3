//! Tables that are changed by the data port of a node whose questions are answered by a state of its own.

use std::sync::Arc;
use std::time::Duration;

use weft_protocol::{
    AlterTable, Completion, CompletionId, CreateTable, CreateTableReply, DropTable, ErrorCode,
    Eviction, ReplyError, TableAlteration, TableChangedReply, TableOptions,
};
use weft_transport::{
    Body, Clock, Connection, Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig,
    NoHandler, NodeId, PollPolicy,
};

use crate::control::tests::lone_coordinator::LoneCoordinator;

struct Port {
    coordinator: Arc<LoneCoordinator>,
    _server: Endpoint,
    client: Endpoint,
    connection: Connection,
}

impl Port {
    fn start() -> Port {
        let coordinator = LoneCoordinator::of_three_nodes();
        let node = Arc::clone(&coordinator.node);
        let mut config =
            EndpointConfig::new(NodeId(1), Incarnation(1), node.memory.network.clone());
        config.clock = Clock::system();
        config.poll = PollPolicy::Park;
        let server = Endpoint::start(config, node as _).unwrap();
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let mut config = EndpointConfig::new(NodeId::client(1), Incarnation(1), memory);
        config.poll = PollPolicy::Park;
        let client = Endpoint::start(config, Arc::new(NoHandler)).unwrap();
        let by = client.clock().now() + Duration::from_secs(20);
        let connection = client.block_on(client.connect(address, by)).unwrap();
        Port { coordinator, _server: server, client, connection }
    }

    /// The same, with the coordinator answering.
    fn with_answers() -> Port {
        let port = Port::start();
        let coordinator = Arc::clone(&port.coordinator);
        let answering = port.client.clone();
        // It ends with the test's process.
        std::thread::spawn(move || answering.block_on(coordinator.answer()));
        port
    }

    fn call(&self, body: impl Body) -> Vec<u8> {
        let by = self.client.clock().now() + Duration::from_secs(20);
        self.client.block_on(self.connection.call(body, by)).unwrap().to_vec()
    }
}

fn create<'a>(completion: Option<Completion>, name: &'a str, replicas: u8) -> CreateTable<'a> {
    CreateTable { completion, name, options: TableOptions { replicas, ..TableOptions::default() } }
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(reply: Result<T, ReplyError<'_>>, code: ErrorCode) {
    match reply {
        Err(ReplyError::Refused(error)) => assert_eq!(error.code, code, "{error:?}"),
        other => panic!("{other:?} and not {code}"),
    }
}

#[test]
fn tables_are_changed_when_the_coordinators_have_decided() {
    let port = Port::with_answers();
    // The coordinator may not have begun to answer.
    let created = loop {
        match CreateTableReply::decode(&port.call(create(None, "yarn", 2))) {
            Ok(created) => break created,
            Err(error) => check_refused(Err::<(), _>(error), ErrorCode::CoordinatorsUnavailable),
        }
    };
    assert_eq!((created.table.0, created.catalog_version), (1, 1));
    let again = port.call(create(None, "yarn", 2));
    check_refused(CreateTableReply::decode(&again), ErrorCode::TableExists);

    let id = CompletionId { client: 3, sequence: 5 };
    let completion = Some(Completion { id, first_incomplete: 5 });
    let first = port.call(create(completion, "wool", 3));
    assert_eq!(first, port.call(create(completion, "wool", 3)), "it is the same request");

    let change = TableAlteration { quota_bytes: None, eviction: Some(Eviction::SoonestExpiry) };
    let altered = port.call(AlterTable { completion: None, name: "wool", change });
    assert_eq!(TableChangedReply::decode(&altered).unwrap().catalog_version, 3);
    let unknown = port.call(AlterTable { completion: None, name: "silk", change });
    check_refused(TableChangedReply::decode(&unknown), ErrorCode::TableUnknown);

    let drop_wool = DropTable { completion: None, name: "wool" };
    let dropped = port.call(drop_wool);
    assert_eq!(TableChangedReply::decode(&dropped).unwrap().catalog_version, 4);
    let again = port.call(drop_wool);
    check_refused(TableChangedReply::decode(&again), ErrorCode::TableUnknown);
    let always = port.call(DropTable { completion: None, name: "default" });
    check_refused(TableChangedReply::decode(&always), ErrorCode::TableExists);
    let always = port.call(create(None, "default", 3));
    check_refused(CreateTableReply::decode(&always), ErrorCode::TableExists);
}

#[test]
fn a_node_that_takes_part_in_no_cluster_says_that_it_cannot_ask() {
    let port = Port::start();
    let reply = port.call(create(None, "yarn", 3));
    check_refused(CreateTableReply::decode(&reply), ErrorCode::CoordinatorsUnavailable);
}
