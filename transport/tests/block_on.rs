//! What `Endpoint::block_on` promises beside the speed of a lone caller.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests do")]

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_util::future::{join_all, select};
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

/// Takes all that comes, and answers nothing.
struct Silent;

impl Handler for Silent {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {}
    }
}

/// A caller that drives the links sleeps in the poller and not where wakers usually find
/// threads: a future that another thread wakes used to be noticed at the next deadline only.
#[test]
fn a_future_that_another_thread_wakes_is_polled_at_once() {
    let server = endpoint(NodeId(1), Arc::new(Silent));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = endpoint(NodeId::client(1), Arc::new(NoHandler));
    let deadline = client.clock().now() + Duration::from_secs(60);
    let connection = client.block_on(client.connect(address, deadline)).unwrap();
    let began = client.clock().now();
    for round in 0..50 {
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
        let told = poll_fn(|context| {
            if done.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            *waker.lock().unwrap() = Some(context.waker().clone());
            Poll::Pending
        });
        // Who waits for a reply too drives; who does not stands aside.
        if round % 2 == 0 {
            let call = std::pin::pin!(connection.call(b"anybody", deadline));
            client.block_on(select(call, told));
        } else {
            client.block_on(told);
        }
        other.join().unwrap();
    }
    let took = client.clock().now().since(began);
    assert!(took < Duration::from_secs(20), "{took:?}: no deadline ended a wait");
}

/// Notes which threads its requests are handled by.
#[derive(Default)]
struct Noting(Mutex<HashSet<thread::ThreadId>>);

impl Handler for Noting {
    fn handle(&self, batch: &mut Batch<'_>) {
        self.0.lock().unwrap().insert(thread::current().id());
        Echo.handle(batch);
    }
}

/// It would take the role of the driver from callers between two calls, who would get their replies by way of the
/// scheduler from then on.
#[test]
fn who_waits_for_a_time_leaves_the_driving_to_others() {
    let noting = Arc::new(Noting::default());
    let server = endpoint(NodeId(1), Arc::clone(&noting) as Arc<dyn Handler>);
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let over = AtomicBool::new(false);
    let calls = thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let client = endpoint(NodeId::client(1), Arc::new(NoHandler));
            let deadline = client.clock().now() + Duration::from_secs(60);
            let connection = client.block_on(client.connect(address, deadline)).unwrap();
            let mut calls = 0;
            while !over.load(Ordering::SeqCst) {
                client.block_on(connection.call(b"caller", deadline)).unwrap();
                calls += 1;
            }
            calls
        });
        for _ in 0..20 {
            let until = server.clock().now() + Duration::from_millis(10);
            server.block_on(server.sleep_until(until));
            assert!(server.clock().now() >= until);
        }
        over.store(true, Ordering::SeqCst);
        calling.join().unwrap()
    });
    assert!(calls > 20, "{calls} calls in 200 ms");
    assert!(!noting.0.lock().unwrap().contains(&thread::current().id()), "a sleeper has driven");
}

/// A time that comes while nobody drives: those who did have gone, and the endpoint's own thread is still out of
/// their way.
#[test]
fn a_timer_comes_in_time_where_callers_have_just_gone() {
    let server = endpoint(NodeId(1), Arc::new(Echo));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = endpoint(NodeId::client(1), Arc::new(NoHandler));
    let deadline = client.clock().now() + Duration::from_secs(60);
    let connection = client.block_on(client.connect(address, deadline)).unwrap();
    let median = || {
        let mut late: Vec<_> = (0..101)
            .map(|_| {
                client.block_on(connection.call(b"caller", deadline)).unwrap();
                let until = client.clock().now() + Duration::from_micros(200);
                client.block_on(client.sleep_until(until));
                client.clock().now().since(until)
            })
            .collect();
        late.sort();
        late[50]
    };
    // It would be up to five milliseconds, until the endpoint's own thread looks. Other processes may be as much
    // of a hindrance, but not for long.
    let medians: Vec<_> = (0..10).map(|_| median()).collect();
    let least = medians.iter().min().unwrap();
    assert!(*least < Duration::from_millis(1), "late in half of all times: {medians:?}");
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
