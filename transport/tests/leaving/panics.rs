//! Handlers that panic: what becomes of their connection, of what else came by it, of other connections and of the endpoint.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use std::{pin, thread};

use weft_transport::{
    Batch, CallError, Handler, HandlerPool, IncomingKind, MessageHandler, NoHandler,
    PooledMessages, Time,
};

use super::handlers::drive_in_block_on;
use super::{LINKS, PATIENCE, connect, endpoint, listen, wait_until};

struct Clumsy;

impl MessageHandler for Clumsy {
    fn key(&self, _: &[u8]) -> u64 {
        0
    }

    fn handle(&self, _: &mut PooledMessages<'_>) {
        panic!("as it was told");
    }
}

struct ByPool(HandlerPool);

impl Handler for ByPool {
    fn handle(&self, batch: &mut Batch<'_>) {
        self.0.take_all(batch);
    }
}

/// Nor does it end a process that is unwinding.
#[test]
fn an_endpoint_whose_pool_has_panicked_is_dropped_without_a_panic() {
    for links in LINKS {
        for unwinds in [false, true] {
            let pool = HandlerPool::start(1, Arc::new(Clumsy)).unwrap();
            let server = endpoint(1, links, 1, Arc::new(ByPool(pool)));
            let client = endpoint(2, links, 1, Arc::new(NoHandler));
            let connection = connect(&client, listen(&server));
            client.block_on(connection.send(&b"panic"[..])).unwrap();
            thread::sleep(Duration::from_millis(100));
            let dropped = catch_unwind(AssertUnwindSafe(move || {
                let _server = server;
                assert!(!unwinds, "for a reason of its own");
            }));
            assert_eq!(dropped.is_err(), unwinds);
        }
    }
}

/// Notes what it is given, and panics once.
#[derive(Default)]
struct Noting {
    given: Mutex<Vec<Vec<u8>>>,
    has_panicked: AtomicBool,
}

impl Handler for Noting {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            self.given.lock().unwrap().push(incoming.body.to_vec());
            if incoming.body == b"pause" {
                // What is sent meanwhile comes in one receive.
                thread::sleep(Duration::from_millis(100));
            }
            if incoming.body == b"panic" && !self.has_panicked.swap(true, Ordering::SeqCst) {
                panic!("as it was told");
            }
        }
    }
}

/// The thread that was driving comes back with the panic, and the reactor goes on: not with what had come before, and without the connection that
/// this came by.
#[test]
fn what_a_handler_has_panicked_with_is_not_given_again() {
    for links in LINKS {
        let noting = Arc::new(Noting::default());
        let server = endpoint(1, links, 1, Arc::clone(&noting) as _);
        let (_silent, driver) = drive_in_block_on(&server, links);
        thread::sleep(Duration::from_millis(50));
        let address = listen(&server);
        let clients = [2, 3].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
        let [clumsy, other] = clients.each_ref().map(|client| connect(client, address));
        let call = clients[0].block_on(async {
            // Together, so that there is something behind it.
            clumsy.send(&b"panic"[..]).await.unwrap();
            clumsy.call(&b"behind it"[..], Time::MAX).await
        });
        assert!(matches!(call, Err(CallError::Disconnected { .. })), "{call:?}");
        assert!(driver.join().unwrap(), "the panic is the driver's");
        clients[1].block_on(other.send(&b"next"[..])).unwrap();
        wait_until("the next has come", || noting.given.lock().unwrap().len() > 1);
        thread::sleep(Duration::from_millis(50));
        let given = noting.given.lock().unwrap().clone();
        assert_eq!(given, [&b"panic"[..], b"next"], "over {links}");
    }
}

/// What had landed behind it, such as the head of a streamed body, would be taken for what another peer has sent.
#[test]
fn what_has_landed_behind_a_panic_is_given_to_nobody() {
    for links in LINKS {
        let noting = Arc::new(Noting::default());
        let server = endpoint(1, links, 1, Arc::clone(&noting) as _);
        let (_silent, driver) = drive_in_block_on(&server, links);
        thread::sleep(Duration::from_millis(50));
        let address = listen(&server);
        let clients = [2, 3].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
        let [clumsy, other] = clients.each_ref().map(|client| connect(client, address));
        clients[0].block_on(clumsy.send(&b"pause"[..])).unwrap();
        wait_until("it pauses", || !noting.given.lock().unwrap().is_empty());
        let body = clients[0].block_on(async {
            clumsy.send(&b"panic"[..]).await.unwrap();
            clumsy.send_body(&b"landed"[..], Time::MAX).await
        });
        assert!(driver.join().unwrap(), "the panic is the driver's");
        clients[1].block_on(other.send(&b"next"[..])).unwrap();
        wait_until("the next has come", || noting.given.lock().unwrap().len() > 2);
        thread::sleep(Duration::from_millis(50));
        let given = noting.given.lock().unwrap().clone();
        assert_eq!(given, [&b"pause"[..], b"panic", b"next"], "over {links}");
        drop(body);
        wait_until("its connection ends", || !clumsy.is_open());
    }
}

/// Notes what it is given, replies with it, and panics when it is told to.
#[derive(Default)]
struct Echoing(Mutex<Vec<Vec<u8>>>);

impl MessageHandler for Echoing {
    fn key(&self, _: &[u8]) -> u64 {
        0
    }

    fn handle(&self, messages: &mut PooledMessages<'_>) {
        while let Some(body) = messages.next() {
            self.0.lock().unwrap().push(body.to_vec());
            if body == b"pause" {
                // What comes meanwhile waits in the pool.
                thread::sleep(Duration::from_millis(100));
            }
            assert_ne!(body, b"panic", "as it was told");
            if let Some(responder) = messages.responder() {
                responder.reply_blocking(body).unwrap();
            }
        }
    }
}

#[test]
fn a_pool_outlives_a_panic_and_forsakes_what_came_behind_it() {
    for links in LINKS {
        let echoing = Arc::new(Echoing::default());
        let pool = HandlerPool::start(1, Arc::clone(&echoing) as _).unwrap();
        let server = endpoint(1, links, 1, Arc::new(ByPool(pool)));
        let address = listen(&server);
        let clients = [2, 3].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
        let [clumsy, other] = clients.each_ref().map(|client| connect(client, address));
        let by = || clients[0].clock().now() + PATIENCE;
        let given_up = clients[0].block_on(async {
            for body in ["pause", "panic"] {
                clumsy.send(body.as_bytes()).await.unwrap();
                // So that each comes by a receive of its own.
                clients[0].sleep_until(clients[0].clock().now() + Duration::from_millis(20)).await;
            }
            clumsy.call(&b"behind it"[..], by()).await
        });
        assert!(matches!(given_up, Err(CallError::Disconnected { .. })), "{given_up:?}");
        let reply = clients[1].block_on(other.call(&b"next"[..], by())).unwrap();
        assert_eq!(&reply[..], b"next", "over {links}");
        let given = echoing.0.lock().unwrap().clone();
        assert_eq!(given, [&b"pause"[..], b"panic", b"next"], "over {links}");
    }
}

#[test]
fn a_call_that_a_pool_panics_with_ends_with_its_connection() {
    for links in LINKS {
        let pool = HandlerPool::start(1, Arc::new(Echoing::default())).unwrap();
        let server = endpoint(1, links, 1, Arc::new(ByPool(pool)));
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        let call = connection.call(&b"panic"[..], client.clock().now() + PATIENCE);
        let failed = client.block_on(call);
        assert!(matches!(failed, Err(CallError::Disconnected { .. })), "{failed:?} over {links}");
    }
}

/// Panics once more when it is let go of.
struct Stubborn;

impl Drop for Stubborn {
    fn drop(&mut self) {
        panic_any(Stubborn);
    }
}

/// Replies with what it is given, and panics when it is told to.
#[derive(Default)]
struct Answering {
    is_paused: AtomicBool,
}

impl Answering {
    fn answer(&self, body: &[u8]) {
        match body {
            b"pause" => {
                self.is_paused.store(true, Ordering::SeqCst);
                // What comes meanwhile comes in one turn.
                thread::sleep(Duration::from_millis(100));
            }
            b"panic" => panic!("as it was told"),
            b"panic twice" => panic_any(Stubborn),
            _ => {}
        }
    }
}

impl Handler for Answering {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let (kind, body) = (incoming.kind, incoming.body);
            self.answer(body);
            if let IncomingKind::Call(call) = kind {
                batch.reply(call, body);
            }
        }
    }
}

impl MessageHandler for Answering {
    fn key(&self, _: &[u8]) -> u64 {
        0
    }

    fn handle(&self, messages: &mut PooledMessages<'_>) {
        while let Some(body) = messages.next() {
            self.answer(body);
            if let Some(responder) = messages.responder() {
                responder.reply_blocking(body).unwrap();
            }
        }
    }
}

#[test]
fn the_endpoints_own_thread_outlives_a_panic() {
    for links in LINKS {
        for panics in [&b"panic"[..], b"panic twice"] {
            let server = endpoint(1, links, 1, Arc::new(Answering::default()));
            let address = listen(&server);
            let clients = [2, 3, 4].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
            let [clumsy, other] = [0, 1].map(|number| connect(&clients[number], address));
            let by = |number: usize| clients[number].clock().now() + PATIENCE;
            let ended = clients[0].block_on(clumsy.call(panics, by(0)));
            assert!(matches!(ended, Err(CallError::Disconnected { .. })), "{ended:?}");

            // Nobody but the thread drives.
            let soon = server.clock().now() + Duration::from_millis(50);
            let (slept, sleeps) = mpsc::channel();
            let sleep = server.sleep_until(soon);
            thread::spawn(move || {
                futures_executor::block_on(sleep);
                slept.send(())
            });
            sleeps.recv_timeout(PATIENCE).expect("its timers go on");
            let reply = clients[1].block_on(other.call(&b"next"[..], by(1))).unwrap();
            assert_eq!(&reply[..], b"next", "over {links}");
            let new = connect(&clients[2], address);
            let reply = clients[2].block_on(new.call(&b"new"[..], by(2))).unwrap();
            assert_eq!(&reply[..], b"new", "over {links}");

            let shut_down = catch_unwind(AssertUnwindSafe(|| server.shutdown()));
            assert!(shut_down.is_err(), "it says that a handler has panicked");
            server.shutdown();
        }
    }
}

/// What it has panicked with may be anything.
#[test]
fn a_pool_outlives_what_panics_when_it_is_let_go_of() {
    for links in LINKS {
        let pool = HandlerPool::start(1, Arc::new(Answering::default())).unwrap();
        let server = endpoint(1, links, 1, Arc::new(ByPool(pool)));
        let address = listen(&server);
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        for (body, is_answered) in [(&b"panic twice"[..], false), (b"next", true)] {
            let connection = connect(&client, address);
            let by = client.clock().now() + PATIENCE;
            let called = client.block_on(connection.call(body, by));
            assert_eq!(called.is_ok(), is_answered, "{called:?} over {links}");
            // The connection of the first ends, and the next is another one.
            wait_until("it ends", || is_answered || !connection.is_open());
        }
    }
}

/// Whoever drives ends the turn before it goes on with the panic.
#[test]
fn what_comes_together_with_a_panic_by_other_connections_is_handled() {
    for links in LINKS {
        for in_block_on in [false, true] {
            let answering = Arc::new(Answering::default());
            let server = endpoint(1, links, 1, Arc::clone(&answering) as _);
            let driver = in_block_on.then(|| drive_in_block_on(&server, links));
            thread::sleep(Duration::from_millis(50));
            let address = listen(&server);
            let clients: Vec<_> =
                (2..8).map(|node| endpoint(node, links, 1, Arc::new(NoHandler))).collect();
            let connections: Vec<_> =
                clients.iter().map(|client| connect(client, address)).collect();
            clients[0].block_on(connections[0].send(&b"pause"[..])).unwrap();
            wait_until("it pauses", || answering.is_paused.load(Ordering::SeqCst));
            thread::scope(|scope| {
                // Some before those that panic, and some behind them.
                for (number, (client, connection)) in clients.iter().zip(&connections).enumerate() {
                    let panics = number == 1 || number == 3;
                    scope.spawn(move || {
                        let body = if panics { &b"panic"[..] } else { b"answer" };
                        let by = client.clock().now() + PATIENCE;
                        let called = client.block_on(connection.call(body, by));
                        assert_eq!(called.is_err(), panics, "{called:?}, {number} over {links}");
                    });
                }
            });
            if let Some((_silent, driver)) = driver {
                assert!(driver.join().unwrap(), "the panic is the driver's");
            }
        }
    }
}

/// Panics instead of waking anybody.
struct Unwaking;

impl Wake for Unwaking {
    fn wake(self: Arc<Self>) {
        panic!("as it was told");
    }
}

/// That is none of a handler's.
#[test]
fn an_endpoint_whose_thread_a_waker_ends_says_so_when_it_is_shut_down() {
    for links in LINKS {
        let server = endpoint(1, links, 1, Arc::new(Answering::default()));
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        let waker = Waker::from(Arc::new(Unwaking));
        let mut call = pin::pin!(connection.call(&b"call"[..], Time::MAX));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        thread::sleep(Duration::from_millis(100));
        let shut_down = catch_unwind(AssertUnwindSafe(|| client.shutdown()));
        assert!(shut_down.is_err(), "over {links}");
        client.shutdown();
        wait_until("the peer is told", || server.stats().connections == 0);
    }
}
