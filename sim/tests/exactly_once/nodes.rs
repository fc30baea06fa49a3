//! A few nodes that hold one partition together, by configurations that the test gives them, and a peer that sends them requests as they are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weft_client::{Client, ClientConfig};
use weft_protocol::{
    ClusterMap, Configuration, ErrorCode, ErrorReply, Member, NodeEntry, OpenClient,
    OpenClientReply, PartitionEntry, PartitionId, RenewClient, ReplyError, ReplyHead, Request,
    Slot, TableClass,
};
use weft_server::handler::{NodeHandler, NodeOptions, Placement};
use weft_server::memory::NodeMemory;
use weft_sim::world::{MemberId, World};
use weft_transport::{
    Connection, Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, NoHandler, NodeId,
    SimConfig, SimCrash,
};

/// Longer than anything takes that goes well.
const PATIENCE: Duration = Duration::from_secs(30);

/// All parts of an answer, when there is one.
pub(crate) type Answer = Rc<RefCell<Option<Vec<Vec<u8>>>>>;

const PARTITION: PartitionId = PartitionId(3);

fn address(node: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8], 7400))
}

fn member(node: u64) -> Member {
    Member { node: NodeId(node), incarnation: Incarnation(1) }
}

pub(crate) struct Nodes {
    pub(crate) world: World,
    handlers: Vec<Arc<NodeHandler>>,
    hosts: Vec<MemberId>,
    peer: Endpoint,
    connections: Rc<RefCell<BTreeMap<u64, Connection>>>,
    /// Of the map and of the partition.
    pub(crate) epoch: u32,
}

impl Nodes {
    /// Nodes 1 to `count`, of which the first is the primary.
    pub(crate) fn new(seed: u64, count: u64) -> Nodes {
        let delay = Duration::from_micros(50)..Duration::from_millis(2);
        let mut world = World::new(seed, SimConfig { seed, delay, loss: 0.0, partial: 0.3 });
        let (mut handlers, mut hosts) = (Vec::new(), Vec::new());
        for id in 1..=count {
            let memory = NodeMemory::divide(64 << 20).unwrap();
            let me = member(id);
            let host = world.add_host(address(id).ip(), None);
            let config = EndpointConfig::new(me.node, me.incarnation, memory.network.clone());
            let clock = world.clock_of(host).clone();
            let options = NodeOptions::new(me, memory, clock, 7);
            let handler = Arc::new(NodeHandler::new(options).unwrap());
            let endpoint = world.add_endpoint(host, config, Arc::clone(&handler) as _).unwrap();
            endpoint.listen(address(id)).unwrap();
            world.spawn_background(host, Arc::clone(&handler).take_part(endpoint, Vec::new()));
            handlers.push(handler);
            hosts.push(host);
        }
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let config = EndpointConfig::new(NodeId::client(1), Incarnation(1), memory);
        let (_, peer) = world.add(config, Arc::new(NoHandler)).unwrap();
        let connections = Rc::default();
        let mut nodes = Nodes { world, handlers, hosts, peer, connections, epoch: 0 };
        let all: Vec<u64> = (1..=count).collect();
        nodes.configure(1, &all);
        nodes
    }

    /// The next map, by which `primary` leads `members`, and time enough for all of it. The others are not told.
    pub(crate) fn configure(&mut self, primary: u64, members: &[u64]) {
        self.epoch += 1;
        let map = self.map(primary, members);
        let placement = self.placement(primary, members);
        for id in members {
            self.handler(*id).learn(map.clone(), std::slice::from_ref(&placement)).unwrap();
        }
        self.go_on(Duration::from_secs(3));
    }

    fn map(&self, primary: u64, members: &[u64]) -> ClusterMap {
        let entry = |id: u64| NodeEntry {
            id: NodeId(id),
            incarnation: Incarnation(1),
            address: address(id).to_string(),
        };
        let nodes = (1..=self.handlers.len() as u64).map(entry).collect();
        let partition = PartitionEntry {
            id: PARTITION,
            class: TableClass::DEFAULT,
            first_slot: slot(0),
            last_slot: slot(Slot::COUNT - 1),
            epoch: self.epoch,
            primary: Some(NodeId(primary)),
            members: members.iter().copied().map(NodeId).collect(),
            is_lost: false,
        };
        ClusterMap::new(u64::from(self.epoch), nodes, vec![partition]).unwrap()
    }

    fn placement(&self, primary: u64, members: &[u64]) -> Placement {
        Placement {
            id: PARTITION,
            class: TableClass::DEFAULT,
            first_slot: slot(0),
            last_slot: slot(Slot::COUNT - 1),
            configuration: Configuration {
                epoch: self.epoch,
                primary: Some(member(primary)),
                members: members.iter().copied().map(member).collect(),
                learners: Vec::new(),
                min_in_sync: 1,
                is_lost: false,
            },
            born_in: 0,
        }
    }

    pub(crate) fn handler(&self, node: u64) -> &Arc<NodeHandler> {
        &self.handlers[node as usize - 1]
    }

    pub(crate) fn crash(&mut self, node: u64) {
        self.world.crash(self.hosts[node as usize - 1], SimCrash::Process);
    }

    pub(crate) fn go_on(&mut self, duration: Duration) {
        let end = self.world.clock().now() + duration;
        self.world.go_on_until(end).unwrap();
    }

    /// Does what goes on in the background of a node, for that long.
    pub(crate) fn tidy(&mut self, nodes: &[u64], duration: Duration) {
        let end = self.world.clock().now() + duration;
        while self.world.clock().now() < end {
            for node in nodes {
                while self.handler(*node).clean() {}
            }
            self.go_on(Duration::from_secs(1));
        }
    }

    /// All parts of the reply to a request, of whatever is asked.
    pub(crate) fn ask(&mut self, node: u64, request: &Request<'_>) -> Vec<Vec<u8>> {
        let answer = self.begin(node, request);
        let end = self.world.clock().now() + PATIENCE;
        assert!(self.world.run_until(end).unwrap(), "it is answered");
        answer.take().unwrap()
    }

    /// Asks, and leaves the answer to be looked for when there is one.
    pub(crate) fn begin(&mut self, node: u64, request: &Request<'_>) -> Answer {
        let mut bytes = vec![0; request.encoded_len()];
        request.encode(&mut bytes);
        let answer = Answer::default();
        let (into, peer) = (Rc::clone(&answer), self.peer.clone());
        let connections = Rc::clone(&self.connections);
        let deadline = self.world.clock().now() + PATIENCE;
        self.world.spawn(async move {
            let known = connections.borrow().get(&node).cloned();
            let connection = match known {
                Some(connection) => connection,
                None => peer.connect(address(node), deadline).await.unwrap(),
            };
            connections.borrow_mut().insert(node, connection.clone());
            let mut replies = connection.call_streamed(&bytes[..], deadline).await.unwrap();
            let mut parts = Vec::new();
            while let Some(part) = replies.next().await {
                parts.push(part.unwrap().to_vec());
            }
            *into.borrow_mut() = Some(parts);
        });
        answer
    }

    /// A client that finds the nodes.
    pub(crate) fn client(&mut self) -> impl Future<Output = Client> + 'static {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let mut config = EndpointConfig::new(NodeId::client(2), Incarnation(1), memory);
        config.backoff = weft_client::BACKOFF;
        let (_, endpoint) = self.world.add(config, Arc::new(NoHandler)).unwrap();
        let addresses = (1..=self.handlers.len() as u64).map(|id| address(id).to_string());
        let mut config = ClientConfig::new(addresses.collect::<Vec<_>>());
        config.timeout = PATIENCE;
        async move {
            loop {
                if let Ok(client) = Client::with_endpoint(endpoint.clone(), config.clone()).await {
                    return client;
                }
            }
        }
    }

    /// Keeps a node from doing anything for a while.
    pub(crate) fn pause(&mut self, node: u64, duration: Duration) {
        self.world.pause(self.hosts[node as usize - 1], duration);
    }

    /// The code that a request is refused with.
    pub(crate) fn refused(&mut self, node: u64, request: &Request<'_>) -> Option<ErrorCode> {
        let parts = self.ask(node, request);
        match ReplyHead::decode(&parts[0]) {
            Err(ReplyError::Refused(ErrorReply { code, .. })) => Some(code),
            _ => None,
        }
    }

    pub(crate) fn open_client(&mut self, node: u64) -> u64 {
        let parts = self.ask(node, &Request::OpenClient(OpenClient));
        OpenClientReply::decode(&parts[0]).unwrap().client
    }

    pub(crate) fn renew_client(&mut self, node: u64, client: u64) -> Option<ErrorCode> {
        self.refused(node, &Request::RenewClient(RenewClient { client }))
    }

    /// A digest of what these nodes hold, which is the same on all of them.
    pub(crate) fn digest(&self, nodes: &[u64]) -> u128 {
        let digest = |node: &u64| {
            let digests = self.handler(*node).digests();
            let [(PARTITION, digest, true)] = digests[..] else { panic!("{node}: {digests:?}") };
            digest
        };
        let all: Vec<u128> = nodes.iter().map(digest).collect();
        assert!(all.iter().all(|one| *one == all[0]), "{nodes:?}: {all:x?}");
        all[0]
    }
}

fn slot(number: u16) -> Slot {
    Slot::from_number(number).unwrap()
}
