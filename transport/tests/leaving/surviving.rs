//! What goes on when a handler panics: the threads that drive, and what they and others wait for.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use weft_transport::{
    Batch, CallError, Clock, Connection, Endpoint, EndpointConfig, Handler, HandlerPool,
    Incarnation, IncomingKind, Memory, MemoryConfig, MessageHandler, Messages, NoHandler, NodeId,
    PooledMessages, SimConfig, SimNetwork, Time,
};

use super::handlers::drive_in_block_on;
use super::panics::{ByPool, Noting, end_what_goes_on};
use super::waiting::Keeping;
use super::{LINKS, PATIENCE, connect, endpoint, listen, wait_until};

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

/// Whoever drives goes on with the turn.
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
                end_what_goes_on(&server, driver);
            }
        }
    }
}

/// Panics for the clumsy itself, and has a pool answer everybody else, which asks a third node first.
struct Asking {
    pool: HandlerPool,
}

const CLUMSY: NodeId = NodeId(66);

impl Handler for Asking {
    fn handle(&self, batch: &mut Batch<'_>) {
        assert!(batch.peer().node != CLUMSY, "as it was told");
        self.pool.take_all(batch);
    }
}

#[derive(Default)]
struct Asked {
    third: OnceLock<(Endpoint, Connection)>,
    asks: AtomicBool,
}

impl MessageHandler for Asked {
    fn key(&self, _: &[u8]) -> u64 {
        0
    }

    fn handle(&self, messages: &mut PooledMessages<'_>) {
        while messages.next().is_some() {
            let (endpoint, third) = self.third.get().unwrap();
            self.asks.store(true, Ordering::SeqCst);
            let by = endpoint.clock().now() + PATIENCE;
            let answer = endpoint.block_on(third.call(&b"pause"[..], by)).unwrap();
            messages.responder().unwrap().reply_blocking(&answer[..]).unwrap();
        }
    }
}

/// Of a thread that drives while it waits, nobody but the one who made a handler panic is told.
#[test]
fn who_drives_while_a_handler_panics_has_what_it_waits_for() {
    for links in LINKS {
        let asked = Arc::new(Asked::default());
        let pool = HandlerPool::start(1, Arc::clone(&asked) as _).unwrap();
        let server = endpoint(1, links, 1, Arc::new(Asking { pool }));
        let third = endpoint(4, links, 1, Arc::new(Answering::default()));
        let to_third = connect(&server, listen(&third));
        asked.third.set((server.clone(), to_third)).ok().unwrap();
        let address = listen(&server);
        let clients = [2, CLUMSY.0].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
        let [good, clumsy] = clients.each_ref().map(|client| connect(client, address));
        thread::scope(|scope| {
            let by = clients[0].clock().now() + PATIENCE;
            let call = good.call(&b"ask"[..], by);
            let answered = scope.spawn(|| clients[0].block_on(call));
            wait_until("the pool asks", || asked.asks.load(Ordering::SeqCst));
            thread::sleep(Duration::from_millis(20));
            clients[1].block_on(clumsy.send(&b"panic"[..])).unwrap();
            wait_until("its connection ends", || !clumsy.is_open());
            let answer = answered.join().unwrap().unwrap();
            assert_eq!(&answer[..], b"pause", "over {links}");
        });
        assert!(good.is_open());
        assert!(catch_unwind(AssertUnwindSafe(|| server.shutdown())).is_err());
        // It holds the endpoint whose handler holds it.
        drop(clients);
    }
}

/// Calls somebody who does not answer when it is dropped, and drives until the connection ends.
struct Farewell<'a>(&'a Endpoint, Connection);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        let Self(endpoint, silent) = self;
        let by = Time::MAX;
        assert!(endpoint.block_on(silent.call(&b"call"[..], by)).is_err());
    }
}

/// That it unwinds for a reason of its own is none of the endpoint's business.
#[test]
fn what_was_sent_arrives_though_the_driver_unwinds() {
    const MESSAGES: usize = 60;
    for links in LINKS {
        let silent = endpoint(9, links, 1, Arc::new(Keeping::default()));
        let noting = Arc::new(Noting::default());
        let peer = endpoint(2, links, 1, Arc::clone(&noting) as _);
        let sender = endpoint(1, links, 1, Arc::new(NoHandler));
        let to_silent = connect(&sender, listen(&silent));
        let to_peer = connect(&sender, listen(&peer));
        sender.block_on(to_peer.send(&b"pause"[..])).unwrap();
        wait_until("it pauses", || !noting.given.lock().unwrap().is_empty());
        let driver = thread::spawn({
            let sender = sender.clone();
            move || {
                let _farewell = Farewell(&sender, to_silent);
                panic!("for a reason of its own");
            }
        });
        thread::sleep(Duration::from_millis(20));
        let message = vec![7; 60_000];
        let sent = (0..MESSAGES).map_while(|_| to_peer.send(&message[..]).now_or_never()).count();
        assert!(sent > 10, "{sent} over {links}");
        sender.shutdown();
        assert!(driver.join().is_err(), "it goes on with its own panic");
        wait_until("all arrive", || noting.given.lock().unwrap().len() == 1 + sent);
    }
}

/// Drops the last clone of another endpoint, and shuts it down before if it is told to.
#[derive(Default)]
struct Dropping(Mutex<Option<Endpoint>>);

impl Handler for Dropping {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let other = self.0.lock().unwrap().take().unwrap();
            if incoming.body == b"shut down" {
                other.shutdown();
            }
        }
    }
}

/// It has no thread that would see to the rest, and nobody is left who could give it a turn.
#[test]
fn a_simulated_endpoint_that_ends_in_a_handler_of_another_leaves_nothing_behind() {
    for how in [&b"shut down"[..], b"drop"] {
        let (clock, hand) = Clock::manual();
        let instant = Duration::ZERO..Duration::ZERO;
        let config = SimConfig { seed: 1, delay: instant, loss: 0.0, partial: 0.0 };
        let network = SimNetwork::new(config, hand);
        let simulated = |node, handler| {
            let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
            let mut config = EndpointConfig::new(NodeId(node), Incarnation(1), memory);
            config.messages = Messages::Handled;
            config.clock = clock.clone();
            Endpoint::simulated(config, handler, &network).unwrap()
        };
        let (dropping, answering) = (Arc::new(Dropping::default()), Arc::new(Answering::default()));
        let one = simulated(1, Arc::clone(&dropping) as _);
        let other = simulated(2, Arc::clone(&answering) as Arc<dyn Handler>);
        let client = simulated(3, Arc::new(NoHandler));
        let turn = |endpoints: &[&Endpoint]| {
            for _ in 0..20 {
                for endpoint in endpoints {
                    endpoint.turn();
                }
            }
        };
        let [to_one, to_other] = [(&one, 1), (&other, 2)].map(|(endpoint, node)| {
            let address = endpoint.listen(SocketAddr::from(([10, 0, 0, node], 1000))).unwrap();
            let mut connected = Box::pin(client.connect(address, Time::MAX));
            assert!((&mut connected).now_or_never().is_none());
            turn(&[&one, &other, &client]);
            connected.now_or_never().unwrap().unwrap()
        });
        *dropping.0.lock().unwrap() = Some(other);
        to_one.send(how).now_or_never().unwrap().unwrap();
        turn(&[&client, &one]);
        assert!(!to_other.is_open(), "the peer is told");
        assert_eq!(Arc::strong_count(&answering), 1, "the handler is let go of");
    }
}

/// Panics instead of waking anybody.
struct Unwaking;

impl Wake for Unwaking {
    fn wake(self: Arc<Self>) {
        panic!("as it was told");
    }
}

/// It takes along neither who waits by other wakers nor the thread that wakes them, and is nothing that a shutdown would tell.
#[test]
fn a_waker_that_panics_keeps_nobody_else_asleep() {
    for links in LINKS {
        let keeping = Arc::new(Keeping::default());
        let server = endpoint(1, links, 1, Arc::clone(&keeping) as _);
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        let waker = Waker::from(Arc::new(Unwaking));
        let unwoken: Vec<_> = (0..3)
            .map(|_| {
                let mut call = Box::pin(connection.call(&b"call"[..], Time::MAX));
                assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                call
            })
            .collect();
        let (woken, wakes) = mpsc::channel();
        for _ in 0..3 {
            let (woken, connection) = (woken.clone(), connection.clone());
            thread::spawn(move || {
                let ended = futures_executor::block_on(connection.call(&b"call"[..], Time::MAX));
                woken.send(ended.map(drop)).unwrap();
            });
        }
        wait_until("all have called", || keeping.count() == 6);
        server.shutdown();
        for _ in 0..3 {
            let ended = wakes.recv_timeout(PATIENCE).expect("it is woken");
            assert!(matches!(ended, Err(CallError::Disconnected { .. })), "{ended:?}");
        }
        drop(unwoken);
        client.shutdown();
    }
}
