//! What an endpoint that is shut down owes to its peers, to its handlers, and to those who wait on it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests do")]
#![expect(clippy::disallowed_methods, reason = "handlers that take their time")]

#[path = "leaving/handlers.rs"]
mod handlers;
#[path = "leaving/panics.rs"]
mod panics;
#[path = "leaving/surviving.rs"]
mod surviving;
#[path = "leaving/waiting.rs"]
mod waiting;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use weft_transport::limits::LEAVE_TIMEOUT;
use weft_transport::{
    Batch, CloseReason, Connection, Endpoint, EndpointConfig, Handler, Incarnation, LinkPolicy,
    Memory, MemoryConfig, Messages, NoHandler, NodeId, SendError, Time,
};

/// What a wait that does not end would outlast.
const PATIENCE: Duration = Duration::from_secs(20);

const LINKS: [LinkPolicy; 2] = [LinkPolicy::Tcp, LinkPolicy::Shm];

fn endpoint(node: u64, links: LinkPolicy, reactors: usize, handler: Arc<dyn Handler>) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 512 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(node), Incarnation(1), memory);
    config.messages = Messages::Handled;
    config.links = links;
    config.reactors = reactors;
    Endpoint::start(config, handler).unwrap()
}

fn listen(server: &Endpoint) -> SocketAddr {
    server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

fn connect(client: &Endpoint, address: SocketAddr) -> Connection {
    let deadline = client.clock().now() + PATIENCE;
    client.block_on(client.connect(address, deadline)).unwrap()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = weft_transport::Clock::system();
    let by = clock.now() + PATIENCE;
    while !is_so() {
        assert!(clock.now() < by, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Counts what comes. Pauses for the first message, and for each of the others.
#[derive(Default)]
struct Counting {
    count: AtomicUsize,
    first: Duration,
    each: Duration,
}

impl Handler for Counting {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            let is_first = self.count.load(Ordering::SeqCst) == 0;
            thread::sleep(if is_first { self.first } else { self.each });
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// It has nearly the second that the link may take: what the peer's socket holds is not lost to a reset before that.
#[test]
fn a_peer_that_pauses_loses_nothing() {
    for links in LINKS {
        for (len, count) in [(20, 60_000), (60_000, 60)] {
            let first = LEAVE_TIMEOUT * 7 / 10;
            let counting = Arc::new(Counting { first, ..Counting::default() });
            let server = endpoint(1, links, 1, Arc::clone(&counting) as _);
            let client = endpoint(2, links, 1, Arc::new(NoHandler));
            let connection = connect(&client, listen(&server));
            let message = vec![7; len];
            for _ in 0..count {
                client.block_on(connection.send(&message[..])).unwrap();
            }
            client.shutdown();
            wait_until(&format!("{count} messages of {len} bytes over {links}"), || {
                counting.count.load(Ordering::SeqCst) == count
            });
        }
    }
}

/// Each of many peers has sent one message, and the handler takes its time with each.
#[test]
fn work_that_has_arrived_does_not_hold_up_the_shutdown_by_the_number_of_peers() {
    const PEERS: u64 = 80;
    for links in LINKS {
        let each = Duration::from_millis(100);
        let counting = Arc::new(Counting { each, ..Counting::default() });
        let server = endpoint(1, links, 1, Arc::clone(&counting) as _);
        let address = listen(&server);
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let first = connect(&client, address);
        let others: Vec<_> = (3..3 + PEERS)
            .map(|node| endpoint(node, links, 1, Arc::new(NoHandler)))
            .map(|client| (connect(&client, address), client))
            .collect();
        client.block_on(first.send(&[7; 4][..])).unwrap();
        for (connection, client) in &others {
            client.block_on(connection.send(&[7; 4][..])).unwrap();
        }
        wait_until("the first is handled", || counting.count.load(Ordering::SeqCst) > 1);
        let begun = server.clock().now();
        server.shutdown();
        let took = server.clock().now().since(begun);
        assert!(took < 4 * LEAVE_TIMEOUT, "{took:?} over {links}");
    }
}

/// Shuts its endpoint down while it holds what another handler waits for.
#[derive(Default)]
struct Resigning {
    endpoint: Mutex<Option<Endpoint>>,
    held: Mutex<()>,
    holds: AtomicBool,
    waits: AtomicBool,
    done: AtomicBool,
}

impl Handler for Resigning {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if incoming.body == b"wait" {
                while !self.holds.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                self.waits.store(true, Ordering::SeqCst);
                drop(self.held.lock().unwrap());
                continue;
            }
            let held = self.held.lock().unwrap();
            self.holds.store(true, Ordering::SeqCst);
            while !self.waits.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            let endpoint = self.endpoint.lock().unwrap().take();
            endpoint.unwrap().shutdown();
            drop(held);
            self.done.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_handler_that_shuts_its_endpoint_down_waits_for_no_other_handler() {
    for links in LINKS {
        let resigning = Arc::new(Resigning::default());
        let server = endpoint(1, links, 2, Arc::clone(&resigning) as _);
        let address = listen(&server);
        *resigning.endpoint.lock().unwrap() = Some(server.clone());
        // Connections are given to reactors in turn.
        let clients = [2, 3].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
        let connections = clients.each_ref().map(|client| connect(client, address));
        clients[0].block_on(connections[0].send(&b"wait"[..])).unwrap();
        clients[1].block_on(connections[1].send(&b"shut down"[..])).unwrap();
        wait_until("the handlers return", || resigning.done.load(Ordering::SeqCst));
        for connection in &connections {
            wait_until("peers are told", || !connection.is_open());
        }
        server.shutdown();
    }
}

/// Panics when it is told to.
struct Clumsy;

impl Handler for Clumsy {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            assert!(incoming.body != b"panic", "the handler has been told to panic");
        }
    }
}

#[test]
fn an_endpoint_whose_handler_has_panicked_ends_all_the_same() {
    for links in LINKS {
        for reactors in [1, 2] {
            let server = endpoint(1, links, reactors, Arc::new(Clumsy));
            let address = listen(&server);
            let clients = [2, 3].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
            let connections = clients.each_ref().map(|client| connect(client, address));
            for (client, connection) in clients.iter().zip(&connections) {
                client.block_on(connection.send(&b"panic"[..])).unwrap();
            }
            let mut events = server.manager().events();
            let mut sleep = pin!(server.sleep_until(Time::MAX));
            assert!(sleep.as_mut().now_or_never().is_none());
            // What has arrived may have to be seen by an endpoint whose threads are all gone.
            thread::sleep(Duration::from_millis(100));
            let shut_down = catch_unwind(AssertUnwindSafe(|| server.shutdown()));
            assert!(shut_down.is_err(), "it says that a handler has panicked");
            assert!(sleep.now_or_never().is_some(), "nobody sleeps on");
            for connection in &connections {
                wait_until("peers are told", || !connection.is_open());
            }
            while events.next().now_or_never().expect("events have an end").is_some() {}
            assert!(catch_unwind(AssertUnwindSafe(|| server.shutdown())).is_ok(), "once");

            // Dropped by a thread that is panicking itself, it does not end the process.
            let dropped = endpoint(1, links, reactors, Arc::new(Clumsy));
            let connection = connect(&clients[0], listen(&dropped));
            clients[0].block_on(connection.send(&b"panic"[..])).unwrap();
            thread::sleep(Duration::from_millis(100));
            let unwound = catch_unwind(AssertUnwindSafe(move || {
                let _dropped = dropped;
                panic!("for a reason of its own");
            }));
            assert!(unwound.is_err());
        }
    }
}

/// What other threads send meanwhile does not take the time that peers have.
#[test]
fn who_sends_on_does_not_hold_up_the_shutdown() {
    for links in LINKS {
        let counting = Arc::new(Counting::default());
        let server = endpoint(1, links, 1, Arc::clone(&counting) as _);
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        thread::scope(|scope| {
            let send = || {
                loop {
                    match connection.send(&[7; 16][..]).now_or_never() {
                        Some(Ok(())) => {}
                        Some(Err(error)) => return error,
                        None => thread::yield_now(),
                    }
                }
            };
            let senders = [(); 3].map(|()| scope.spawn(send));
            wait_until("messages come", || counting.count.load(Ordering::SeqCst) > 1_000);
            let begun = client.clock().now();
            client.shutdown();
            let took = client.clock().now().since(begun);
            assert!(took < LEAVE_TIMEOUT * 9 / 10, "{took:?} over {links}");
            for sender in senders {
                let refused = sender.join().unwrap();
                assert_eq!(refused, SendError::Disconnected(CloseReason::ShutDown));
            }
        });
    }
}

/// It has told nobody of what it has sent, and does something else before it waits for anything.
#[test]
fn what_a_busy_thread_has_sent_arrives() {
    for links in LINKS {
        let counting = Arc::new(Counting::default());
        let server = endpoint(1, links, 1, Arc::clone(&counting) as _);
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        let (sent, is_sent) = mpsc::channel();
        let (done, is_done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (client, connection) = (&client, &connection);
            scope.spawn(move || {
                client.block_on(async {
                    connection.send(&[7; 16][..]).await.unwrap();
                    sent.send(()).unwrap();
                    is_done.recv().unwrap();
                });
            });
            is_sent.recv().unwrap();
            client.shutdown();
            wait_until("it arrives", || counting.count.load(Ordering::SeqCst) == 1);
            done.send(()).unwrap();
        });
    }
}

/// Peers have their time when the handler has had its own.
#[test]
fn a_long_call_of_the_handler_takes_no_time_of_peers() {
    const COUNT: usize = 69;
    let first = Duration::from_millis(300);
    let slow = Counting { first, each: LEAVE_TIMEOUT * 7 / 2, ..Counting::default() };
    let client = endpoint(2, LinkPolicy::Shm, 1, Arc::new(slow));
    let counting = Counting { each: Duration::from_millis(5), ..Counting::default() };
    let counting = Arc::new(counting);
    let server = endpoint(1, LinkPolicy::Shm, 1, Arc::clone(&counting) as _);
    let other = endpoint(3, LinkPolicy::Shm, 1, Arc::new(NoHandler));
    let connection = connect(&client, listen(&server));
    let to_client = connect(&other, listen(&client));
    // The client's handler is at work when it is shut down, and is given the second before the reactor sends anything.
    for _ in 0..2 {
        other.block_on(to_client.send(&[7; 4][..])).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    let message = vec![7; 60_000];
    let sent = (0..COUNT).filter(|_| connection.send(&message[..]).now_or_never().is_some());
    let sent = sent.count();
    client.shutdown();
    wait_until("all of it arrives", || counting.count.load(Ordering::SeqCst) == sent);
}

/// Reads bodies to their end, and says how many bytes they had.
struct Reading(mpsc::Sender<Result<usize, String>>);

impl Handler for Reading {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let (mut body, read) = (incoming.take_body().unwrap(), self.0.clone());
            thread::spawn(move || {
                let len = futures_executor::block_on(async {
                    let mut len = 0;
                    while let Some(bytes) = body.next().await.map_err(|error| error.to_string())? {
                        len += bytes.len();
                    }
                    Ok(len)
                });
                read.send(len).unwrap();
            });
        }
    }
}

#[test]
fn a_streamed_body_that_is_finished_arrives() {
    let body = vec![3; 5_000_000];
    for links in LINKS {
        for round in 0..30 {
            let (read, is_read) = mpsc::channel();
            let server = endpoint(1, links, 1, Arc::new(Reading(read)));
            let client = endpoint(2, links, 1, Arc::new(NoHandler));
            let connection = connect(&client, listen(&server));
            futures_executor::block_on(async {
                let mut writer = connection.send_body(&b"head"[..], Time::MAX).await.unwrap();
                writer.write(&body).await.unwrap();
                writer.finish().await.unwrap();
            });
            client.shutdown();
            let len = is_read.recv_timeout(PATIENCE).unwrap();
            assert_eq!(len, Ok(body.len()), "round {round} over {links}");
        }
    }
}
