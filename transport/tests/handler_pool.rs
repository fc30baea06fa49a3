//! Messages and calls that are handled beside the reactor: in order by key, by several threads, and without
//! holding up what else the connection brings.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of it")]

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{join, join_all};
use parking_lot::{Condvar, Mutex};
use weft_transport::{
    Batch, CallError, Connection, Endpoint, EndpointConfig, EndpointError, Handler, HandlerPool,
    Incarnation, IncomingKind, LinkPolicy, Memory, MemoryConfig, MessageHandler, NoHandler, NodeId,
    PooledMessages,
};

const THREADS: usize = 4;
const KEYS: usize = 6;

/// What the pool has seen.
#[derive(Default)]
struct Seen {
    /// By key: the number that comes next, and the thread that has handled it so far.
    keys: [(u64, Option<usize>); KEYS],
    messages: u64,
    /// While it is closed, handlers wait.
    closed: bool,
}

#[derive(Default)]
struct Checking {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Checking {
    fn wait_for(&self, messages: u64) {
        let mut seen = self.seen.lock();
        self.changed.wait_while(&mut seen, |seen| seen.messages < messages);
        assert_eq!(seen.messages, messages);
    }

    fn open(&self) {
        self.seen.lock().closed = false;
        self.changed.notify_all();
    }
}

impl MessageHandler for Checking {
    fn key(&self, body: &[u8]) -> u64 {
        u64::from(body[0])
    }

    fn handle(&self, messages: &mut PooledMessages<'_>) {
        assert!(messages.peer().node.0 > 0);
        let thread = messages.thread();
        for body in messages {
            let (number, filling) = body[1..].split_first_chunk().unwrap();
            let number = u64::from_le_bytes(*number);
            assert!(filling.iter().all(|byte| *byte == number as u8), "message {number}");
            let mut seen = self.seen.lock();
            self.changed.wait_while(&mut seen, |seen| seen.closed);
            let (next, by) = &mut seen.keys[body[0] as usize];
            assert_eq!(*next, number, "key {}", body[0]);
            assert_eq!(*by.get_or_insert(thread), thread, "key {}", body[0]);
            *next += 1;
            seen.messages += 1;
        }
        self.changed.notify_all();
    }
}

/// Gives messages to a pool, and answers calls.
struct Pooled {
    pool: HandlerPool,
}

impl Handler for Pooled {
    fn handle(&self, batch: &mut Batch<'_>) {
        loop {
            self.pool.take_messages(batch);
            let Some(incoming) = batch.next() else { return };
            let IncomingKind::Call(call) = incoming.kind else {
                panic!("a message that the pool has not taken")
            };
            batch.reply(call, incoming.body);
        }
    }
}

fn endpoint(node: u64, links: LinkPolicy, handler: Arc<dyn Handler>) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 256 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(node), Incarnation(1), memory);
    config.links = links;
    Endpoint::start(config, handler).unwrap()
}

/// A node with a pool, what it checks, and a client that is connected to it.
fn connected(links: LinkPolicy) -> (Endpoint, Arc<Checking>, Endpoint, Connection) {
    let checking = Arc::new(Checking::default());
    let pool = HandlerPool::start(THREADS, Arc::clone(&checking) as _).unwrap();
    let server = endpoint(1, links, Arc::new(Pooled { pool }));
    let address = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let client = endpoint(2, links, Arc::new(NoHandler));
    let deadline = client.clock().now() + Duration::from_secs(30);
    let connection = client.block_on(client.connect(address, deadline)).unwrap();
    (server, checking, client, connection)
}

fn message(key: usize, number: u64, len: usize) -> Vec<u8> {
    let mut body = vec![number as u8; 9 + len];
    body[0] = key as u8;
    body[1..9].copy_from_slice(&number.to_le_bytes());
    body
}

fn call(client: &Endpoint, connection: &Connection) {
    let deadline = client.clock().now() + Duration::from_secs(30);
    let reply = client.block_on(connection.call(&b"hello"[..], deadline)).unwrap();
    assert_eq!(&*reply, b"hello");
}

fn messages_of_a_key_stay_in_order(links: LinkPolicy) {
    const MESSAGES: u64 = 20_000;
    let (server, checking, client, connection) = connected(links);
    std::thread::scope(|scope| {
        for key in 0..KEYS - 1 {
            let (client, connection) = (&client, &connection);
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    // Now and then one that fills a receive buffer, or has one of its own.
                    let len = match number {
                        number if number % 5000 == 4999 => 1 << 19,
                        number if number % 1000 == 999 => 200_000,
                        number => (number % 300) as usize,
                    };
                    let body = message(key, number, len);
                    client.block_on(connection.send(&body[..])).unwrap();
                    if number % 4000 == 0 {
                        call(client, connection);
                    }
                }
            });
        }
    });
    // What comes in chunks lets others go ahead, so it has a key to itself.
    for number in 0..5 {
        let body = message(KEYS - 1, number, 3 << 20);
        client.block_on(connection.send(&body[..])).unwrap();
    }
    checking.wait_for(MESSAGES * (KEYS - 1) as u64 + 5);
    // What the handlers have let go of is given back a moment after the last of them returned.
    while server.stats().retained_bytes > 0 {
        std::thread::yield_now();
    }
}

fn handlers_that_block_hold_up_no_calls(links: LinkPolicy) {
    let (server, checking, client, connection) = connected(links);
    checking.seen.lock().closed = true;
    for number in 0..100 {
        let body = message(0, number, 1000);
        client.block_on(connection.send(&body[..])).unwrap();
    }
    call(&client, &connection);
    assert!(server.stats().retained_bytes >= 100 * 1000);
    assert_eq!(checking.seen.lock().messages, 0);
    checking.open();
    checking.wait_for(100);
}

fn what_waits_when_the_pool_ends_is_handled(links: LinkPolicy) {
    let (server, checking, client, connection) = connected(links);
    checking.seen.lock().closed = true;
    for number in 0..100 {
        for key in 0..KEYS {
            client.block_on(connection.send(&message(key, number, 50)[..])).unwrap();
        }
    }
    call(&client, &connection);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(server));
        checking.open();
    });
    checking.wait_for(100 * KEYS as u64);
}

/// Gives all that comes to a pool.
struct AllPooled {
    pool: HandlerPool,
}

impl Handler for AllPooled {
    fn handle(&self, batch: &mut Batch<'_>) {
        self.pool.take_all(batch);
    }
}

/// Answers each call when a message has come that allows it, but for those that say nothing.
#[derive(Default)]
struct Patient {
    allowed: Mutex<u64>,
    changed: Condvar,
}

impl MessageHandler for Patient {
    fn key(&self, body: &[u8]) -> u64 {
        body.first().map_or(0, |byte| u64::from(*byte))
    }

    fn handle(&self, messages: &mut PooledMessages<'_>) {
        while let Some(body) = messages.next() {
            let Some(responder) = messages.responder() else {
                *self.allowed.lock() += 1;
                self.changed.notify_all();
                continue;
            };
            assert!(messages.responder().is_none(), "there is one of a call");
            if body.is_empty() {
                continue;
            }
            let mut allowed = self.allowed.lock();
            self.changed.wait_while(&mut allowed, |allowed| *allowed == 0);
            *allowed -= 1;
            drop(allowed);
            // The caller may have gone by then.
            let _ = responder.reply_blocking(body);
        }
    }
}

fn calls_may_block_in_the_pool(links: LinkPolicy) {
    let pool = HandlerPool::start(THREADS, Arc::<Patient>::default()).unwrap();
    let server = endpoint(1, links, Arc::new(AllPooled { pool }));
    let address = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let client = endpoint(2, links, Arc::new(NoHandler));
    let deadline = client.clock().now() + Duration::from_secs(30);
    let connection = client.block_on(client.connect(address, deadline)).unwrap();
    client.block_on(async {
        // All of one key, so that one thread of the pool blocks for each of them.
        let bodies: Vec<Vec<u8>> = (0..40).map(|number| vec![1; 1 + number * 40_000]).collect();
        let calls = join_all(bodies.iter().map(|body| connection.call(&body[..], deadline)));
        let allows = async {
            for _ in 0..40 {
                let unanswered = connection.call(&[], deadline).await.unwrap_err();
                assert_eq!(unanswered, CallError::Unanswered);
                connection.send(&[2]).await.unwrap();
            }
        };
        let (replies, ()) = join(calls, allows).await;
        for (reply, body) in replies.into_iter().zip(&bodies) {
            assert!(*reply.unwrap() == body[..]);
        }
    });
    while server.stats().retained_bytes > 0 {
        std::thread::yield_now();
    }
}

const ASKED: u8 = 1;
const BACKED_UP: u8 = 2;

/// Backs up what clients ask at the next node, blocking, before it answers.
#[derive(Default)]
struct BackingUp {
    own: OnceLock<Endpoint>,
    next: OnceLock<Connection>,
}

impl MessageHandler for BackingUp {
    fn key(&self, _: &[u8]) -> u64 {
        0
    }

    fn handle(&self, messages: &mut PooledMessages<'_>) {
        while let Some(body) = messages.next() {
            let responder = messages.responder().unwrap();
            if body == [ASKED] {
                let (own, next) = (self.own.get().unwrap(), self.next.get().unwrap());
                let deadline = own.clock().now() + Duration::from_secs(20);
                own.block_on(next.for_replication().call(&[BACKED_UP], deadline)).unwrap();
            }
            responder.reply_blocking(body).unwrap();
        }
    }
}

/// One thread a node answers clients, and waits for the next node each time.
fn nodes_that_back_up_in_a_ring_do_not_lock(links: LinkPolicy) {
    const NODES: usize = 3;
    let handlers: [Arc<BackingUp>; NODES] = Default::default();
    let nodes = [0, 1, 2].map(|at: usize| {
        let pool = HandlerPool::start(1, Arc::clone(&handlers[at]) as _).unwrap();
        let node = endpoint(at as u64 + 1, links, Arc::new(AllPooled { pool }));
        let address = node.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        (node, address)
    });
    for at in 0..NODES {
        let (own, (_, next)) = (&nodes[at].0, &nodes[(at + 1) % NODES]);
        let deadline = own.clock().now() + Duration::from_secs(30);
        handlers[at].next.set(own.block_on(own.connect(*next, deadline)).unwrap()).unwrap();
        assert!(handlers[at].own.set(own.clone()).is_ok());
    }
    std::thread::scope(|scope| {
        for (number, (_, address)) in nodes.iter().enumerate() {
            scope.spawn(move || {
                let client = endpoint(10 + number as u64, links, Arc::new(NoHandler));
                let deadline = client.clock().now() + Duration::from_secs(30);
                client.block_on(async {
                    let connection = client.connect(*address, deadline).await.unwrap();
                    let calls = (0..200).map(|_| connection.call(&[ASKED], deadline));
                    for reply in join_all(calls).await {
                        assert_eq!(*reply.unwrap(), [ASKED]);
                    }
                });
            });
        }
    });
    // They hold each other.
    nodes.iter().for_each(|(node, _)| node.shutdown());
}

/// Makes a test of each case for each link.
macro_rules! on_every_link {
    ($($case:ident),* $(,)?) => {
        mod tcp { $(#[test] fn $case() { super::$case(super::LinkPolicy::Tcp); })* }
        mod shm { $(#[test] fn $case() { super::$case(super::LinkPolicy::Shm); })* }
    };
}

on_every_link!(
    messages_of_a_key_stay_in_order,
    handlers_that_block_hold_up_no_calls,
    what_waits_when_the_pool_ends_is_handled,
    calls_may_block_in_the_pool,
    nodes_that_back_up_in_a_ring_do_not_lock,
);

#[test]
fn a_pool_without_a_thread_is_refused() {
    let refused = HandlerPool::start(0, Arc::new(Checking::default()));
    assert!(matches!(refused, Err(EndpointError::Config(_))));
}
