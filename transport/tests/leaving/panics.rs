//! Handlers that panic: what becomes of their connection, of what else came by it, of other connections and of the endpoint.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use weft_transport::{
    Batch, CallError, Endpoint, Handler, HandlerPool, MessageHandler, NoHandler, PooledMessages,
    Time,
};

use super::handlers::drive_in_block_on;
use super::waiting::Keeping;
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

pub(super) struct ByPool(pub(super) HandlerPool);

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
pub(super) struct Noting {
    pub(super) given: Mutex<Vec<Vec<u8>>>,
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

/// Shuts an endpoint down whose handler has panicked on a thread in `block_on`: that thread waits on, and only who shuts down is told.
pub(super) fn end_what_goes_on(server: &Endpoint, driver: thread::JoinHandle<bool>) {
    assert!(!driver.is_finished(), "what it waits for has not come");
    let shut_down = catch_unwind(AssertUnwindSafe(|| server.shutdown()));
    assert!(shut_down.is_err(), "it says that a handler has panicked");
    assert!(!driver.join().unwrap(), "the panic is not the driver's");
}

/// The reactor goes on: not with what had come before, and without the connection that this came by.
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
        clients[1].block_on(other.send(&b"next"[..])).unwrap();
        wait_until("the next has come", || noting.given.lock().unwrap().len() > 1);
        thread::sleep(Duration::from_millis(50));
        let given = noting.given.lock().unwrap().clone();
        assert_eq!(given, [&b"panic"[..], b"next"], "over {links}");
        end_what_goes_on(&server, driver);
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
        clients[1].block_on(other.send(&b"next"[..])).unwrap();
        wait_until("the next has come", || noting.given.lock().unwrap().len() > 2);
        thread::sleep(Duration::from_millis(50));
        let mut given = noting.given.lock().unwrap().clone();
        // Which of two connections is looked at first after the pause is nobody's promise.
        given[1..].sort();
        assert_eq!(given, [&b"pause"[..], b"next", b"panic"], "over {links}");
        drop(body);
        wait_until("its connection ends", || !clumsy.is_open());
        end_what_goes_on(&server, driver);
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

/// Shuts an endpoint down instead of waking anybody.
struct Ending(Endpoint);

impl Wake for Ending {
    fn wake(self: Arc<Self>) {
        self.0.shutdown();
    }
}

/// There it would be caught with whatever the waker panics with.
#[test]
fn a_shutdown_on_the_endpoints_own_thread_leaves_a_panic_to_the_next() {
    for links in LINKS {
        let server = endpoint(1, links, 1, Arc::new(Noting::default()));
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let clumsy = connect(&client, listen(&server));
        client.block_on(clumsy.send(&b"panic"[..])).unwrap();
        wait_until("its connection ends", || !clumsy.is_open());
        let silent = endpoint(3, links, 1, Arc::new(Keeping::default()));
        let connection = connect(&server, listen(&silent));
        let waker = Waker::from(Arc::new(Ending(server.clone())));
        let mut call = Box::pin(connection.call(&b"call"[..], Time::MAX));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        thread::sleep(Duration::from_millis(20));
        silent.shutdown();
        wait_until("it is shut down", || server.listen(([127, 0, 0, 1], 0).into()).is_err());
        let shut_down = catch_unwind(AssertUnwindSafe(|| server.shutdown()));
        assert!(shut_down.is_err(), "over {links}");
    }
}
