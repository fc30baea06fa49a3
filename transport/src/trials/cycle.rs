//! Three nodes in a ring, each a client of the next, which asks its own next one before it answers: windows
//! are full everywhere, and still everything ends.
//!
//! A node keeps a request, and so holds window of its class, until its backup has answered; of a body that is
//! streamed behind one, what has come. The backup is asked in a class of its own, and answers in a third:
//! whoever waits for window waits for one who waits for less. In one and the same class, all three wait for each
//! other, and the trial says so.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::connection::BodyReader;
use crate::frame::{Class, Kind, frame_len};
use crate::handler::{Batch, CallId, IncomingKind, Retained};
use crate::handshake::Windows;
use crate::limits::{MESSAGE_MAX, WINDOW_MIN};
use crate::local;
use crate::session::call::Sent;
use crate::session::outbound::Unannounced;
use crate::session::record::write_record;
use crate::sync::Mutex;

const NODES: usize = 3;

/// What a body says about itself first: a client's request, or one of a primary to its backup.
const ASKED: u8 = 1;
const BACKED_UP: u8 = 2;

/// What a client has asked: at once, or with a body that is streamed behind.
enum Asked {
    Whole(Retained),
    Streamed(BodyReader),
}

/// Keeps what clients ask, for the node's task; answers a primary at once.
#[derive(Default)]
struct Primary {
    asked: Mutex<VecDeque<(CallId, Asked)>>,
}

impl Handler for Primary {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            match incoming.body[0] {
                ASKED => {
                    let asked = match incoming.take_body() {
                        Some(body) => Asked::Streamed(body),
                        None => Asked::Whole(
                            incoming.retain().expect("there is memory for two windows"),
                        ),
                    };
                    self.asked.lock().push_back((call, asked));
                }
                _ => batch.reply(call, &[BACKED_UP]),
            }
        }
    }
}

/// Writes a frame in whichever class, when there is window for it. Returns where it lies.
async fn write(core: &Arc<Core>, (kind, class, id): (Kind, Class, u64), body: &[u8]) -> Sent {
    poll_fn(|context| {
        let credit = &core.session.send_credit;
        match credit.reserve_or_wait(class, frame_len(body.len()), context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    let written = local::with_lane(core, |lane| {
        let header = (kind, class, id, false);
        let written = write_record(&mut lane.producer, &core.memory, header, body, None);
        let position = written.map_err(|error| lane.refused(error))?;
        core.session.lanes.announce(Unannounced::of(&lane.producer));
        Ok(Sent { lane: lane.producer.lane().index, position })
    });
    core.send_soon(Unannounced::NONE);
    written.expect("there is memory for what windows let out")
}

/// Calls the peer in whichever class.
async fn call(core: &Arc<Core>, class: Class, body: &[u8]) {
    let calls = &core.session.calls;
    let key = calls.begin(None).expect("there are calls enough");
    drop(calls.open(key, Time::MAX, Waker::noop()));
    calls.written(key, write(core, (Kind::Request, class, key.0), body).await);
    let (reply, last) = poll_fn(|context| calls.poll_reply(key, context.waker())).await;
    assert_eq!((&reply.unwrap()[..], last), (&[BACKED_UP][..], true));
}

/// Calls the peer with a body of `len` bytes behind the request, which is answered when that has been backed up.
async fn stream(connection: &Connection, len: usize) {
    let called = connection.call_body(&[ASKED][..], Time::MAX).await;
    let (mut writer, mut replies) = called.unwrap();
    let writes = async {
        for at in (0..len).step_by(50_000) {
            writer.write(&vec![9; 50_000.min(len - at)]).await.unwrap();
        }
        writer.finish().await.unwrap();
    };
    join(writes, async { replies.next().await.unwrap().unwrap() }).await;
}

/// Whether all that the nodes ask one another is answered, if backups are asked in `class`.
fn ends(seed: u64, class: Class) -> bool {
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::new(seed);
    let primaries: [Arc<Primary>; NODES] = Default::default();
    let addresses = [0, 1, 2].map(|at: usize| {
        let handler = Arc::clone(&primaries[at]) as _;
        world.node(at as u64 + 1, handler, 48 << 20, |config| {
            config.windows =
                Windows { reply: WINDOW_MIN, replication: WINDOW_MIN, request: WINDOW_MIN };
        })
    });
    let next: Vec<Connection> =
        (0..NODES).map(|at| world.connect(at, addresses[(at + 1) % NODES])).collect();
    let previous: Vec<Arc<Core>> = (0..NODES)
        .map(|at| {
            let of = &next[(at + NODES - 1) % NODES].core;
            world.other_end(of, at).expect("it has been connected to")
        })
        .collect();
    // Of the largest size, so that three fill a window, or of any.
    let answered = Arc::new(Mutex::new(0));
    let mut asked = 0;
    for connection in &next {
        for _ in 0..random.random_range(4..16) {
            let largest = random.random_bool(0.7);
            let len = if largest { MESSAGE_MAX } else { random.random_range(1..300_000) };
            let (connection, answered) = (connection.clone(), Arc::clone(&answered));
            if random.random_bool(0.3) {
                asked += 1;
                world.tasks.push(Box::pin(async move {
                    stream(&connection, len).await;
                    *answered.lock() += 1;
                }));
                continue;
            }
            let mut body = vec![9; len];
            body[0] = ASKED;
            asked += 1;
            world.tasks.push(Box::pin(async move {
                connection.call(&body[..], Time::MAX).await.unwrap();
                *answered.lock() += 1;
            }));
        }
    }
    let end = world.after(Duration::from_secs(20));
    while *answered.lock() < asked {
        for at in 0..NODES {
            for (id, kept) in primaries[at].asked.lock().drain(..) {
                let (next, previous) = (Arc::clone(&next[at].core), Arc::clone(&previous[at]));
                let answer = vec![3; random.random_range(1..MESSAGE_MAX)];
                world.tasks.push(Box::pin(async move {
                    match kept {
                        Asked::Whole(kept) => {
                            let mut body = kept.to_vec();
                            body[0] = BACKED_UP;
                            call(&next, class, &body).await;
                        }
                        Asked::Streamed(mut body) => {
                            // Whatever has come is held until its backup has it.
                            while let Some(piece) = body.next().await.unwrap() {
                                let mut part = piece.to_vec();
                                part[0] = BACKED_UP;
                                call(&next, class, &part).await;
                            }
                        }
                    }
                    write(&previous, (Kind::Reply, Class::Reply, id.number()), &answer).await;
                }));
            }
        }
        if !world.step() && (world.clock.now() >= end || !world.advance()) {
            return false;
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn no_cycle_of_three_nodes_locks(seed: u64) {
        prop_assert!(ends(seed, Class::Replication));
    }
}

/// What the classes are for, and that the trial would see it.
#[test]
fn in_one_class_a_cycle_of_three_nodes_locks() {
    assert!((0..4).any(|seed| !ends(seed, Class::Request)));
}
