//! References go when nobody uses them, whatever becomes of the call or the connection that they came by, and at nobody else's cost.

use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::time::Duration;

use weft_object::service;
use weft_object::service::{Client as _, Refusal, ServiceError, Services, ServicesConfig};
use weft_transport::{
    Batch, Charge, Connection, Endpoint, EndpointConfig, Handler, Incarnation, LinkPolicy,
    NoHandler, NodeId, Purpose, Retained,
};

use crate::world::{World, endpoint, handled_by, memory, next_client, soon, wait_until};

#[service]
trait Listener {
    fn told(&self, number: u64) -> u64;
}

#[service]
trait Board {
    fn join(&self, listener: ListenerClient);
    fn join_both(&self, one: ListenerClient, other: ListenerClient);
    /// Gives up all listeners.
    fn forget(&self);
    /// Keeps the listener, and answers when the gate is open.
    #[blocking]
    fn join_late(&self, listener: ListenerClient);
    /// Drops the listeners at once.
    fn hear(&self, one: ListenerClient, other: ListenerClient) -> u64;
    /// Answers when the gate is open.
    #[blocking]
    fn wait(&self);
    #[blocking]
    fn is_here(&self) -> bool;
    fn open(&self, number: u64) -> Arc<dyn Listener>;
}

#[derive(Default)]
struct Keeps {
    listeners: Mutex<Vec<ListenerClient>>,
    is_open: Mutex<bool>,
    opens: Condvar,
}

impl Keeps {
    fn open_gate(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opens.notify_all();
    }

    fn count(&self) -> usize {
        self.listeners.lock().unwrap().len()
    }
}

impl Board for Keeps {
    fn join(&self, listener: ListenerClient) {
        self.listeners.lock().unwrap().push(listener);
    }

    fn join_both(&self, one: ListenerClient, other: ListenerClient) {
        self.listeners.lock().unwrap().extend([one, other]);
    }

    fn forget(&self) {
        self.listeners.lock().unwrap().clear();
    }

    fn join_late(&self, listener: ListenerClient) {
        self.join(listener);
        self.wait();
    }

    fn hear(&self, _: ListenerClient, _: ListenerClient) -> u64 {
        2
    }

    fn wait(&self) {
        let mut is_open = self.is_open.lock().unwrap();
        while !*is_open {
            is_open = self.opens.wait(is_open).unwrap();
        }
    }

    fn is_here(&self) -> bool {
        true
    }

    fn open(&self, number: u64) -> Arc<dyn Listener> {
        Arc::new(Adds(number, Arc::default()))
    }
}

/// Counts those that there are.
struct Adds(u64, Arc<AtomicUsize>);

impl Adds {
    fn listener(alive: &Arc<AtomicUsize>) -> Arc<dyn Listener> {
        alive.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self(1, Arc::clone(alive)))
    }
}

impl Drop for Adds {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Listener for Adds {
    fn told(&self, number: u64) -> u64 {
        self.0 + number
    }
}

fn board(world: &World) -> (Arc<Keeps>, BoardClient) {
    let keeps = Arc::<Keeps>::default();
    world.exporter.export::<dyn Board>("board", Arc::clone(&keeps) as _);
    let client = world.importer.import_blocking::<dyn Board>(&world.connection, "board").unwrap();
    (keeps, client)
}

/// Two nodes that have connected to each other: the connection that the second imported by has made way.
struct Met {
    services: [Services; 2],
    endpoints: [Endpoint; 2],
    keeps: Arc<Keeps>,
    client: BoardClient,
}

impl Met {
    fn new() -> Self {
        let services = [Services::new(), Services::new()];
        let endpoints = [1, 2]
            .map(|node| endpoint(NodeId(node), LinkPolicy::Tcp, &services[node as usize - 1]));
        let keeps = Arc::<Keeps>::default();
        services[0].export::<dyn Board>("board", Arc::clone(&keeps) as _);
        let listen = |endpoint: &Endpoint| endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let [first, second] = &endpoints;
        let addresses = [first, second].map(listen);
        let connect = |from: &Endpoint, to| -> Connection {
            from.block_on(from.connect(addresses[to], soon(from))).unwrap()
        };
        let connection = connect(second, 0);
        let client = services[1].import_blocking::<dyn Board>(&connection, "board").unwrap();
        assert_eq!(services[0].references(), 1);
        let used = connect(first, 1);
        wait_until(second, "the end of the first", || !connection.is_open());
        assert!(used.is_open());
        Self { services, endpoints, keeps, client }
    }
}

#[test]
fn a_proxy_whose_connection_has_made_way_is_released_by_the_other() {
    let Met { services, endpoints, client, .. } = Met::new();
    drop(client);
    wait_until(&endpoints[1], "the release", || services[0].references() == 0);
}

#[test]
fn the_end_of_a_connection_that_another_has_made_way_for_releases_all() {
    let Met { services, endpoints, client, keeps } = Met::new();
    client.blocking().join(Adds::listener(&Arc::default())).unwrap();
    assert_eq!(services[1].references(), 1);
    endpoints[1].shutdown();
    wait_until(&endpoints[0], "the release", || services[0].references() == 0);
    drop((client, keeps));
    // And at the other side, which nothing had come by.
    let Met { services, endpoints, client, .. } = Met::new();
    client.blocking().join(Adds::listener(&Arc::default())).unwrap();
    endpoints[0].shutdown();
    wait_until(&endpoints[1], "the release", || services[1].references() == 0);
}

#[test]
fn what_a_call_has_passed_that_is_given_up_stays_the_callees_when_its_connection_has_made_way() {
    let Met { services, endpoints, client, keeps } = Met::new();
    let alive = Arc::default();
    let mut call = Box::pin(client.join_late(Adds::listener(&alive)));
    let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending()));
    assert!(endpoints[1].block_on(polled));
    wait_until(&endpoints[1], "the call", || keeps.count() == 1);
    drop(call);
    assert_eq!((alive.load(Ordering::SeqCst), services[1].references()), (1, 1));
    let kept = keeps.listeners.lock().unwrap().pop().unwrap();
    assert_eq!(kept.blocking().told(1).unwrap(), 2);
    drop(kept);
    wait_until(&endpoints[1], "the release", || alive.load(Ordering::SeqCst) == 0);
    keeps.open_gate();
}

#[test]
fn a_call_that_is_refused_here_takes_back_what_it_was_to_pass() {
    let config = ServicesConfig { references_max: 1, ..ServicesConfig::default() };
    let world = World::with(LinkPolicy::Auto, Services::new(), Services::with_config(config));
    let (_, client) = board(&world);
    let alive = Arc::default();
    let error =
        client.blocking().join_both(Adds::listener(&alive), Adds::listener(&alive)).unwrap_err();
    assert_eq!(error, ServiceError::TooManyReferences { limit: 1 });
    assert_eq!((alive.load(Ordering::SeqCst), world.importer.references()), (0, 0));
    client.blocking().join(Adds::listener(&alive)).unwrap();
}

#[test]
fn a_call_that_is_given_up_before_it_has_left_takes_back_what_it_was_to_pass() {
    const WINDOW: u32 = 2 << 20;
    let config = ServicesConfig { threads_max: 1, ..ServicesConfig::default() };
    let services = Services::with_config(config);
    let mut config = EndpointConfig::new(NodeId(1), Incarnation(1), memory());
    config.windows.request = WINDOW;
    let server = Endpoint::start(config, services.handler()).unwrap();
    let keeps = Arc::<Keeps>::default();
    services.export::<dyn Board>("board", Arc::clone(&keeps) as _);
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let importer = Services::new();
    let client = endpoint(next_client(), LinkPolicy::Auto, &importer);
    let connection = client.block_on(client.connect(address, soon(&client))).unwrap();
    let proxy = importer.import_blocking::<dyn Board>(&connection, "board").unwrap();
    // Each takes more than 16 bytes of the window, and gives none back.
    let mut waiting: Vec<_> = (0..WINDOW / 16).map(|_| Box::pin(proxy.wait())).collect();
    client.block_on(poll_fn(|context| {
        let is_pending = waiting.iter_mut().all(|call| call.as_mut().poll(context).is_pending());
        assert!(is_pending);
        Poll::Ready(())
    }));
    let alive = Arc::default();
    let mut join = Box::pin(proxy.join(Adds::listener(&alive)));
    let polled = poll_fn(|context| Poll::Ready(join.as_mut().poll(context).is_pending()));
    assert!(client.block_on(polled));
    assert_eq!(importer.references(), 1);
    drop(join);
    assert_eq!((alive.load(Ordering::SeqCst), importer.references()), (0, 0));
    drop(proxy.join(Adds::listener(&alive)));
    assert_eq!((alive.load(Ordering::SeqCst), importer.references()), (0, 0), "nor polled");
    drop(waiting);
    keeps.open_gate();
}

/// Keeps whatever message comes, and with it the window, until it is told to let go; and counts.
#[derive(Default)]
struct Withholds {
    kept: Mutex<Vec<Retained>>,
    lets_go: AtomicBool,
    count: AtomicUsize,
}

impl Handler for Withholds {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            self.count.fetch_add(1, Ordering::SeqCst);
            if !self.lets_go.load(Ordering::SeqCst) {
                self.kept.lock().unwrap().extend(incoming.retain());
            }
        }
    }
}

/// Passes listeners to a board that drops them, and takes none of the releases.
struct Hostile {
    withholds: Arc<Withholds>,
    registry: Services,
    endpoint: Endpoint,
    connection: Connection,
    board: BlockingBoardClient,
    listener: Arc<dyn Listener>,
}

impl Hostile {
    fn new(address: SocketAddr) -> Self {
        let withholds = Arc::<Withholds>::default();
        let mut config = EndpointConfig::new(next_client(), Incarnation(1), memory());
        (config.links, config.windows.request) = (LinkPolicy::Tcp, 2 << 20);
        let endpoint = Endpoint::start(config, Arc::clone(&withholds) as _).unwrap();
        let registry = Services::new();
        let (connection, board) = Self::import(&endpoint, &registry, address);
        let listener = Adds::listener(&Arc::default());
        Self { withholds, registry, endpoint, connection, board, listener }
    }

    fn import(
        endpoint: &Endpoint,
        registry: &Services,
        address: SocketAddr,
    ) -> (Connection, BlockingBoardClient) {
        let connection = endpoint.block_on(endpoint.connect(address, soon(endpoint))).unwrap();
        let board = registry.import_blocking::<dyn Board>(&connection, "board").unwrap();
        (connection, board.blocking())
    }

    fn pass_two(&self) -> Result<usize, ServiceError> {
        let two = self.board.hear(Arc::clone(&self.listener), Arc::clone(&self.listener));
        two.map(|two| two as usize)
    }

    /// Passes as many as the board takes. Returns how many, and why it takes no more.
    fn pass_all(&self) -> (usize, Option<ServiceError>) {
        let mut passed = 0;
        while passed < 100_000 {
            match self.pass_two() {
                Ok(two) => passed += two,
                Err(error) => return (passed, Some(error)),
            }
        }
        (passed, None)
    }
}

/// A server that takes few references of a peer, and has one thread.
fn narrow_server() -> (Services, Endpoint, SocketAddr) {
    let config = ServicesConfig { received_max: 100, threads_max: 1, ..ServicesConfig::default() };
    let services = Services::with_config(config);
    let server = endpoint(NodeId(1), LinkPolicy::Tcp, &services);
    services.export::<dyn Board>("board", Arc::<Keeps>::default());
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    (services, server, address)
}

#[test]
fn a_peer_that_takes_no_releases_takes_no_threads_and_passes_no_more_than_it_may() {
    let (_services, _server, address) = narrow_server();
    let services = Services::new();
    let client = endpoint(next_client(), LinkPolicy::Tcp, &services);
    let (_, honest) = Hostile::import(&client, &services, address);
    let hostile = Hostile::new(address);
    let (passed, refused) = hostile.pass_all();
    assert!(honest.is_here().unwrap(), "there is a thread for it");
    assert_eq!(refused, Some(ServiceError::Refused(Refusal::TooManyReferences)));
    // What was refused has been taken back, and is not released there.
    assert_eq!(hostile.registry.references(), passed);
    let Hostile { withholds, endpoint, .. } = &hostile;
    withholds.lets_go.store(true, Ordering::SeqCst);
    drop(std::mem::take(&mut *withholds.kept.lock().unwrap()));
    wait_until(endpoint, "all releases", || withholds.count.load(Ordering::SeqCst) >= passed);
    wait_until(endpoint, "room for more", || hostile.pass_two().is_ok());
}

#[test]
fn what_waits_to_be_released_ends_with_its_connection() {
    let (services, _server, address) = narrow_server();
    let mut hostile = Hostile::new(address);
    assert!(hostile.pass_all().1.is_some());
    hostile.connection.close();
    drop(std::mem::take(&mut *hostile.withholds.kept.lock().unwrap()));
    wait_until(&hostile.endpoint, "the end", || services.references() == 0);
    // The same life of the same node, of which nothing is left.
    let Hostile { endpoint, registry, .. } = &hostile;
    (hostile.connection, hostile.board) = Hostile::import(endpoint, registry, address);
    for _ in 0..100 {
        hostile.pass_two().unwrap();
    }
}

#[test]
fn a_release_that_finds_no_memory_is_sent_when_there_is_some() {
    let world = World::new(LinkPolicy::Tcp);
    let (_, client) = board(&world);
    let taken = take_all(&world.client);
    // A thread that has sent nothing yet has to have memory for that first.
    std::thread::spawn(move || drop(client)).join().unwrap();
    drop(taken);
    wait_until(&world.client, "the release", || world.exporter.references() == 0);
}

#[test]
fn who_holds_as_many_as_a_peer_may_give_releases_what_is_one_more() {
    let config = ServicesConfig { received_max: 2, ..ServicesConfig::default() };
    let world = World::with(LinkPolicy::Auto, Services::new(), Services::with_config(config));
    let (_, client) = board(&world);
    let client = client.blocking();
    let one = client.open(1).unwrap();
    let error = client.open(2).unwrap_err();
    assert!(error.to_string().contains('2'), "{error}");
    wait_until(&world.client, "its release", || world.exporter.references() == 2);
    drop(one);
    wait_until(&world.client, "a release", || world.exporter.references() == 1);
    assert_eq!(client.open(2).unwrap().blocking().told(1).unwrap(), 3);
}

thread_local! {
    static KEPT: RefCell<Option<BoardClient>> = const { RefCell::new(None) };
}

#[test]
fn a_proxy_that_a_thread_keeps_is_released_when_that_ends() {
    let world = World::new(LinkPolicy::Auto);
    let (_, client) = board(&world);
    let thread = std::thread::spawn(move || {
        // Before anything of the transport's, which is gone first then.
        KEPT.with(|kept| drop(kept.borrow_mut().take()));
        assert!(client.blocking().is_here().unwrap());
        KEPT.with(|kept| *kept.borrow_mut() = Some(client));
    });
    thread.join().unwrap();
    wait_until(&world.client, "the release", || world.exporter.references() == 0);
}

/// All memory of an endpoint but that of its sessions.
fn take_all(endpoint: &Endpoint) -> Vec<Charge> {
    let memory = endpoint.memory();
    let mut taken = Vec::new();
    let mut bytes = memory.free_bytes();
    while bytes > 0 {
        match memory.charge(bytes, Purpose::Receive) {
            Ok(charge) => taken.push(charge),
            Err(_) => bytes /= 2,
        }
    }
    taken
}

#[test]
fn a_call_that_cannot_be_kept_takes_back_what_it_has_passed() {
    let world = World::new(LinkPolicy::Auto);
    let (keeps, client) = board(&world);
    keeps.open_gate();
    let alive = Arc::default();
    let client = client.within(Duration::from_secs(5)).blocking();
    client.join_late(Adds::listener(&alive)).unwrap();
    let taken = take_all(&world.server);
    let error = client.join_late(Adds::listener(&alive)).unwrap_err();
    drop(taken);
    assert_eq!((keeps.count(), world.importer.references()), (1, 1), "{error}");
    assert_eq!(error, ServiceError::Refused(Refusal::Memory));
}

#[test]
fn a_registry_that_is_closed_lets_go_of_objects_that_lead_back_to_it() {
    let world = World::new(LinkPolicy::Auto);
    let (keeps, client) = board(&world);
    let alive = Arc::default();
    client.blocking().join(Adds::listener(&alive)).unwrap();
    let keeps = (Arc::downgrade(&keeps), drop(keeps)).0;
    world.client.shutdown();
    world.server.shutdown();
    let World { exporter, importer, server, client: endpoint, connection } = world;
    exporter.close();
    importer.close();
    drop((exporter, importer, server, endpoint, connection, client));
    // A thread of the registry's own may be the last to hold it.
    let clock = handled_by(next_client(), Arc::new(NoHandler));
    wait_until(&clock, "the end of all", || {
        keeps.upgrade().is_none() && alive.load(Ordering::SeqCst) == 0
    });
}
