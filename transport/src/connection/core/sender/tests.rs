use std::sync::atomic::AtomicU64;
use std::time::Instant;

use parking_lot::Mutex;

use super::*;
use crate::connection::Connection;
use crate::endpoint::{Endpoint, EndpointConfig};
use crate::frame::Class;
use crate::handler::{Batch, Handler, NoHandler};
use crate::identity::{Incarnation, NodeId};
use crate::idle::PollPolicy;
use crate::link::LinkPolicy;
use crate::memory::{Memory, MemoryConfig};

/// Counts bytes, but waits at the gate before that.
#[derive(Default)]
struct Gate {
    gate: Mutex<()>,
    seen: AtomicU64,
}

impl Handler for Gate {
    fn handle(&self, batch: &mut Batch<'_>) {
        let _gate = self.gate.lock();
        while let Some(incoming) = batch.next() {
            self.seen.fetch_add(incoming.body.len() as u64, Ordering::SeqCst);
        }
    }
}

fn endpoint(id: NodeId, handler: Arc<dyn Handler>) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let mut config = EndpointConfig::new(id, Incarnation(1), memory);
    config.poll = PollPolicy::Park;
    config.links = LinkPolicy::Shm;
    Endpoint::start(config, handler).unwrap()
}

/// A client, connected to a server that counts.
struct Pair {
    counting: Arc<Gate>,
    server: Endpoint,
    client: Endpoint,
    connection: Connection,
}

impl Pair {
    fn new() -> Self {
        let counting = Arc::new(Gate::default());
        let server = endpoint(NodeId(1), counting.clone());
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let client = endpoint(NodeId::client(1), Arc::new(NoHandler));
        let deadline = client.clock().now() + Duration::from_secs(20);
        let connection = client.block_on(client.connect(address, deadline)).unwrap();
        Self { counting, server, client, connection }
    }
}

/// Polls until `is_true`, which only a hang keeps from being so.
#[expect(clippy::disallowed_methods, reason = "a test waits for other threads")]
fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test waits for other threads")]
fn a_bell_that_comes_before_a_link_is_known_to_be_full_is_not_missed() {
    const MESSAGE: usize = 64 << 10;
    // More than two rings and what the peer receives at once; less than it grants anew for.
    const MESSAGES: usize = 14;
    let Pair { counting, server: _server, client, connection } = Pair::new();
    let core = &connection.core;

    let gate = counting.gate.lock();
    // Whoever has the sender role finds the link full, and loses its processor before it can say so.
    let mut outbound = core.session.outbound.lock();
    client.block_on(async {
        for _ in 0..MESSAGES {
            connection.send(&[7; MESSAGE][..]).await.unwrap();
        }
    });
    let progress = outbound.transmit(&core.session, &core.link);
    assert_eq!(progress.as_ref().ok(), Some(&Progress::Blocked));
    drop(gate);
    wait_until("the peer has made room", || core.link.has_room());
    // The reactor hears of it, and sleeps again.
    std::thread::sleep(Duration::from_millis(200));
    core.end_transmit(outbound, progress);

    let all = (MESSAGE * MESSAGES) as u64;
    wait_until("all has come", || counting.seen.load(Ordering::SeqCst) == all);
}

/// A grant is left to who has the sender role, as anything is that others have for the peer: it may wait for nothing else.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test waits for other threads")]
fn a_grant_that_becomes_due_while_somebody_has_the_role_is_sent_by_them() {
    const MESSAGE: usize = 64 << 10;
    // More than a window.
    const MESSAGES: usize = 80;
    let Pair { counting, server, client, connection } = Pair::new();
    let reactor = server.common().reactors.get().unwrap()[0].upgrade().unwrap();
    wait_until("the server has it", || reactor.members.lock().len() == 1);
    let core = reactor.members.lock().values().next().unwrap().clone();

    // Whoever has the sender role has sent all there is, and loses its processor before it can give it up.
    let outbound = core.session.outbound.lock();
    let sender = connection.clone();
    let sending = std::thread::spawn(move || {
        client.block_on(async {
            for _ in 0..MESSAGES {
                sender.send(&[7; MESSAGE][..]).await.unwrap();
            }
        });
        client
    });
    let room = || connection.core.session.send_credit.room(Class::Request);
    wait_until("the window is used up", || room() < MESSAGE as u64);
    // The reactor finds that a grant is due, and sleeps again.
    std::thread::sleep(Duration::from_millis(200));
    if core.end_transmit(outbound, Ok(Progress::Done)) {
        core.flush(false);
    }
    let all = (MESSAGE * MESSAGES) as u64;
    wait_until("all has come", || counting.seen.load(Ordering::SeqCst) == all);
    drop(sending.join().unwrap());
}

/// Says that it is there, and is not.
struct Broken(usize);

impl crate::body::Body for Broken {
    fn len(&self) -> usize {
        self.0
    }

    fn write(self, _: &mut [u8]) {
        panic!("on purpose");
    }
}

#[test]
fn a_body_that_panics_takes_no_window() {
    const LEN: usize = 100 << 10;
    let Pair { counting, server: _server, client, connection } = Pair::new();
    let core = &connection.core;
    let deadline = client.clock().now() + Duration::from_secs(20);
    let room = || core.session.send_credit.room(Class::Request);
    let before = room();
    // Many times what there is of it.
    for _ in 0..200 {
        let panics: [&dyn Fn(); 2] =
            [&|| drop(client.block_on(connection.send(Broken(LEN)))), &|| {
                drop(client.block_on(connection.call(Broken(LEN), deadline)))
            }];
        for panics in panics {
            let panics = std::panic::AssertUnwindSafe(panics);
            assert!(std::panic::catch_unwind(panics).is_err());
        }
    }
    assert_eq!((room(), core.session.calls.pending()), (before, 0));
    client.block_on(connection.send(&[7; LEN][..])).unwrap();
    wait_until("it has come", || counting.seen.load(Ordering::SeqCst) == LEN as u64);
}
