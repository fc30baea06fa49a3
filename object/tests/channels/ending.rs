//! How a channel ends.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};

use futures_util::FutureExt;
use futures_util::future::join;
use weft_object::channel::{GraphLimits, GraphListener, GraphSender, ReceiveError, SendGraphError};
use weft_object::{Types, Wire};

use crate::world::{World, fill_window, on_every_link, types, walked};

#[test]
fn all_that_was_sent_is_received_before_the_end() {
    on_every_link(GraphLimits::default(), |world| {
        let graph = world.ring(2, 300_000);
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            drop(sender.send_async(&graph, world.deadline()).await.unwrap());
            sender.close().await.unwrap();
            assert_eq!(walked(&receiver.receive().await.unwrap()), (2, 300_000));
            assert_eq!(receiver.receive().await.unwrap_err(), ReceiveError::Closed);
            assert_eq!(receiver.receive().await.unwrap_err(), ReceiveError::Closed);

            let (sender, mut receiver) = world.channel().await;
            drop(sender);
            assert_eq!(receiver.receive().await.unwrap_err(), ReceiveError::Closed);
        });
    });
}

#[test]
fn the_end_of_the_connection_is_the_end_of_its_channels() {
    on_every_link(GraphLimits::default(), |world| {
        let graph = world.ring(2, 2);
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            sender.send(&graph, world.deadline()).await.unwrap();
            world.connect().await.close();
            assert_eq!(walked(&receiver.receive().await.unwrap()), (2, 2));
            let ended = receiver.receive().await.unwrap_err();
            assert!(matches!(ended, ReceiveError::Disconnected(_)), "{ended}");
            let failed = sender.send(&graph, world.deadline()).await.unwrap_err();
            assert!(matches!(failed, SendGraphError::Call(_)), "{failed}");
            let failed = sender.send(&graph, world.deadline()).await.unwrap_err();
            assert_eq!(failed, SendGraphError::Interrupted);
        });
    });
}

#[test]
fn who_sends_is_told_that_nobody_receives() {
    on_every_link(GraphLimits::default(), |world| {
        let (small, large) = (world.ring(2, 2), world.ring(2, 300_000));
        for graph in [&small, &large] {
            world.run(async {
                let (mut sender, receiver) = world.channel().await;
                drop(receiver);
                for _ in 0..2 {
                    let told = sender.send(graph, world.deadline()).await.unwrap_err();
                    assert_eq!(told, SendGraphError::Closed);
                }
            });
        }
    });
}

/// A part of a graph has left, and the rest never comes.
#[test]
fn a_send_that_is_given_up_in_the_middle_ends_the_channel() {
    let interrupted = std::cell::Cell::new(0);
    let limits = GraphLimits { granted_bytes: 64 << 20, ..GraphLimits::default() };
    on_every_link(limits, |world| {
        // More than the window of the connection has room for at once.
        let (whole, given_up) = (world.ring(2, 2), world.ring(60, 30_000));
        for polls in [1, 2, 5, 10, 20, 50, 100] {
            world.run(async {
                let (mut sender, mut receiver) = world.channel().await;
                sender.send(&whole, world.deadline()).await.unwrap();
                assert_eq!(walked(&receiver.receive().await.unwrap()), (2, 2));
                let mut sending = Box::pin(sender.send(&given_up, world.deadline()));
                let mut left = polls;
                let sent = std::future::poll_fn(|context| {
                    context.waker().wake_by_ref();
                    left -= 1;
                    match sending.as_mut().poll(context) {
                        Poll::Pending if left > 0 => Poll::Pending,
                        polled => Poll::Ready(polled.is_ready()),
                    }
                })
                .await;
                drop(sending);
                let next = if sent { Ok(()) } else { sender.send(&whole, world.deadline()).await };
                drop(sender);
                let ended = receiver.receive().await;
                match next {
                    Err(SendGraphError::Interrupted) => {
                        interrupted.set(interrupted.get() + 1);
                        assert_eq!(ended.unwrap_err(), ReceiveError::Interrupted);
                    }
                    // All of it had left, or nothing.
                    next => {
                        next.unwrap();
                        let first = walked(&ended.unwrap());
                        assert!(first == (60, 30_000) || first == (2, 2) && !sent);
                        if first == (60, 30_000) && !sent {
                            assert_eq!(walked(&receiver.receive().await.unwrap()), (2, 2));
                        }
                    }
                }
            });
        }
    });
    assert!(interrupted.get() > 0, "a part has left in one world at least");
}

#[test]
fn other_types_are_refused_by_name() {
    mod other {
        #[derive(weft_object::Wire, Clone, Copy, Debug)]
        #[repr(C)]
        pub(super) struct Node {
            pub(super) number: u64,
        }
    }
    on_every_link(GraphLimits::default(), |world| {
        world.run(async {
            let connection = world.connect().await;
            let differing = Types::new().with::<other::Node>();
            let name = <other::Node as Wire>::NAME;
            let opened = GraphSender::open(&connection, &differing, world.deadline()).await;
            let SendGraphError::TypesDiffer(words) = opened.unwrap_err() else { panic!("types") };
            for told in [
                name.to_owned(),
                <other::Node as Wire>::FINGERPRINT.to_string(),
                <crate::world::Node as Wire>::FINGERPRINT.to_string(),
            ] {
                assert!(words.contains(&told), "{told}: {words}");
            }
            GraphSender::open(&connection, &types(), world.deadline()).await.unwrap();
            let mut senders = Vec::new();
            for _ in 0..32 {
                senders.push(GraphSender::open(&connection, &types(), world.deadline()).await);
            }
            assert!(senders.iter().all(Result::is_ok));
            let refused = GraphSender::open(&connection, &types(), world.deadline()).await;
            assert_eq!(refused.unwrap_err(), SendGraphError::TooMany);
            // Who has sent nothing leaves nothing behind.
            senders.clear();
            for _ in 0..40 {
                let sender = GraphSender::open(&connection, &types(), world.deadline()).await;
                sender.unwrap().close().await.unwrap();
            }
        });
    });
}

#[test]
fn a_sender_that_is_dropped_without_window_is_missed_all_the_same() {
    // Where nobody reads meanwhile.
    for seed in 0..10 {
        let world = World::simulated(seed, GraphLimits::default());
        world.run(async {
            let (sender, mut receiver) = world.channel().await;
            fill_window(&world.connect().await);
            drop(sender);
            assert_eq!(receiver.receive().await.unwrap_err(), ReceiveError::Closed);
        });
    }
}

#[test]
fn whoever_accepts_is_woken() {
    let world = World::simulated(1, GraphLimits::default());
    world.run(async {
        let accepted = join(world.listener.accept(), world.listener.accept());
        let connection = world.connect().await;
        let opened = async {
            let first = GraphSender::open(&connection, &types(), world.deadline()).await.unwrap();
            let other = GraphSender::open(&connection, &types(), world.deadline()).await.unwrap();
            (first, other)
        };
        join(accepted, opened).await;
    });
}

/// What was sent is there for whoever accepts later; of a peer that had sent nothing whole, nothing stays.
#[test]
fn channels_of_peers_that_are_gone_leave_what_they_had_sent() {
    on_every_link(GraphLimits::default(), |world| {
        let graph = world.ring(2, 2);
        world.run(async {
            let connection = world.connect().await;
            for count in [0, 2, 0] {
                let opened = GraphSender::open(&connection, &types(), world.deadline()).await;
                let mut sender = opened.unwrap();
                for _ in 0..count {
                    sender.send(&graph, world.deadline()).await.unwrap();
                }
            }
            connection.close();
        });
        world.run(async {
            let mut received = 0;
            while received < 2 {
                // One that was empty may be given before its connection has ended.
                let mut receiver = world.listener.accept().await;
                while let Ok(graph) = receiver.receive().await {
                    assert_eq!(walked(&graph), (2, 2));
                    received += 1;
                }
            }
        });
        let has_any = || !format!("{:?}", world.listener).contains("channels: 0");
        for _ in 0..1_000 {
            if has_any() {
                let soon = world.clock.now() + std::time::Duration::from_millis(1);
                world.run(world.client.sleep_until(soon));
            }
        }
        assert!(!has_any(), "{:?}", world.listener);
    });
}

/// Whoever is woken may use the listener at once.
#[test]
fn who_receives_is_woken_with_nothing_locked() {
    struct Looks(Arc<GraphListener>, mpsc::Sender<String>);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            let _ = self.1.send(format!("{:?}", self.0));
        }
    }
    on_every_link(GraphLimits::default(), |world| {
        world.run(async {
            let connection = world.connect().await;
            let (_sender, mut receiver) = world.channel().await;
            let (woken, said) = mpsc::channel();
            let waker = Arc::new(Looks(Arc::clone(&world.listener), woken)).into();
            let mut receiving = Box::pin(receiver.receive());
            assert!(receiving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            connection.close();
            let ended = receiving.await.unwrap_err();
            assert!(matches!(ended, ReceiveError::Disconnected(_)), "{ended}");
            assert!(said.try_iter().all(|said| said.contains("GraphListener")));
        });
    });
}

#[test]
fn an_accept_that_is_given_up_leaves_no_waker() {
    struct Nothing;
    impl Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }
    let world = World::simulated(0, GraphLimits::default());
    let all: Vec<_> = (0..10).map(|_| Arc::new(Nothing)).collect();
    for one in &all {
        let waker = Arc::clone(one).into();
        let mut accepting = Box::pin(world.listener.accept());
        assert!(accepting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert!(all.iter().all(|one| Arc::strong_count(one) == 1));
}

/// The listener may have begun a channel when its sender stops waiting.
#[test]
fn an_open_that_is_given_up_leaves_no_channel() {
    on_every_link(GraphLimits::default(), |world| {
        world.run(async {
            let connection = world.connect().await;
            let types = types();
            for _ in 0..40 {
                let mut opening =
                    Box::pin(GraphSender::open(&connection, &types, world.deadline()));
                assert!((&mut opening).now_or_never().is_none());
                drop(opening);
                // The answer to something that was sent later: by now the listener has seen both.
                let sender = GraphSender::open(&connection, &types, world.deadline()).await;
                sender.unwrap().close().await.unwrap();
            }
            let (mut sender, mut receiver) = world.channel().await;
            let graph = world.ring(2, 2);
            sender.send(&graph, world.deadline()).await.unwrap();
            assert_eq!(walked(&receiver.receive().await.unwrap()), (2, 2));
        });
    });
}
