//! How much may come before anybody receives.

use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, join, select};
use weft_object::Limits;
use weft_object::channel::{GraphLimits, GraphSender, ReceiveError, ReceivedBytes, SendGraphError};

use weft_transport::{Applied, CallError};

use crate::world::{World, fill_window, on_every_link, types, walked};

const LIMITS: GraphLimits = GraphLimits {
    per_graph: Limits { bytes: 8 << 20, records: 1 << 30, pages: 1 << 20 },
    granted_bytes: 100_000,
};

#[test]
fn who_sends_waits_when_nobody_receives() {
    on_every_link(LIMITS, |world| {
        let graph = world.ring(10, 100);
        // Its segments are short, so that they go together.
        assert!(graph.segments().len() > 1);
        let each = graph.len_bytes() as usize + 512;
        let fit = 100_000 / each;
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            for _ in 0..fit {
                sender.send(&graph, world.deadline()).await.unwrap();
            }
            let mut received = 0;
            let soon = world.clock.now() + std::time::Duration::from_millis(20);
            let waits = sender.send(&graph, soon).await.unwrap_err();
            assert!(matches!(waits, SendGraphError::Call(_)), "{waits}");
            // Nothing of it had left, so that the channel goes on; whoever receives makes room.
            let send = async {
                for _ in 0..2 * fit {
                    sender.send(&graph, world.deadline()).await.unwrap();
                }
            };
            let receive = async {
                while received < 3 * fit {
                    assert_eq!(walked(&receiver.receive().await.unwrap()), (10, 100));
                    received += 1;
                }
            };
            join(send, receive).await;
            assert!(receiver.receive().now_or_never().is_none());
        });
    });
}

#[test]
fn a_graph_that_is_larger_than_what_is_granted_comes_when_it_is_its_turn() {
    on_every_link(LIMITS, |world| {
        let (small, large) = (world.ring(1, 10), world.ring(50, 20_000));
        assert!(large.len_bytes() > 3 << 20);
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            let send = async {
                for graph in [&large, &small, &large, &large, &small] {
                    sender.send(graph, world.deadline()).await.unwrap();
                }
            };
            let receive = async {
                for shape in [(50, 20_000), (1, 10), (50, 20_000), (50, 20_000), (1, 10)] {
                    assert_eq!(walked(&receiver.receive().await.unwrap()), shape);
                }
            };
            join(send, receive).await;
            let too_large = world.ring(3, 1_000_000);
            let refused = sender.send(&too_large, world.deadline()).await.unwrap_err();
            assert!(refused.to_string().contains("more than 8388608 bytes"), "{refused}");
        });
    });
}

/// Not even if a peer opens as many channels as it may.
#[test]
fn nothing_is_granted_beyond_the_limit_before_somebody_accepts() {
    on_every_link(LIMITS, |world| {
        let large = world.ring(50, 20_000);
        let before = world.server.memory().account().allocated_bytes;
        world.run(async {
            let mut channels = Vec::new();
            for _ in 0..8 {
                let open = async || {
                    let types = types();
                    let connection = world.connect().await;
                    GraphSender::open(&connection, &types, world.deadline()).await.unwrap()
                };
                let mut sender = open().await;
                let soon = world.clock.now() + Duration::from_millis(5);
                let waits = sender.send(&large, soon).await.unwrap_err();
                let late = CallError::DeadlineExceeded { applied: Applied::Maybe };
                assert_eq!(waits, SendGraphError::Call(late));
                channels.push(sender);
            }
            let granted = world.server.memory().account().allocated_bytes - before;
            assert!(granted < large.len_bytes(), "{granted} bytes");
            for mut sender in channels {
                let receiver = world.listener.accept().await;
                sender.send(&large, world.deadline()).await.unwrap();
                assert!(receiver.is_readable());
            }
        });
    });
}

#[test]
fn what_is_received_and_dropped_leaves_nothing() {
    on_every_link(LIMITS, |world| {
        let graph = world.ring(200, 200);
        let before = world.server.memory().account();
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            for _ in 0..50 {
                sender.send(&graph, world.deadline()).await.unwrap();
                drop(receiver.receive().await.unwrap());
            }
        });
        let stats = world.server.stats();
        assert_eq!(stats.retained_bytes, 0);
        let after = world.server.memory().account();
        // Receive buffers of the connection are there as long as it is.
        assert!(after.allocated_bytes < before.allocated_bytes + (2 << 20), "{after:?}");
    });
}

/// Of the connection's window nobody keeps so much that others have to wait for ever.
#[test]
fn graphs_that_are_kept_hold_up_nobody() {
    on_every_link(GraphLimits::default(), |world| {
        let graph = world.ring(8, 32_000);
        world.run(async {
            let (mut channels, mut kept) = (Vec::new(), Vec::new());
            for _ in 0..5 {
                channels.push(world.channel().await);
            }
            // Three times the window.
            for _ in 0..3 {
                for (sender, receiver) in &mut channels {
                    sender.send(&graph, world.deadline()).await.unwrap();
                    kept.push(receiver.receive().await.unwrap());
                }
            }
            let is_copy = |part: &ReceivedBytes| part.is_copy();
            let lent = kept.iter().filter(|graph| !graph.parts().all(is_copy)).count();
            assert!((1..kept.len()).contains(&lent), "{lent}");
            for graph in &kept {
                assert_eq!(walked(graph), (8, 32_000));
            }
        });
    });
}

/// That each is within the limits is enough, whatever is still to be received.
#[test]
fn large_graphs_follow_one_another() {
    let limits = GraphLimits {
        per_graph: Limits { bytes: 1 << 20, ..Limits::default() },
        granted_bytes: 64 << 10,
    };
    on_every_link(limits, |world| {
        let graph = world.ring(6, 25_000);
        assert!(graph.len_bytes() > 600_000);
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            let send = async { sender.send_all([&graph; 4], world.deadline()).await.unwrap() };
            let receive = async {
                for _ in 0..4 {
                    assert_eq!(walked(&receiver.receive().await.unwrap()), (6, 25_000));
                }
            };
            join(send, receive).await;
        });
    });
}

#[test]
fn graphs_that_outlive_their_channels_hold_up_nobody() {
    on_every_link(GraphLimits::default(), |world| {
        let graph = world.ring(8, 32_000);
        world.run(async {
            let mut kept = Vec::new();
            for _ in 0..8 {
                let (mut sender, mut receiver) = world.channel().await;
                for _ in 0..3 {
                    sender.send(&graph, world.deadline()).await.unwrap();
                    kept.push(receiver.receive().await.unwrap());
                }
            }
            assert!(kept.iter().all(|graph| walked(graph) == (8, 32_000)));
        });
    });
}

/// A deadline counts for what waits for the window, too.
#[test]
fn a_send_ends_with_its_deadline_though_nobody_reads() {
    let world = World::simulated(1, GraphLimits::default());
    let graph = world.ring(10, 10_000);
    let (mut sender, receiver) = world.run(world.channel());
    fill_window(&world.run(world.connect()));
    let soon = world.clock.now() + Duration::from_millis(5);
    let mut sending = Box::pin(sender.send(&graph, soon));
    let mut poll = || sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    world.pass(Duration::from_millis(4));
    assert!(poll().is_pending());
    world.pass(Duration::from_millis(2));
    let Poll::Ready(Err(SendGraphError::Call(error))) = poll() else { panic!("it is late") };
    assert_eq!(error, CallError::DeadlineExceeded { applied: Applied::No });
    drop(receiver);
}

/// Whoever receives grants more to who waits for it, and is told by that very answer that the connection is gone.
#[test]
fn a_grant_that_finds_the_connection_gone_holds_up_nobody() {
    for (seed, is_accepted) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let world = World::simulated(seed, LIMITS);
        let (small, large) = (world.ring(1, 10), world.ring(50, 20_000));
        world.run(async {
            let connection = world.connect().await;
            let types = types();
            let open = GraphSender::open(&connection, &types, world.deadline());
            let mut sender = open.await.unwrap();
            let mut receiver = None;
            if is_accepted {
                receiver = Some(world.listener.accept().await);
                sender.send(&small, world.deadline()).await.unwrap();
            }
            let soon = world.client.sleep_until(world.clock.now() + Duration::from_millis(50));
            let mut sending = Box::pin(sender.send(&large, world.deadline()));
            let first = select(&mut sending, soon).await;
            assert!(matches!(first, Either::Right(_)), "it waits for more");
            world.lose_link();
            let mut receiver = match receiver {
                Some(receiver) => receiver,
                None => world.listener.accept().await,
            };
            if is_accepted {
                assert_eq!(walked(&receiver.receive().await.unwrap()), (1, 10));
            }
            let ended = receiver.receive().await.unwrap_err();
            assert!(matches!(ended, ReceiveError::Disconnected(_)), "{ended}");
        });
    }
}
