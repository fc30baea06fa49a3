//! What a peer costs that speaks verbs and lies: its own connection, soon, and nobody else's.
//!
//! Without a device the cases say so and do nothing; `cargo xtask softroce` runs them with one.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use parking_lot::Mutex;

use super::end::RECEIVE_BYTES;
use super::liar::{Liar, NOBODY, SENDS, answer_for_nobody};
use super::on_device;
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::frame::{Announcement, Class, Header, Kind, frame_len};
use crate::handler::{Batch, Handler, IncomingKind};
use crate::link::verbs_rules::credits::Kind as Credited;
use crate::link::{Link, LinkKind, Source};
use crate::memory::{Memory, MemoryConfig};
use crate::time::Time;

/// Answers calls. At the first message it waits until it has been let go on.
#[derive(Default)]
struct Echo {
    gate: Mutex<Option<Arc<[Barrier; 2]>>>,
}

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, incoming.body);
            } else if let Some(gate) = self.gate.lock().take() {
                for barrier in gate.iter() {
                    barrier.wait();
                }
            }
        }
    }
}

/// A server, and somebody who is connected to it and does nothing wrong.
struct Scene {
    server: Endpoint,
    address: SocketAddr,
    friend: Endpoint,
    connection: Connection,
}

fn start(node: u64, handler: Echo) -> Option<Endpoint> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    on_device::start(node, &memory, Arc::new(handler))
}

impl Scene {
    /// Nothing where there is no device.
    fn new(handler: Echo) -> Option<Self> {
        let server = start(1, handler)?;
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let friend = start(10, Echo::default()).unwrap();
        let connection = friend.block_on(friend.connect(address, deadline(&friend))).unwrap();
        assert_eq!(connection.link(), LinkKind::Verbs);
        Some(Self { server, address, friend, connection })
    }

    /// With a liar that has greeted the server.
    fn with_liar(handler: Echo) -> Option<(Self, Liar)> {
        let scene = Self::new(handler)?;
        let liar = Liar::meet(scene.address, |_| {});
        scene.until(|| scene.server.stats().connections == 2);
        Some((scene, liar))
    }

    fn until(&self, mut is_so: impl FnMut() -> bool) {
        let until = deadline(&self.friend);
        while !is_so() {
            assert!(self.friend.clock().now() < until, "it takes too long");
            self.pause(Duration::from_millis(5));
        }
    }

    fn pause(&self, time: Duration) {
        self.friend.block_on(self.friend.sleep_until(self.friend.clock().now() + time));
    }

    /// The liar's connection ends; the other goes on, with all receives that it may count on, and what is
    /// long is read.
    fn goes_on_alone(&self) {
        let Self { friend, connection, .. } = self;
        // Meanwhile too.
        self.until(|| {
            let reply = friend.block_on(connection.call(b"still here", deadline(friend)));
            assert_eq!(*reply.unwrap(), b"still here"[..]);
            self.server.stats().connections == 1
        });
        friend.block_on(async {
            let calls = (0..64).map(|_| connection.call(&[7; 40_000], deadline(friend)));
            for reply in futures_util::future::join_all(calls).await {
                assert_eq!(reply.unwrap().len(), 40_000);
            }
            let body = vec![9; 3 << 20];
            let reply = connection.call(&body[..], deadline(friend)).await;
            assert!(*reply.unwrap() == body[..], "it came back changed");
        });
    }
}

/// Far enough away that only a hang reaches it.
fn deadline(endpoint: &Endpoint) -> Time {
    endpoint.clock().now() + Duration::from_secs(30)
}

fn frame(kind: Kind, class: Class, body: &[u8]) -> Vec<u8> {
    let header = Header { len: body.len() as u32, kind, class, more: false, id: 1 };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(body);
    bytes.resize(frame_len(body.len()), 0);
    bytes
}

fn message(len: usize) -> Vec<u8> {
    frame(Kind::Message, Class::Request, &vec![3; len])
}

#[test]
fn a_message_that_is_longer_than_a_receive() {
    let Some((scene, mut liar)) = Scene::with_liar(Echo::default()) else { return };
    liar.send(&message(RECEIVE_BYTES), 0);
    scene.goes_on_alone();
    scene.until(|| liar.failed() > 0);
}

#[test]
fn positions_and_kinds_of_messages_that_cannot_be() {
    let Some(scene) = Scene::new(Echo::default()) else { return };
    // More receives posted again than were used, and a kind of message that there is not.
    for immediate in [1 << 20, 3 << 30] {
        let mut liar = Liar::meet(scene.address, |_| {});
        scene.until(|| scene.server.stats().connections == 2);
        liar.send(&message(64), immediate);
        scene.goes_on_alone();
    }
}

#[test]
fn bytes_behind_the_end() {
    let Some((scene, mut liar)) = Scene::with_liar(Echo::default()) else { return };
    liar.send(b"", (Credited::End as u32) << 30);
    liar.send(&message(64), 0);
    scene.goes_on_alone();
}

/// More messages than it has receives for, while the server is busy: they take those of others, whose
/// messages have to wait for as long.
#[test]
fn more_messages_than_there_are_receives_for() {
    let gate = Arc::new([Barrier::new(2), Barrier::new(2)]);
    let handler = Echo { gate: Mutex::new(Some(Arc::clone(&gate))) };
    let Some((scene, mut liar)) = Scene::with_liar(handler) else { return };
    liar.send(&message(64), 0);
    gate[0].wait();
    for _ in 2..SENDS {
        liar.send(&message(64), 0);
    }
    std::thread::scope(|threads| {
        let call = threads.spawn(|| {
            let call = scene.connection.call(b"in between", deadline(&scene.friend));
            scene.friend.block_on(call)
        });
        // Longer than SoftRoCE tries again by the shortest of its timers.
        scene.pause(Duration::from_millis(90));
        gate[1].wait();
        assert_eq!(*call.join().unwrap().unwrap(), b"in between"[..]);
    });
    scene.goes_on_alone();
}

/// A body that is not where it is said to be, or not all of it.
#[test]
fn bodies_that_cannot_be_read() {
    const LEN: u32 = 2 << 20;
    let Some(scene) = Scene::new(Echo::default()) else { return };
    for lie in [(0, 77), (4096, 0), (u64::from(LEN), 0)] {
        let mut liar = Liar::meet(scene.address, |_| {});
        scene.until(|| scene.server.stats().connections == 2);
        let (_exposed, address, key) = liar.expose(LEN as usize);
        let source = Source { address: address + lie.0, key: key ^ lie.1, len: LEN };
        let mut offer = frame(Kind::Source, Class::Reply, &source.encode());
        let announcement = Announcement { total: LEN.into(), kind: Kind::Message };
        offer.extend(frame(Kind::Announce, Class::Request, &announcement.encode()));
        liar.send(&offer, 0);
        scene.goes_on_alone();
    }
}

#[test]
fn memory_that_has_not_been_offered_cannot_be_read() {
    let Some((scene, mut liar)) = Scene::with_liar(Echo::default()) else { return };
    let secret = vec![1u8; 64 << 10];
    liar.read(secret.as_ptr() as u64, 1);
    scene.until(|| liar.failed() > 0);
    drop(liar);
    scene.goes_on_alone();
}

/// Whoever connects names a queue pair that is nobody's, or that of somebody else.
#[test]
fn queue_pairs_of_nobody_and_of_somebody_else() {
    let Some(scene) = Scene::new(Echo::default()) else { return };
    let Link::Verbs(link) = &scene.connection.core.link else { panic!("it is over verbs") };
    let friend = link.end().unwrap().number();
    for pair in [NOBODY, friend] {
        let _liar = Liar::meet(scene.address, |introduction| introduction.address.pair = pair);
        scene.until(|| scene.server.stats().connections == 2);
        // The answer to its hello reaches nobody, or somebody who has not asked.
        scene.goes_on_alone();
    }
}

/// Whoever is connected to names a queue pair that is nobody's.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the stranger")]
fn an_answer_that_names_nobody_s_queue_pair_is_a_refusal() {
    let Some(scene) = Scene::new(Echo::default()) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stranger = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        answer_for_nobody(&mut socket);
        socket
    });
    let refused = scene.friend.block_on(scene.friend.connect(address, deadline(&scene.friend)));
    assert!(matches!(refused, Err(ConnectError::Refused { .. })), "{refused:?}");
    drop(stranger.join());
    scene.goes_on_alone();
}
