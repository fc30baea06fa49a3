//! Who waits for something when the endpoint is shut down, handlers among them.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use weft_transport::limits::{CALLS_MAX, LEAVE_TIMEOUT, WINDOW_MAX};
use weft_transport::{
    Applied, Batch, BodyError, CallError, CloseReason, Connection, Endpoint, EndpointConfig,
    Handler, Incarnation, LinkPolicy, Memory, MemoryConfig, Messages, NoHandler, NodeId, PostError,
    Responder, SendError, Time,
};

use super::{Counting, LINKS, PATIENCE, connect, endpoint, listen, wait_until};

/// A peer whose handler pauses, the connection to it, and whose window is full: the next message waits.
fn to_a_busy_peer(client: &Endpoint, links: LinkPolicy) -> (Endpoint, Connection) {
    let first = LEAVE_TIMEOUT * 9 / 10;
    let server = endpoint(1, links, 1, Arc::new(Counting { first, ..Counting::default() }));
    let connection = connect(client, listen(&server));
    for len in [60_000, 0] {
        let message = vec![7; len];
        while connection.send(&message[..]).now_or_never().is_some() {}
    }
    (server, connection)
}

#[test]
fn who_waits_for_room_is_told_at_once() {
    for links in LINKS {
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let (_server, connection) = to_a_busy_peer(&client, links);
        let posted = connection.register(vec![2; 60_000].into()).unwrap().post_send(60_000);
        let by = client.clock().now() + PATIENCE;
        let closed = || CloseReason::ShutDown;
        let (connection, now) = (&connection, || client.clock().now());
        thread::scope(|scope| {
            let sends = [vec![1; 60_000], vec![1; 2_000_000]].map(|message| {
                scope.spawn(move || {
                    let refused = futures_executor::block_on(connection.send(&message[..]));
                    (refused == Err(SendError::Disconnected(closed())), now())
                })
            });
            let call = scope.spawn(|| {
                let refused = futures_executor::block_on(connection.call(&[1; 60_000][..], by));
                let expected = CallError::Disconnected { applied: Applied::No, reason: closed() };
                (refused.unwrap_err() == expected, now())
            });
            let post = scope.spawn(|| {
                let failed = futures_executor::block_on(posted).unwrap_err();
                (failed.error == PostError::Disconnected(closed()), now())
            });
            thread::sleep(Duration::from_millis(50));
            let begun = now();
            client.shutdown();
            for told in sends.into_iter().chain([call, post]) {
                let (is_refusal, at) = told.join().unwrap();
                assert!(is_refusal && at > begun, "over {links}");
                assert!(at.since(begun) < LEAVE_TIMEOUT / 2, "{:?} over {links}", at.since(begun));
            }
        });
    }
}

#[test]
fn who_waits_for_a_call_slot_is_told_at_once() {
    for links in LINKS {
        let keeping = Arc::new(Keeping::default());
        let server = endpoint(1, links, 1, Arc::clone(&keeping) as _);
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        let mut calls: Vec<_> =
            (0..CALLS_MAX).map(|_| Box::pin(connection.call(&b"call"[..], Time::MAX))).collect();
        for call in &mut calls {
            assert!(call.as_mut().now_or_never().is_none());
        }
        wait_until("all are there", || keeping.0.lock().unwrap().len() == CALLS_MAX);
        // Something holds the connection up, which would tell them by its end.
        let busy = keeping.0.lock().unwrap();
        let message = vec![7; 60_000];
        while connection.send(&message[..]).now_or_never().is_some() {}
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let refused =
                    futures_executor::block_on(connection.call(&b"one more"[..], Time::MAX));
                (refused.unwrap_err(), client.clock().now())
            });
            thread::sleep(Duration::from_millis(50));
            let begun = client.clock().now();
            client.shutdown();
            let (refused, at) = waiting.join().unwrap();
            let reason = CloseReason::ShutDown;
            assert_eq!(refused, CallError::Disconnected { applied: Applied::No, reason });
            assert!(at.since(begun) < LEAVE_TIMEOUT / 2, "{:?} over {links}", at.since(begun));
        });
        drop(busy);
    }
}

/// Sends something to where it is told for each message that comes, and waits for that on the reactor's own thread.
#[derive(Default)]
struct Relaying {
    busy: Mutex<()>,
    to: OnceLock<Connection>,
    refused: AtomicUsize,
}

impl Handler for Relaying {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            drop(self.busy.lock().unwrap());
            if let Some(to) = self.to.get()
                && futures_executor::block_on(to.send(&b"on"[..])).is_err()
            {
                self.refused.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// It comes while the link still has to take what was sent before.
#[test]
fn a_handler_that_sends_during_the_shutdown_is_refused() {
    for links in LINKS {
        let relaying = Arc::new(Relaying::default());
        let client = endpoint(2, links, 1, Arc::clone(&relaying) as _);
        let memory = Memory::new(MemoryConfig { limit_bytes: 512 << 20 }).unwrap();
        let mut config = EndpointConfig::new(NodeId(1), Incarnation(1), memory);
        config.messages = Messages::Handled;
        config.links = links;
        // Room for more than a link holds: what the handler sends would be taken if it were not refused.
        config.windows.request = WINDOW_MAX;
        let first = LEAVE_TIMEOUT * 9 / 10;
        let counting = Arc::new(Counting { first, ..Counting::default() });
        let server = Endpoint::start(config, Arc::clone(&counting) as _).unwrap();
        let connection = connect(&client, listen(&server));
        let message = vec![7; 60_000];
        for _ in 0..200 {
            let sent = connection.send(&message[..]).now_or_never();
            assert!(matches!(sent, Some(Ok(()))));
        }
        relaying.to.set(connection).unwrap();
        thread::scope(|scope| {
            let to_client = server.manager().connection(NodeId(2)).unwrap();
            scope.spawn(move || {
                while to_client.is_open() {
                    let _full_or_closed = to_client.send(&b"relay"[..]).now_or_never();
                    thread::yield_now();
                }
            });
            thread::sleep(Duration::from_millis(50));
            client.shutdown();
        });
        assert!(relaying.refused.load(Ordering::SeqCst) > 0, "over {links}");
    }
}

/// It waits when its endpoint is shut down, or begins to with what has arrived by then.
#[test]
fn a_handler_that_waits_for_room_is_told_so() {
    for links in LINKS {
        for begins_before in [true, false] {
            let relaying = Arc::new(Relaying::default());
            let client = endpoint(2, links, 1, Arc::clone(&relaying) as _);
            let other = endpoint(3, links, 1, Arc::new(NoHandler));
            let to_client = connect(&other, listen(&client));
            let (_server, connection) = to_a_busy_peer(&client, links);
            let busy = relaying.busy.lock().unwrap();
            relaying.to.set(connection).unwrap();
            other.block_on(to_client.send(&b"relay"[..])).unwrap();
            thread::sleep(Duration::from_millis(50));
            let mut busy = Some(busy);
            if begins_before {
                busy = None;
                thread::sleep(Duration::from_millis(50));
            }
            let (done, is_done) = mpsc::channel();
            let ends = client.clone();
            thread::spawn(move || {
                ends.shutdown();
                done.send(()).unwrap();
            });
            thread::sleep(Duration::from_millis(50));
            drop(busy);
            is_done.recv_timeout(PATIENCE).unwrap();
            assert_eq!(relaying.refused.load(Ordering::SeqCst), 1, "{links} {begins_before}");
        }
    }
}

/// Shuts its endpoint down, or drops the last clone of it, and panics.
#[derive(Default)]
struct Failing {
    endpoint: Mutex<Option<Endpoint>>,
}

impl Handler for Failing {
    fn handle(&self, batch: &mut Batch<'_>) {
        let incoming = batch.next().unwrap();
        let endpoint = self.endpoint.lock().unwrap().take().unwrap();
        if incoming.body == b"shut down" {
            endpoint.shutdown();
        }
        drop(endpoint);
        panic!("the handler has been told to panic");
    }
}

#[test]
fn a_handler_that_ends_its_endpoint_and_panics_leaves_nothing_behind() {
    for links in LINKS {
        for what in [&b"shut down"[..], &b"drop"[..]] {
            let failing = Arc::new(Failing::default());
            let server = endpoint(1, links, 1, Arc::clone(&failing) as _);
            let client = endpoint(2, links, 1, Arc::new(NoHandler));
            let address = listen(&server);
            let connection = connect(&client, address);
            *failing.endpoint.lock().unwrap() = Some(server);
            client.block_on(connection.send(what)).unwrap();
            wait_until("the peer is told", || !connection.is_open());
            wait_until("the handler is let go of", || Arc::strong_count(&failing) == 1);
            wait_until("the port is free", || TcpListener::bind(address).is_ok());
        }
    }
}

/// Keeps calls, and answers none.
#[derive(Default)]
pub(super) struct Keeping(Mutex<Vec<Responder>>);

impl Keeping {
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Handler for Keeping {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(mut incoming) = batch.next() {
            self.0.lock().unwrap().extend(incoming.responder());
        }
    }
}

/// Another thread drives, so that timers end before the connection does.
#[test]
fn a_body_whose_endpoint_is_shut_down_blames_nobody() {
    for links in LINKS {
        let keeping = Arc::new(Keeping::default());
        let server = endpoint(1, links, 1, Arc::clone(&keeping) as _);
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        thread::scope(|scope| {
            let unanswered = connection.call(&b"call"[..], Time::MAX);
            scope.spawn(|| client.block_on(unanswered).unwrap_err());
            wait_until("it is called", || !keeping.0.lock().unwrap().is_empty());
            // The handler does not go on before it is let.
            let busy = keeping.0.lock().unwrap();
            let message = vec![7; 60_000];
            while connection.send(&message[..]).now_or_never().is_some() {}
            let finished = scope.spawn(|| {
                futures_executor::block_on(async {
                    let mut writer = connection.send_body(&b"head"[..], Time::MAX).await?;
                    writer.write(&[3; 100_000]).await?;
                    writer.finish().await
                })
            });
            thread::sleep(Duration::from_millis(50));
            client.shutdown();
            let ended = finished.join().unwrap().unwrap_err();
            assert!(!matches!(ended, BodyError::Silent { .. }), "{ended:?} over {links}");
            drop(busy);
        });
    }
}
