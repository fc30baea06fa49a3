//! Nodes that answer by script, and the virtual time they live in.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weft_client::{Client, ClientConfig, ClientError, ErrorCode, NodeId, Version};
use weft_protocol::{
    ClusterMap, DeleteReply, ErrorReply, GetReply, MapReply, NodeEntry, OpenClientReply, Operation,
    PartBuilder, PartitionEntry, PutReply, RenewClient, Request, Slot, StatsReply,
};
use weft_transport::{
    Batch, Body, Clock, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, ManualClock,
    Memory, MemoryConfig, NoHandler, SimConfig, SimNetwork, Time,
};

/// What a client's lease lasts, where there are any.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// What every operation has.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// A cluster of which each test starts the nodes that it wants.
pub(crate) struct World {
    network: SimNetwork,
    clock: Clock,
    hand: ManualClock,
    endpoints: RefCell<Vec<Endpoint>>,
    map: Arc<Mutex<ClusterMap>>,
    maps_served: Arc<AtomicUsize>,
    /// Until then its nodes have no map yet.
    founded_at: Time,
    leases: Arc<Leases>,
}

/// How nodes answer those who want to be clients.
#[derive(Default)]
pub(crate) struct Leases {
    /// For how many milliseconds; 0 if not at all.
    pub(crate) lease_ms: AtomicU32,
    pub(crate) opened: AtomicU64,
    pub(crate) renewed: AtomicU64,
    /// Whether nodes say nothing to who wants to renew one.
    pub(crate) are_renewed_in_vain: AtomicBool,
    /// Of which clients nothing is known any more.
    pub(crate) forgotten_to: AtomicU64,
}

/// A node, as a test sees it.
pub(crate) struct Node {
    operations: Arc<Mutex<Vec<Operation>>>,
}

/// What a node does about a request.
pub(crate) enum Answer {
    /// These bytes, in one reply.
    Reply(Vec<u8>),
    /// Success for every item of a multi-request.
    Items,
    /// Nothing, ever.
    Silence,
    /// The connection is lost.
    Close,
}

type Script = dyn Fn(&Request<'_>) -> Answer + Send + Sync;

impl World {
    /// A cluster of `nodes` nodes that share the slots evenly, by a map of epoch 1. None runs.
    pub(crate) fn new(nodes: u64) -> Self {
        let (clock, hand) = Clock::manual();
        let config = SimConfig {
            seed: 7,
            delay: Duration::from_micros(20)..Duration::from_micros(200),
            loss: 0.0,
            partial: 0.2,
        };
        Self {
            network: SimNetwork::new(config, hand.clone()),
            clock,
            hand,
            endpoints: RefCell::default(),
            map: Arc::new(Mutex::new(even_map(nodes, 1))),
            maps_served: Arc::default(),
            founded_at: Time::ZERO,
            leases: Arc::default(),
        }
    }

    /// The same, but nodes say for so long that they serve nothing yet.
    pub(crate) fn forming(nodes: u64, time: Duration) -> Self {
        Self { founded_at: Time::ZERO + time, ..Self::new(nodes) }
    }

    /// The same, but nodes say that they remember what they have done for a client.
    pub(crate) fn remembering(nodes: u64) -> Self {
        let world = Self::new(nodes);
        world.leases.lease_ms.store(LEASE.as_millis() as u32, Ordering::Relaxed);
        world
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Starts node `id`, which answers by `script` whatever is not a request for the map.
    pub(crate) fn node(
        &self,
        id: u64,
        script: impl Fn(&Request<'_>) -> Answer + Send + Sync + 'static,
    ) -> Node {
        self.node_at(id, id, script)
    }

    /// Starts a node that gives `answers`, in turn.
    pub(crate) fn node_in_turn<const N: usize>(&self, id: u64, answers: [Answer; N]) -> Node {
        let answers = Mutex::new(VecDeque::from(answers));
        self.node(id, move |_| answers.lock().unwrap().pop_front().expect("an answer is left"))
    }

    /// Starts node `id` at the address of node `place`.
    pub(crate) fn node_at(
        &self,
        id: u64,
        place: u64,
        script: impl Fn(&Request<'_>) -> Answer + Send + Sync + 'static,
    ) -> Node {
        let map = Some((Arc::clone(&self.map), Arc::clone(&self.maps_served)));
        self.start(id, place, map, Box::new(script))
    }

    /// Starts a node that keeps the map as it is now, whatever becomes of the cluster's.
    pub(crate) fn node_behind(&self, id: u64) -> Node {
        let map = Arc::new(Mutex::new(self.map.lock().unwrap().clone()));
        self.start(id, id, Some((map, Arc::default())), Box::new(|_| absent()))
    }

    /// Starts a node that takes requests and says nothing, not even of the map.
    pub(crate) fn node_without_map(&self, id: u64) -> Node {
        self.start(id, id, None, Box::new(|_| Answer::Silence))
    }

    fn start(
        &self,
        id: u64,
        place: u64,
        map: Option<(Arc<Mutex<ClusterMap>>, Arc<AtomicUsize>)>,
        script: Box<Script>,
    ) -> Node {
        let operations = Arc::<Mutex<Vec<_>>>::default();
        let network = self.network.clone();
        let (operations_too, leases) = (Arc::clone(&operations), Arc::clone(&self.leases));
        let (clock, founded_at) = (self.clock.clone(), self.founded_at);
        let scripted = Scripted {
            map,
            founded: (clock, founded_at),
            script,
            operations: operations_too,
            network,
            leases,
        };
        let endpoint = self.endpoint(NodeId(id), Arc::new(scripted));
        endpoint.listen(address(place)).unwrap();
        Node { operations }
    }

    fn endpoint(&self, id: NodeId, handler: Arc<dyn Handler>) -> Endpoint {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let mut config = EndpointConfig::new(id, Incarnation(1), memory);
        config.clock = self.clock.clone();
        config.backoff = weft_client::BACKOFF;
        let endpoint = Endpoint::simulated(config, handler, &self.network).unwrap();
        self.endpoints.borrow_mut().push(endpoint.clone());
        endpoint
    }

    /// From now on nodes serve a map of `epoch` by which node `owner` has everything.
    pub(crate) fn move_all_to(&self, owner: u64, epoch: u64) {
        self.change_all(epoch, |partition| PartitionEntry {
            epoch: partition.epoch + 1,
            primary: Some(NodeId(owner)),
            members: vec![NodeId(owner)],
            is_lost: false,
            ..partition.clone()
        });
    }

    /// From now on nodes serve a map of `epoch` by which everything is lost.
    pub(crate) fn lose_all(&self, epoch: u64) {
        self.change_all(epoch, |partition| PartitionEntry {
            epoch: partition.epoch + 1,
            primary: None,
            is_lost: true,
            ..partition.clone()
        });
    }

    fn change_all(&self, epoch: u64, changed: impl Fn(&PartitionEntry) -> PartitionEntry) {
        let mut map = self.map.lock().unwrap();
        let partitions = map.partitions().iter().map(changed).collect();
        *map = ClusterMap::new(epoch, map.nodes().to_vec(), partitions).unwrap();
    }

    /// How often a node has been asked for the map.
    pub(crate) fn maps_served(&self) -> usize {
        self.maps_served.load(Ordering::Relaxed)
    }

    /// A client that begins with these nodes' addresses.
    pub(crate) fn client(&self, bootstrap: &[u64]) -> Client {
        self.try_client(bootstrap).unwrap()
    }

    pub(crate) fn try_client(&self, bootstrap: &[u64]) -> Result<Client, ClientError> {
        let endpoint = self.endpoint(NodeId::client(5), Arc::new(NoHandler));
        let mut config = ClientConfig::new(bootstrap.iter().map(|id| address(*id).to_string()));
        config.timeout = TIMEOUT;
        self.run(Client::with_endpoint(endpoint, config))
    }

    /// How much virtual time has passed.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().since(Time::ZERO)
    }

    /// Runs `future` until it is done.
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        self.run_until(Duration::MAX, future, |_| {})
    }

    /// The same, with `event` once `after` has passed.
    pub(crate) fn run_until<F: Future>(
        &self,
        after: Duration,
        future: F,
        event: impl FnOnce(&Self),
    ) -> F::Output {
        let event_at = self.clock.now() + after;
        let mut event = Some(event);
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..1_000_000 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            if self.settle() {
                continue;
            }
            if self.clock.now() >= event_at
                && let Some(event) = event.take()
            {
                event(self);
                continue;
            }
            let timers = self.endpoints.borrow().iter().filter_map(Endpoint::next_timer).min();
            let event_at = event.is_some().then_some(event_at);
            let next = self.network.next_event().into_iter().chain(timers).chain(event_at).min();
            self.hand.advance_to(next.expect("nothing will ever happen again"));
        }
        panic!("the future does not end");
    }

    fn settle(&self) -> bool {
        let endpoints = self.endpoints.borrow().clone();
        endpoints.iter().map(Endpoint::turn).fold(false, |any, active| any | active)
    }
}

impl Node {
    /// What the node was asked, the map aside.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        self.operations.lock().unwrap().clone()
    }
}

/// The handler of a node.
struct Scripted {
    map: Option<(Arc<Mutex<ClusterMap>>, Arc<AtomicUsize>)>,
    /// Before that there is no map.
    founded: (Clock, Time),
    script: Box<Script>,
    operations: Arc<Mutex<Vec<Operation>>>,
    network: SimNetwork,
    leases: Arc<Leases>,
}

impl Handler for Scripted {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { panic!("clients only call") };
            let request = Request::decode(incoming.body).unwrap();
            if let Request::Map(request) = request {
                if let Some((map, served)) = &self.map {
                    served.fetch_add(1, Ordering::Relaxed);
                    let (clock, founded_at) = &self.founded;
                    if clock.now() < *founded_at {
                        batch.reply(call, ErrorReply::new(ErrorCode::NotServing));
                        continue;
                    }
                    batch.reply(call, MapReply::new(&map.lock().unwrap(), request));
                }
                continue;
            }
            let is_none = self.leases.lease_ms.load(Ordering::Relaxed) == 0;
            match request {
                Request::OpenClient(_) | Request::RenewClient(_) if is_none => {
                    batch.reply(call, ErrorReply::new(ErrorCode::UnknownOperation));
                    continue;
                }
                Request::OpenClient(_) => {
                    batch.reply(call, self.leases.open());
                    continue;
                }
                Request::RenewClient(_)
                    if self.leases.are_renewed_in_vain.load(Ordering::Relaxed) =>
                {
                    continue;
                }
                Request::RenewClient(RenewClient { client }) => {
                    match self.leases.renew(client) {
                        Some(reply) => batch.reply(call, reply),
                        None => batch.reply(call, ErrorReply::new(ErrorCode::ClientUnknown)),
                    }
                    continue;
                }
                _ => {}
            }
            self.operations.lock().unwrap().push(request.operation());
            match (self.script)(&request) {
                Answer::Reply(bytes) => batch.reply(call, &bytes[..]),
                Answer::Items => batch.reply(call, &all_items(&request)[..]),
                Answer::Silence => {}
                // It is the only one: worlds in which this happens have one node and one client.
                Answer::Close => assert!(self.network.lose_one()),
            }
        }
    }
}

impl Leases {
    fn open(&self) -> OpenClientReply {
        let client = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        OpenClientReply { client, lease_ms: self.lease_ms.load(Ordering::Relaxed) }
    }

    fn renew(&self, client: u64) -> Option<OpenClientReply> {
        self.renewed.fetch_add(1, Ordering::Relaxed);
        let lease_ms = self.lease_ms.load(Ordering::Relaxed);
        let is_known = client > self.forgotten_to.load(Ordering::Relaxed);
        is_known.then_some(OpenClientReply { client, lease_ms })
    }
}

impl Answer {
    pub(crate) fn reply(body: impl Body) -> Self {
        let mut bytes = vec![0; body.len()];
        body.write(&mut bytes);
        Self::Reply(bytes)
    }
}

pub(crate) fn found(value: &[u8], version: u64) -> Answer {
    Answer::reply(GetReply::Found { version: Version(version), value })
}

pub(crate) fn absent() -> Answer {
    Answer::reply(GetReply::Absent { version: Version::NONE })
}

pub(crate) fn put_done(version: u64) -> Answer {
    Answer::reply(PutReply { version: Version(version) })
}

pub(crate) fn deleted(version: u64) -> Answer {
    Answer::reply(DeleteReply { version: Version(version), existed: true })
}

pub(crate) fn refusal(code: ErrorCode) -> Answer {
    Answer::reply(ErrorReply::new(code))
}

pub(crate) fn stats(id: u64, objects: u64) -> Answer {
    let (node, incarnation) = (NodeId(id), Incarnation(1));
    let mut reply = StatsReply { node, incarnation, uptime_ms: 1, counters: Vec::new() };
    reply.push("store.objects", objects);
    Answer::reply(reply)
}

/// The answer to a multi-get: for each index an object, `Err(None)` for one that is left undone, or
/// an error.
pub(crate) fn multi_part(
    request: &Request<'_>,
    item: impl Fn(usize) -> Result<GetReply<'static>, Option<ErrorReply<'static>>>,
) -> Answer {
    let Request::MultiGet(request) = request else { panic!("{request:?} is no multi-get") };
    let mut part = PartBuilder::new();
    for index in 0..request.keys.len() {
        let pushed = match item(index) {
            Ok(reply) => part.push(index, &reply),
            Err(None) => part.push_unprocessed(index),
            Err(Some(error)) => part.push_error(index, &error),
        };
        pushed.unwrap();
    }
    Answer::Reply(part.finish().to_vec())
}

fn all_items(request: &Request<'_>) -> Vec<u8> {
    let Request::MultiPut(request) = request else { panic!("{request:?} is no multi-put") };
    let mut part = PartBuilder::new();
    for index in 0..request.pairs.len() {
        part.push(index, &PutReply { version: Version(1) }).unwrap();
    }
    part.finish().to_vec()
}

pub(crate) fn address(id: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, id as u8], 7400))
}

/// A key, with a hash tag, that belongs to node `owner` of `nodes` by the first map.
pub(crate) fn key_of(owner: u64, nodes: u64) -> String {
    let map = even_map(nodes, 1);
    let owned = |key: &String| map.owner_of(Slot::of(key.as_bytes())).unwrap().id.0 == owner;
    (0..).map(|number| format!("{{{number}}}")).find(owned).unwrap()
}

fn even_map(nodes: u64, epoch: u64) -> ClusterMap {
    let entry = |id| NodeEntry {
        id: NodeId(id),
        incarnation: Incarnation(1),
        address: address(id).to_string(),
    };
    ClusterMap::even((1..=nodes).map(entry).collect(), 8, epoch).unwrap()
}
