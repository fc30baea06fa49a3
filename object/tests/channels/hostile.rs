//! Peers that keep to no rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weft_object::channel::{GraphLimits, GraphSender, ReceiveError, SendGraphError};
use weft_object::{Frozen, Limits};
use weft_transport::{Batch, Connection, EndpointConfig, Handler, IncomingKind, NodeId};
use weft_transport::{Endpoint, Incarnation, LinkPolicy, Memory, MemoryConfig};

use crate::world::{Node, World, on_every_link, types};

/// A message as a sender says it, with whatever is to be said.
fn message(kind: u8, (channel, number, index): (u64, u64, u32), rest: &[u8]) -> Vec<u8> {
    let mut body = b"WCHN\x01".to_vec();
    body.extend([kind, 0, 0]);
    body.extend(channel.to_le_bytes());
    body.extend(number.to_le_bytes());
    body.extend(index.to_le_bytes());
    body.extend([0; 4]);
    body.extend(rest);
    body
}

const OPEN: u8 = 1;
const SEGMENT: u8 = 2;
const LAST: u8 = 3;
const HELD: u8 = 4;
const MORE: u8 = 5;

/// The one segment of a small graph.
fn segment(graph: &Frozen<Node>) -> Vec<u8> {
    let [segment] = graph.segments() else { panic!("it is small") };
    [segment.head(), segment.pages()].concat()
}

async fn call(world: &World, connection: &Connection, body: &[u8]) -> (u32, String) {
    let reply = connection.call(body, world.deadline()).await.unwrap();
    let status = u32::from_le_bytes(reply[..4].try_into().unwrap());
    (status, String::from_utf8(reply[16..].to_vec()).unwrap())
}

async fn open(world: &World, connection: &Connection, channel: u64) {
    let body = message(OPEN, (channel, 0, 0), &types().to_bytes());
    assert_eq!(call(world, connection, &body).await.0, 0);
}

#[test]
fn whatever_breaks_the_rules_ends_its_channel_alone() {
    type Case = fn(&[u8]) -> Vec<(bool, Vec<u8>)>;
    let cases: [(&str, Case); 8] = [
        ("comes twice", |good| {
            let first = message(SEGMENT, (9, 1, 5), good);
            vec![(false, first.clone()), (false, first)]
        }),
        ("was complete", |good| {
            let first = message(LAST, (9, 0, 0), good);
            vec![(true, first), (false, message(SEGMENT, (9, 0, 0), good))]
        }),
        ("was granted", |good| {
            let many = vec![good; 2_000].concat();
            vec![(false, message(SEGMENT, (9, 0, 7), &many))]
        }),
        ("not complete", |good| {
            let mut first = good.to_vec();
            // Neither the last of its graph nor with a root.
            first[6..8].fill(0);
            first[16..22].fill(0);
            vec![(true, message(LAST, (9, 0, 0), &first))]
        }),
        ("larger than any", |_| vec![(true, message(MORE, (9, 1 << 60, 0), &[]))]),
        ("ends within", |good| vec![(true, message(LAST, (9, 0, 0), &good[..20]))]),
        ("segment", |good| {
            let mut bad = good.to_vec();
            bad[0] ^= 1;
            vec![(true, message(LAST, (9, 0, 0), &bad))]
        }),
        ("before they come", |_| {
            (0..1_100).map(|number| (false, message(HELD, (9, number, 0), &[]))).collect()
        }),
    ];
    let limits = GraphLimits {
        per_graph: Limits { bytes: 1 << 20, ..Limits::default() },
        granted_bytes: 100_000,
    };
    on_every_link(limits, |world| {
        let graph = world.ring(1, 10);
        let good = segment(&graph);
        for (expected, case) in &cases {
            world.run(async {
                let connection = world.connect().await;
                open(world, &connection, 9).await;
                let mut receiver = world.listener.accept().await;
                open(world, &connection, 10).await;
                let mut other = world.listener.accept().await;
                let mut under_way = Vec::new();
                for (is_call, body) in case(&good) {
                    if is_call {
                        call(world, &connection, &body).await;
                    } else if body[5] == HELD {
                        let replies = connection.call_streamed(&body[..], world.deadline()).await;
                        under_way.push(replies.unwrap());
                    } else {
                        connection.send(&body[..]).await.unwrap();
                    }
                }
                let ended = loop {
                    if let Err(ended) = receiver.receive().await {
                        break ended;
                    }
                };
                assert!(ended.to_string().contains(expected), "{expected}: {ended}");
                // Who sends goes on being told.
                let body = message(LAST, (9, 50, 0), &good);
                let (status, words) = call(world, &connection, &body).await;
                assert_eq!((status, words.contains(expected)), (2, true), "{words}");
                let body = message(LAST, (10, 0, 0), &good);
                assert_eq!(call(world, &connection, &body).await, (0, String::new()));
                other.receive().await.unwrap();
            });
        }
    });
}

/// Each byte of a small graph's message changed in each bit, and each length.
#[test]
fn damaged_messages_are_answered_and_never_panic() {
    let world = World::simulated(1, GraphLimits::default());
    let graph = world.ring(3, 4);
    let good = message(LAST, (1, 0, 0), &segment(&graph));
    world.run(async {
        let connection = world.connect().await;
        let (mut refused, mut taken) = (0, 0);
        let damaged = (0..good.len() * 8)
            .map(|bit| {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                bad
            })
            .chain((0..good.len()).map(|len| good[..len].to_vec()));
        for (channel, mut bad) in (1_u64..).zip(damaged) {
            open(&world, &connection, channel).await;
            let mut receiver = world.listener.accept().await;
            if bad.len() >= 16 {
                let is_same_channel = bad[8..16] == 1_u64.to_le_bytes();
                if is_same_channel {
                    bad[8..16].copy_from_slice(&channel.to_le_bytes());
                }
            }
            let answered =
                connection.call(&bad[..], world.clock.now() + std::time::Duration::from_secs(1));
            match answered.await {
                Ok(reply) if reply[0] == 0 => taken += 1,
                _ => refused += 1,
            }
            if receiver.is_readable() {
                let graph = receiver.receive().await.unwrap();
                if let Ok(root) = graph.root::<Node>() {
                    graph.text(&root.name);
                    graph.seq(root.numbers);
                }
            }
        }
        assert!(refused > 300 && taken > 100, "{refused} {taken}");
    });
}

#[test]
fn a_graph_of_other_bytes_is_refused_with_its_number() {
    let world = World::simulated(3, GraphLimits::default());
    let graph = world.ring(1, 1);
    let good = segment(&graph);
    world.run(async {
        let connection = world.connect().await;
        open(&world, &connection, 1).await;
        let mut receiver = world.listener.accept().await;
        for number in 0..3 {
            call(&world, &connection, &message(LAST, (1, number, 0), &good)).await;
        }
        let (status, words) = call(&world, &connection, &message(LAST, (1, 3, 0), b"bytes!")).await;
        assert_eq!((status, words.starts_with("graph 3 is refused")), (2, true), "{words}");
        for _ in 0..3 {
            receiver.receive().await.unwrap();
        }
        let ended = receiver.receive().await.unwrap_err();
        assert!(matches!(ended, ReceiveError::Invalid { number: 3, .. }), "{ended}");
    });
}

#[test]
fn numbers_and_lists_beyond_measure_are_answered() {
    let world = World::simulated(5, GraphLimits::default());
    let graph = world.ring(1, 1);
    let good = segment(&graph);
    world.run(async {
        let connection = world.connect().await;
        open(&world, &connection, 1).await;
        let mut receiver = world.listener.accept().await;
        call(&world, &connection, &message(LAST, (1, 0, 0), &good)).await;
        receiver.receive().await.unwrap();
        // Less than has been granted before.
        assert_eq!(call(&world, &connection, &message(MORE, (1, 0, 0), &[])).await.0, 0);
        let beyond = message(MORE, (1, u64::MAX, u32::MAX), &[]);
        assert_eq!(call(&world, &connection, &beyond).await.0, 2);

        let mut told = Vec::new();
        for number in 0..500_u128 {
            told.extend(number.to_le_bytes());
            told.extend(number.to_le_bytes());
            told.push(255);
            told.extend([b'x'; 255]);
        }
        let (status, words) = call(&world, &connection, &message(OPEN, (2, 0, 0), &told)).await;
        assert_eq!((status, words.contains("list of types")), (1, true), "{words}");
    });
}

/// Says of everything that it is done, and grants next to nothing.
#[derive(Default)]
struct Grudging {
    calls: AtomicUsize,
}

impl Handler for Grudging {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                self.calls.fetch_add(1, Ordering::Relaxed);
                batch.reply(call, [&[0; 8][..], &7_u64.to_le_bytes()]);
            }
        }
    }
}

#[test]
fn a_receiver_that_says_it_has_granted_what_it_has_not_is_asked_once() {
    let world = World::real_of(NodeId::client(1), LinkPolicy::Tcp, GraphLimits::default());
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let config = EndpointConfig::new(NodeId(2), Incarnation(1), memory);
    let grudging = Arc::new(Grudging::default());
    let server = Endpoint::start(config, Arc::clone(&grudging) as _).unwrap();
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let graph = world.ring(1, 1);
    let deadline = world.clock.now() + Duration::from_secs(5);
    let sent = world.run(async {
        let connection = world.client.connect(address, deadline).await.unwrap();
        let mut sender = GraphSender::open(&connection, &types(), deadline).await.unwrap();
        sender.send(&graph, deadline).await
    });
    assert_eq!(sent, Err(SendGraphError::NoListener));
    assert_eq!(grudging.calls.load(Ordering::Relaxed), 2, "to open, and for more");
}
