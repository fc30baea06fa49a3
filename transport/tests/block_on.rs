//! What `Endpoint::block_on` promises beside the speed of a lone caller.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests do")]

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_util::future::{join_all, select};
use weft_transport::{
    Batch, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, LinkPolicy, Memory,
    MemoryConfig, NoHandler, NodeId,
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
    linked(id, handler, LinkPolicy::Auto)
}

fn linked(id: NodeId, handler: Arc<dyn Handler>, links: LinkPolicy) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 256 << 20 }).unwrap();
    let mut config = EndpointConfig::new(id, Incarnation(1), memory);
    config.links = links;
    Endpoint::start(config, handler).unwrap()
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

/// Counts by which threads its requests are handled.
#[derive(Default)]
struct Noting(Mutex<HashMap<thread::ThreadId, u64>>);

impl Handler for Noting {
    fn handle(&self, batch: &mut Batch<'_>) {
        *self.0.lock().unwrap().entry(thread::current().id()).or_default() += 1;
        Echo.handle(batch);
    }
}

/// It would take the role of the driver from callers between two calls, who would get their replies by way of the
/// scheduler from then on.
#[test]
fn who_waits_for_a_time_leaves_the_driving_to_callers() {
    let noting = Arc::new(Noting::default());
    let node = endpoint(NodeId(1), Arc::clone(&noting) as Arc<dyn Handler>);
    let address = node.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let other = endpoint(NodeId(2), Arc::new(Echo));
    let there = other.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let deadline = node.clock().now() + Duration::from_secs(60);
    let asking = node.block_on(node.connect(there, deadline)).unwrap();
    let telling = other.block_on(other.connect(address, deadline)).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (node, other, over) = (&node, &other, &over);
        scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                node.block_on(asking.call(b"caller", deadline)).unwrap();
            }
        });
        scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                other.block_on(telling.call(b"request", deadline)).unwrap();
            }
        });
        for _ in 0..20 {
            let until = node.clock().now() + Duration::from_millis(10);
            node.block_on(node.sleep_until(until));
            assert!(node.clock().now() >= until);
        }
        over.store(true, Ordering::SeqCst);
    });
    let handled = noting.0.lock().unwrap();
    let asleep = handled.get(&thread::current().id()).copied().unwrap_or(0);
    let all: u64 = handled.values().sum();
    // It may be the first to drive, until a caller interrupts.
    assert!(all > 100 && asleep < all / 10, "{asleep} of {all} by a thread that sleeps");
}

/// Counts the messages that come, for one who waits for them.
#[derive(Default)]
struct Counting(AtomicU64, Mutex<Option<Waker>>);

impl Handler for Counting {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            match incoming.kind {
                IncomingKind::Call(call) => batch.reply(call, incoming.body),
                _ => drop(self.0.fetch_add(1, Ordering::SeqCst)),
            }
        }
        self.1.lock().unwrap().take().into_iter().for_each(Waker::wake);
    }
}

impl Counting {
    async fn wait_for(&self, count: u64) {
        poll_fn(|context| {
            *self.1.lock().unwrap() = Some(context.waker().clone());
            if self.0.load(Ordering::SeqCst) >= count { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

fn median(time: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<_> = std::iter::repeat_with(time).take(501).collect();
    times.sort();
    times[250]
}

/// A handler tells a thread that it has come: nobody but that thread is there to drive meanwhile.
#[test]
fn who_waits_for_what_a_handler_tells_hears_it_at_once() {
    let counting = Arc::new(Counting::default());
    let node = endpoint(NodeId(1), Arc::clone(&counting) as Arc<dyn Handler>);
    let address = node.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let peer = endpoint(NodeId(2), Arc::new(Echo));
    let there = peer.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = endpoint(NodeId::client(3), Arc::new(NoHandler));
    let deadline = client.clock().now() + Duration::from_secs(60);
    let asking = node.block_on(node.connect(there, deadline)).unwrap();
    let telling = client.block_on(client.connect(address, deadline)).unwrap();
    let mut count = 0;
    let half = median(|| {
        // The endpoint's own thread is out of the way for a while after that.
        node.block_on(asking.call(b"caller", deadline)).unwrap();
        count += 1;
        let began = node.clock().now();
        client.block_on(telling.send(b"message")).unwrap();
        node.block_on(counting.wait_for(count));
        node.clock().now().since(began)
    });
    // It would be five to ten milliseconds, until the endpoint's own thread looks.
    assert!(half < Duration::from_millis(2), "{half:?} in half of all times");
}

/// Between calls that a thread makes once in a while nobody drives, so what has come is to be found by the next one.
/// A caller finds its reply without the poller, and used to ask that for others after many calls.
#[test]
#[expect(clippy::disallowed_methods, reason = "threads have something else to do")]
fn who_calls_once_in_a_while_serves_others_each_time() {
    let node = linked(NodeId(1), Arc::new(Echo), LinkPolicy::Tcp);
    let address = node.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let peer = linked(NodeId(2), Arc::new(Echo), LinkPolicy::Tcp);
    let there = peer.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = linked(NodeId::client(3), Arc::new(NoHandler), LinkPolicy::Tcp);
    let deadline = client.clock().now() + Duration::from_secs(60);
    let to_node = client.block_on(client.connect(address, deadline)).unwrap();
    let to_peer = node.block_on(node.connect(there, deadline)).unwrap();
    let (calls, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut calls_until = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                node.block_on(to_peer.call(b"caller", deadline)).unwrap();
                calls.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let calls_until: Vec<_> = (0..51)
            .map(|_| {
                thread::sleep(Duration::from_micros(300));
                let before = calls.load(Ordering::SeqCst);
                client.block_on(to_node.call(b"other", deadline)).unwrap();
                calls.load(Ordering::SeqCst) - before
            })
            .collect();
        over.store(true, Ordering::SeqCst);
        calls_until
    });
    calls_until.sort_unstable();
    assert!(calls_until[40] <= 2, "{calls_until:?} calls until a request was answered");
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
    let half = median(|| {
        client.block_on(connection.call(b"caller", deadline)).unwrap();
        let until = client.clock().now() + Duration::from_micros(200);
        client.block_on(client.sleep_until(until));
        client.clock().now().since(until)
    });
    // It would be up to five milliseconds, until the endpoint's own thread looks.
    assert!(half < Duration::from_millis(2), "{half:?} late in half of all times");
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
