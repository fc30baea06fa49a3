//! What `Endpoint::block_on` promises beside the speed of a lone caller.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests do")]

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use weft_transport::{
    Batch, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, Memory, MemoryConfig,
    NoHandler, NodeId,
};

struct Echo;

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, incoming.body);
            }
        }
    }
}

fn endpoint(id: NodeId, handler: Arc<dyn Handler>) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 256 << 20 }).unwrap();
    Endpoint::start(EndpointConfig::new(id, Incarnation(1), memory), handler).unwrap()
}

/// The caller drives the links, so it sleeps in the poller and not where wakers usually find
/// threads: a future that another thread wakes used to be noticed at the next deadline only.
#[test]
fn a_future_that_another_thread_wakes_is_polled_at_once() {
    let client = endpoint(NodeId::client(1), Arc::new(NoHandler));
    for _ in 0..50 {
        let done = Arc::new(AtomicBool::new(false));
        let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
        let other = {
            let (done, waker) = (Arc::clone(&done), Arc::clone(&waker));
            thread::spawn(move || {
                loop {
                    // Only once the caller waits is there somebody to wake.
                    if let Some(waker) = waker.lock().unwrap().take() {
                        done.store(true, Ordering::SeqCst);
                        return waker.wake();
                    }
                    thread::yield_now();
                }
            })
        };
        client.block_on(poll_fn(|context| {
            if done.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            *waker.lock().unwrap() = Some(context.waker().clone());
            Poll::Pending
        }));
        other.join().unwrap();
    }
}

#[test]
fn many_threads_share_the_driving() {
    let server = endpoint(NodeId(1), Arc::new(Echo));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = endpoint(NodeId::client(2), Arc::new(NoHandler));
    thread::scope(|scope| {
        for thread in 0..20u64 {
            let client = client.clone();
            scope.spawn(move || {
                let deadline = client.clock().now() + Duration::from_secs(60);
                let connection = client.block_on(client.connect(address, deadline)).unwrap();
                for round in 0..500u64 {
                    let body = (thread << 32 | round).to_le_bytes();
                    let reply = client.block_on(connection.call(&body, deadline)).unwrap();
                    assert_eq!(*reply, body);
                }
            });
        }
    });
}

#[test]
fn a_thread_may_use_two_endpoints_even_one_within_the_other() {
    let server = endpoint(NodeId(1), Arc::new(Echo));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let clients = [3, 4].map(|id| endpoint(NodeId::client(id), Arc::new(NoHandler)));
    let deadline = |client: &Endpoint| client.clock().now() + Duration::from_secs(60);
    let [outer, inner] = &clients;
    for _ in 0..50 {
        outer.block_on(async {
            let connection = outer.connect(address, deadline(outer)).await.unwrap();
            let first = connection.call(b"outer", deadline(outer));
            inner.block_on(async {
                let connection = inner.connect(address, deadline(inner)).await.unwrap();
                connection.call(b"inner", deadline(inner)).await.unwrap();
            });
            assert_eq!(*first.await.unwrap(), b"outer"[..]);
        });
    }
}

#[test]
fn futures_that_run_elsewhere_are_served_while_callers_come_and_go() {
    let server = endpoint(NodeId(1), Arc::new(Echo));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = endpoint(NodeId::client(5), Arc::new(NoHandler));
    let deadline = client.clock().now() + Duration::from_secs(60);
    let connection = client.block_on(client.connect(address, deadline)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            // An executor that knows nothing of endpoints.
            let calls = (0..2000u64).map(|number| {
                let connection = connection.clone();
                async move {
                    let body = number.to_le_bytes();
                    assert_eq!(*connection.call(&body, deadline).await.unwrap(), body);
                }
            });
            futures_executor::block_on(join_all(calls));
        });
        for _ in 0..300 {
            client.block_on(connection.call(b"caller", deadline)).unwrap();
        }
    });
}

/// Whoever waits in `block_on` drives the links, and may have something else to do for long: its future polls itself
/// again and again, or keeps the thread.
#[test]
fn futures_that_keep_their_thread_keep_nobody_else_waiting() {
    let server = endpoint(NodeId(1), Arc::new(Echo));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    for keeps in [false, true] {
        let answered = AtomicBool::new(false);
        let polled = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !polled.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                let client = endpoint(NodeId::client(1), Arc::new(NoHandler));
                let deadline = client.clock().now() + Duration::from_secs(20);
                let called = client.block_on(async {
                    let connection = client.connect(address, deadline).await.ok()?;
                    connection.call(&[7], deadline).await.ok()
                });
                answered.store(true, Ordering::SeqCst);
                assert_eq!(&*called.expect("it is answered in time"), [7]);
            });
            server.block_on(poll_fn(|context| {
                polled.store(true, Ordering::SeqCst);
                while keeps && !answered.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                if answered.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            }));
        });
    }
}
