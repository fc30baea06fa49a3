//! Methods that block: whose threads they take, what waits for one, and what becomes of that.

use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use weft_object::service;
use weft_object::service::{Blob, Client as _, ServiceError, Services, ServicesConfig};
use weft_transport::{
    Applied, CallError, Connection, Endpoint, EndpointConfig, Incarnation, LinkPolicy, Memory,
    MemoryConfig, NodeId, Purpose,
};

use crate::world::{World, endpoint, memory, next_client, soon, wait_until};

#[service]
trait Gate {
    /// Waits until the gate is open.
    #[blocking]
    fn pass(&self) -> u64;
    #[blocking]
    fn nod(&self) -> u64;
    /// Likewise.
    #[blocking]
    fn blob(&self, len: u64) -> Blob;
    #[blocking]
    fn explode(&self);
}

#[derive(Default)]
struct Gated {
    is_open: Mutex<bool>,
    opened: Condvar,
    begun: AtomicU64,
    blobs: AtomicU64,
}

impl Gated {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        drop(self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
    }

    fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }
}

/// A panic's payload that panics in its turn, for ever.
struct Endless;

impl Drop for Endless {
    fn drop(&mut self) {
        std::panic::panic_any(Endless);
    }
}

impl Gate for Gated {
    fn pass(&self) -> u64 {
        let number = self.begun.fetch_add(1, Ordering::SeqCst);
        self.wait();
        number
    }

    fn nod(&self) -> u64 {
        2
    }

    fn blob(&self, len: u64) -> Blob {
        self.wait();
        self.blobs.fetch_add(1, Ordering::SeqCst);
        vec![1; len as usize].into()
    }

    fn explode(&self) {
        std::panic::panic_any(Endless);
    }
}

/// Exports a gate, with as many threads for methods that block.
fn gate(threads_max: usize) -> (World, Arc<Gated>) {
    let config = ServicesConfig { threads_max, ..ServicesConfig::default() };
    let world = World::with(LinkPolicy::Tcp, Services::with_config(config), Services::new());
    let gated = Arc::<Gated>::default();
    world.exporter.export::<dyn Gate>("gate", Arc::clone(&gated) as _);
    (world, gated)
}

fn import(world: &World) -> GateClient {
    world.importer.import_blocking::<dyn Gate>(&world.connection, "gate").unwrap()
}

/// Another client of the same.
struct Other {
    endpoint: Endpoint,
    connection: Connection,
    gate: GateClient,
}

impl Other {
    fn of(world: &World) -> Self {
        let address = world.connection.peer().address;
        let services = Services::new();
        let endpoint = endpoint(next_client(), LinkPolicy::Tcp, &services);
        let connection = endpoint.block_on(endpoint.connect(address, soon(&endpoint))).unwrap();
        let gate = services.import_blocking::<dyn Gate>(&connection, "gate").unwrap();
        Self { endpoint, connection, gate }
    }

    /// Calls so often without waiting, and returns when all are at the callee.
    fn pass_often(&self, count: usize) {
        let gate = self.gate.within(Duration::from_secs(600));
        let mut calls: Vec<_> = (0..count).map(|_| Box::pin(gate.pass())).collect();
        let all_once = poll_fn(|context| {
            for call in &mut calls {
                assert!(call.as_mut().poll(context).is_pending());
            }
            Poll::Ready(())
        });
        self.endpoint.block_on(all_once);
        // What is sent later arrives later, and is answered at once: by the registry itself.
        let nothing = Services::new().import_blocking::<dyn Gate>(&self.connection, "nothing");
        assert!(nothing.is_err());
    }
}

#[test]
fn one_peers_methods_that_wait_leave_threads_to_others() {
    let (world, gated) = gate(4);
    let (other, client) = (Other::of(&world), import(&world));
    other.pass_often(20);
    assert_eq!(client.blocking().nod(), Ok(2));
    gated.open();
    wait_until(&world.client, "the other's turn, again and again", || gated.begun() == 20);
}

/// A line to `address`, by which nothing comes back while it is held.
#[expect(clippy::disallowed_methods, reason = "bare sockets are the line")]
fn line(address: SocketAddr, held: &Arc<(Mutex<bool>, Condvar)>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, held) = (listener.local_addr().unwrap(), Arc::clone(held));
    thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(address).unwrap();
        let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let mut buffer = [0; 10_000];
        while let Ok(len @ 1..) = far.read(&mut buffer) {
            drop(held.1.wait_while(held.0.lock().unwrap(), |held| *held).unwrap());
            if near.write_all(&buffer[..len]).is_err() {
                return;
            }
        }
    });
    at
}

#[test]
fn replies_that_their_caller_does_not_take_hold_up_its_own_calls_alone() {
    const LEN: u64 = 1_000_000;
    let (world, gated) = gate(4);
    let client = import(&world).blocking();
    let held = Arc::default();
    let address = line(world.connection.peer().address, &held);
    let mut config = EndpointConfig::new(next_client(), Incarnation(1), memory());
    config.links = LinkPolicy::Tcp;
    // Of two replies.
    config.windows.reply = 2 << 20;
    let services = Services::new();
    let other = Endpoint::start(config, services.handler()).unwrap();
    let connection = other.block_on(other.connect(address, soon(&other))).unwrap();
    let gate = services.import_blocking::<dyn Gate>(&connection, "gate").unwrap();
    let gate = gate.within(Duration::from_secs(600));
    // All have come before a reply goes: a peer without window is not even listened to.
    let mut calls: Vec<_> = (0..30).map(|_| Some(Box::pin(gate.blob(LEN)))).collect();
    let mut all_once = |context: &mut Context<'_>| {
        calls.iter_mut().for_each(|waiting| {
            if let Some(call) = waiting
                && let Poll::Ready(blob) = call.as_mut().poll(context)
            {
                assert_eq!(blob.unwrap().len() as u64, LEN);
                *waiting = None;
            }
        });
        calls.iter().all(Option::is_none)
    };
    assert!(!other.block_on(poll_fn(|context| Poll::Ready(all_once(context)))));
    assert!(services.import_blocking::<dyn Gate>(&connection, "nothing").is_err());
    *held.0.lock().unwrap() = true;
    gated.open();
    let blobs = || gated.blobs.load(Ordering::SeqCst);
    wait_until(&world.client, "a reply that has to wait", || blobs() == 3);
    assert_eq!(client.nod(), Ok(2));
    assert_eq!(blobs(), 3, "as many replies wait as it may have calls at once");
    *held.0.lock().unwrap() = false;
    held.1.notify_all();
    let all_done = poll_fn(|context| match all_once(context) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    });
    other.block_on(all_done);
}

#[test]
fn calls_of_a_client_that_is_gone_never_begin_and_its_references_end_though_all_threads_wait() {
    let (world, gated) = gate(1);
    for _ in 0..3 {
        let other = Other::of(&world);
        other.pass_often(50);
        // Else the first client may be gone before the thread has taken a call, and none ever begins.
        wait_until(&world.client, "the first call", || gated.begun() == 1);
        other.endpoint.shutdown();
    }
    wait_until(&world.client, "the end of all references", || world.exporter.references() == 0);
    let client = import(&world);
    let late = thread::spawn(move || client.blocking().nod());
    gated.open();
    assert_eq!(late.join().unwrap(), Ok(2));
    assert_eq!(gated.begun(), 1, "nobody waits for the others");
}

#[test]
fn the_memory_of_calls_that_wait_is_counted_and_comes_back() {
    let (world, gated) = gate(1);
    let used = || world.server.memory().account().allocated_for(Purpose::Receive);
    let (other, before) = (Other::of(&world), used());
    other.pass_often(10_000);
    assert!(used() >= before + 10_000 * 500, "{} and {before}", used());
    other.endpoint.shutdown();
    wait_until(&world.client, "that it is given back", || used() <= before + (1 << 20));
    gated.open();
}

#[test]
fn a_call_that_waits_for_a_thread_fails_at_its_deadline_as_any() {
    let (world, gated) = gate(1);
    let other = Other::of(&world);
    other.pass_often(1);
    wait_until(&world.client, "the first call", || gated.begun() == 1);
    let client = import(&world);
    let error = client.within(Duration::from_millis(50)).blocking().pass().unwrap_err();
    assert_eq!(error, ServiceError::Call(CallError::DeadlineExceeded { applied: Applied::Maybe }));
    assert_eq!(gated.begun(), 1);
    // Its callee does not know of deadlines, only of ends.
    world.connection.close();
    wait_until(&world.client, "the end", || world.exporter.references() == 1);
    gated.open();
    assert_eq!(other.gate.blocking().nod(), Ok(2));
    assert_eq!(gated.begun(), 1);
}

#[test]
fn a_thread_outlives_panics_whatever_they_panic_with() {
    let (world, _) = gate(1);
    let client = import(&world).within(Duration::from_secs(5)).blocking();
    for _ in 0..3 {
        assert_eq!(client.explode(), Err(ServiceError::Call(CallError::Unanswered)));
        assert_eq!(client.nod(), Ok(2));
    }
}

#[service]
trait Bank {
    fn open(&self, len: u64) -> (Arc<dyn Gate>, Blob);
    #[blocking]
    fn open_beside(&self, len: u64) -> (Arc<dyn Gate>, Blob);
}

impl Bank for Gated {
    fn open(&self, len: u64) -> (Arc<dyn Gate>, Blob) {
        (Arc::<Self>::default(), vec![1; len as usize].into())
    }

    fn open_beside(&self, len: u64) -> (Arc<dyn Gate>, Blob) {
        Bank::open(self, len)
    }
}

/// An endpoint with little memory.
fn small(services: &Services) -> (Endpoint, SocketAddr) {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(1), Incarnation(1), memory);
    config.links = LinkPolicy::Tcp;
    let endpoint = Endpoint::start(config, services.handler()).unwrap();
    let address = endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
    (endpoint, address)
}

#[test]
fn references_in_a_result_for_which_there_is_no_memory_are_taken_back() {
    let (exporter, importer) = (Services::new(), Services::new());
    let (_server, address) = small(&exporter);
    exporter.export::<dyn Bank>("bank", Arc::<Gated>::default());
    let client = endpoint(next_client(), LinkPolicy::Tcp, &importer);
    let connection = client.block_on(client.connect(address, soon(&client))).unwrap();
    let bank = importer.import_blocking::<dyn Bank>(&connection, "bank").unwrap().blocking();
    assert_eq!(bank.open(10).unwrap().0.blocking().nod(), Ok(2));
    assert_eq!(bank.open_beside(10).unwrap().0.blocking().nod(), Ok(2));
    let unanswered = Some(ServiceError::Call(CallError::Unanswered));
    for _ in 0..3 {
        assert_eq!(bank.open(64 << 20).err(), unanswered);
        assert_eq!(bank.open_beside(64 << 20).err(), unanswered);
    }
    wait_until(&client, "that all is given back", || exporter.references() == 1);
}
