//! The connection manager: nodes that come, go, restart, hang, and meet. In simulation, but for
//! `sockets`.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of it")]
#![expect(clippy::disallowed_methods, reason = "listeners that do what no endpoint does")]

#[path = "manager/sockets.rs"]
mod sockets;
#[path = "manager/ties.rs"]
mod ties;
#[path = "manager/trial.rs"]
mod trial;
#[path = "manager/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use weft_transport::limits::HANDSHAKE_TIMEOUT;
use weft_transport::{
    AddressState, Applied, Backoff, Batch, CallError, CloseReason, ConnectError, Endpoint, Handler,
    Incarnation, NodeId, Time,
};

use world::{BACKOFF, INTERVAL, MS, SECOND, World, address, told};

/// When attempts of `node` at the only address of its list failed, while `duration` passes.
fn failures(world: &World, node: &Endpoint, duration: Duration) -> Vec<Time> {
    let manager = node.manager();
    let count = || manager.listed()[0].failures;
    let (end, mut known, mut times) = (world.now() + duration, count(), Vec::new());
    while world.now() < end {
        // No attempt is over sooner than it is refused, which takes no time here.
        world.pass(MS);
        if count() != known {
            times.extend((known..count()).map(|_| world.now()));
            known = count();
        }
    }
    times
}

fn gaps(times: &[Time]) -> Vec<Duration> {
    times.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

#[test]
fn nodes_of_a_list_that_grows_and_shrinks_are_found_as_they_come() {
    let world = World::new(1);
    let seeker = world.endpoint(9, 1, |_| {});
    let (manager, mut events) = (seeker.manager(), seeker.manager().events());
    let _first = world.node(1, 1);
    assert!(manager.add(address(1)) && manager.add(address(2)));
    world.pass(100 * MS);
    assert_eq!(told(&mut events), ["found 1.1", "connected 1.1"]);
    let listed = manager.listed();
    assert_eq!((listed[0].found.unwrap().0, listed[0].state), (NodeId(1), AddressState::Connected));
    assert_eq!((listed[1].found, listed[1].state), (None, AddressState::Apart));
    assert!(matches!(listed[1].failure, Some(ConnectError::Refused { .. })));

    let _second = world.node(2, 1);
    world.pass(INTERVAL);
    assert_eq!(told(&mut events), ["found 2.1", "connected 2.1"]);
    let _third = world.node(3, 1);
    assert!(manager.add(address(3)));
    world.pass(100 * MS);
    assert_eq!(told(&mut events), ["found 3.1", "connected 3.1"]);
    let nodes: Vec<_> = manager.connected().iter().map(|peer| peer.node.0).collect();
    assert_eq!(nodes, [1, 2, 3]);

    manager.add(address(4));
    world.pass(100 * MS);
    assert!(manager.remove(address(4)));
    let _fourth = world.node(4, 1);
    world.pass(10 * INTERVAL);
    assert_eq!((told(&mut events), manager.connection(NodeId(4)).is_none()), (vec![], true));
    assert_eq!(seeker.stats().connections, 3);
}

#[test]
fn where_nobody_is_found_is_tried_at_the_interval_and_no_more_often() {
    let world = World::new(1);
    let seeker = world.endpoint(9, 1, |_| {});
    seeker.manager().add(address(1));
    let times = failures(&world, &seeker, 20 * INTERVAL);
    assert_eq!(times.len(), 21, "the first at once");
    assert!(gaps(&times).iter().all(|gap| (INTERVAL - MS..=INTERVAL + MS).contains(gap)));
}

#[test]
fn a_lost_node_is_tried_after_pauses_that_grow_and_are_drawn_from_the_seed() {
    let run = |seed| {
        let world = World::new(1);
        let node = world.node(1, 1);
        let seeker = world.endpoint(9, 1, |config| config.seed = seed);
        seeker.manager().add(address(1));
        world.pass(100 * MS);
        assert!(seeker.manager().connection(NodeId(1)).is_some());
        world.stop(node);
        let times = failures(&world, &seeker, 30 * SECOND);
        // All of it again: success begins anew.
        let node = world.node(1, 2);
        world.pass(2 * SECOND);
        assert_eq!(seeker.manager().listed()[0].failures, 0);
        world.stop(node);
        (times, failures(&world, &seeker, 30 * SECOND))
    };
    let (first, second) = run(7);
    for times in [&first, &second] {
        for (index, gap) in gaps(times).into_iter().enumerate() {
            let bound = (BACKOFF.first * (1 << index.min(10))).min(BACKOFF.max);
            assert!(gap <= bound + 2 * MS, "{index}: {gap:?}");
        }
        // Half of the longest pause on average, once there.
        assert!((30..150).contains(&times.len()), "{} attempts in 30 s", times.len());
    }
    assert_ne!(gaps(&first), gaps(&second));
    assert_eq!(run(7), (first.clone(), second));
    assert_ne!(run(8).0, first);
}

/// How many connections to the only address of the list there are while `duration` passes, of which the node there
/// ends each when it has lasted for so long.
fn connections_that_last(
    world: &World,
    [seeker, node]: [&Endpoint; 2],
    lasts: Duration,
    duration: Duration,
) -> usize {
    let (end, mut count) = (world.now() + duration, 0);
    while world.now() < end {
        if let Some(connection) = node.manager().connection(seeker.node()) {
            world.pass(lasts);
            connection.close();
            count += 1;
        }
        world.pass(MS);
    }
    count
}

#[test]
fn a_peer_that_greets_and_goes_is_tried_as_seldom_as_one_that_does_not_answer() {
    let world = World::new(1);
    let (node, seeker) = (world.node(1, 1), world.endpoint(9, 1, |_| {}));
    seeker.manager().add(address(1));
    world.pass(100 * MS);
    let sides = [&seeker, &node];
    let count = connections_that_last(&world, sides, Duration::ZERO, 30 * SECOND);
    // As many as there are attempts at a node that is lost, above.
    assert!((30..150).contains(&count), "{count} connections in 30 s");

    // Nor does it help to ask.
    let asked = std::cell::Cell::new(0);
    let asking = pin!(async {
        loop {
            if let Ok(connection) = seeker.connect(address(1), Time::MAX).await {
                asked.set(asked.get() + 1);
                while connection.is_open() {
                    seeker.sleep_until(world.now() + MS).await;
                }
            }
        }
    });
    let closing = async {
        loop {
            if let Some(connection) = node.manager().connection(NodeId(9)) {
                connection.close();
            }
            node.sleep_until(world.now() + MS).await;
        }
    };
    let end = world.now() + 30 * SECOND;
    assert!(world.run_until(end, join(asking, closing)).is_none());
    assert!((30..150).contains(&asked.get()), "{} connections in 30 s", asked.get());
}

#[test]
fn a_connection_that_lasts_ends_the_back_off() {
    let world = World::new(1);
    let (node, seeker) = (world.node(1, 1), world.endpoint(9, 1, |_| {}));
    seeker.manager().add(address(1));
    world.pass(100 * MS);
    let sides = [&seeker, &node];
    connections_that_last(&world, sides, Duration::ZERO, 30 * SECOND);
    while node.manager().connection(NodeId(9)).is_none() {
        world.pass(MS);
    }
    let lasts = INTERVAL + 10 * MS;
    let count = connections_that_last(&world, sides, lasts, 20 * SECOND);
    // With the longest of pauses that would be as few as ten.
    assert!(
        count as u128 >= (20 * SECOND).as_millis() / (lasts + BACKOFF.first + 10 * MS).as_millis(),
        "{count}"
    );
}

#[test]
fn many_that_lose_a_node_do_not_come_back_at_one_moment() {
    let world = World::new(1);
    let node = world.node(1, 1);
    let seekers: Vec<_> = (10..60).map(|id| world.endpoint(id, 1, |_| {})).collect();
    seekers.iter().for_each(|seeker| assert!(seeker.manager().add(address(1))));
    world.pass(100 * MS);
    assert_eq!(node.stats().connections, 50);
    world.stop(node);
    world.pass(5 * SECOND);
    let end = world.now() + BACKOFF.max;
    let all =
        || -> u32 { seekers.iter().map(|seeker| seeker.manager().listed()[0].failures).sum() };
    let (mut busiest, mut known) = (0, all());
    while world.now() < end {
        world.pass(10 * MS);
        busiest = busiest.max(all() - known);
        known = all();
    }
    // Fifty that came together would be fifty in one step; spread, there is one or two.
    assert!(busiest <= 10, "{busiest} attempts in 10 ms");
    let _node = world.node(1, 2);
    world.pass(2 * BACKOFF.max);
    assert!(seekers.iter().all(|seeker| seeker.manager().connection(NodeId(1)).is_some()));
}

#[test]
fn however_many_ask_for_a_dead_address_there_is_no_storm() {
    let world = World::new(1);
    let seeker = world.endpoint(9, 1, |_| {});
    // On the list only so that attempts can be counted.
    seeker.manager().add(address(1));
    let began = world.now();
    world.run(async {
        while world.now().since(began) < 20 * SECOND {
            let asked = (0..50).map(|_| seeker.connect(address(1), world.deadline()));
            for outcome in join_all(asked).await {
                assert!(matches!(outcome, Err(ConnectError::Refused { .. })));
            }
            seeker.sleep_until(world.now() + MS).await;
        }
    });
    let attempts = seeker.manager().listed()[0].failures;
    // One as each pause ends and one an interval, whoever waits.
    assert!((20..150).contains(&attempts), "{attempts} attempts");
}

/// After the first failure nobody asks again by themselves within the life of a test.
fn patient(world: &World) -> Endpoint {
    world.endpoint(9, 1, |config| {
        config.backoff = Backoff { first: 1_000_000 * SECOND, max: 1_000_000 * SECOND };
    })
}

#[test]
fn who_waits_for_the_end_of_a_pause_gets_the_connection_that_the_list_has_led_to() {
    let world = World::new(1);
    let seeker = patient(&world);
    seeker.manager().add(address(1));
    world.pass(100 * MS);
    assert_eq!(seeker.manager().listed()[0].failures, 1);
    let _node = world.node(1, 1);
    let began = world.now();
    let asked = (0..5).map(|_| seeker.connect(address(1), Time::MAX));
    let connections = world.run(join_all(asked));
    assert!(connections.iter().all(Result::is_ok));
    assert!(world.now().since(began) <= INTERVAL, "that is when the address was tried");
}

#[test]
fn who_waits_for_the_end_of_a_pause_gets_the_connection_that_the_node_has_begun() {
    let world = World::new(1);
    let seeker = patient(&world);
    seeker.listen(address(9)).unwrap();
    seeker.manager().add(address(1));
    let node = world.node(1, 1);
    world.pass(100 * MS);
    world.stop(node);
    world.pass(SECOND);
    let dialling = world.endpoint(1, 2, |_| {});
    let failed = world.run(seeker.connect(address(1), world.deadline())).err();
    assert!(matches!(failed, Some(ConnectError::Refused { .. })), "{failed:?}");
    let began = world.now();
    let asked = seeker.connect(address(1), Time::MAX);
    let dialled = async {
        seeker.sleep_until(began + 10 * MS).await;
        dialling.connect(address(9), world.deadline()).await
    };
    let (connection, dialled) = world.run(join(asked, dialled));
    assert_eq!(connection.unwrap().peer().incarnation, Incarnation(2));
    assert!(dialled.is_ok() && world.now().since(began) <= 20 * MS);
}

#[test]
fn a_node_that_hangs_before_its_hello_delays_nobody_and_is_found_when_it_goes_on() {
    let world = World::new(1);
    let (silent, _other) = (world.node(1, 1), world.node(2, 1));
    world.hang(&silent, true);
    let seeker = world.endpoint(9, 1, |_| {});
    let (manager, mut events) = (seeker.manager(), seeker.manager().events());
    manager.add(address(1));
    world.pass(100 * MS);
    assert_eq!(manager.listed()[0].state, AddressState::Connecting);
    let began = world.now();
    world.run(seeker.connect(address(2), world.deadline())).unwrap();
    assert!(world.now().since(began) < 10 * MS);
    assert_eq!(told(&mut events), ["found 2.1", "connected 2.1"]);
    world.pass(HANDSHAKE_TIMEOUT);
    let failure = manager.listed()[0].failure.clone();
    let reason = CloseReason::HandshakeTimeout;
    assert_eq!(failure, Some(ConnectError::Closed { address: address(1), reason }));
    world.hang(&silent, false);
    world.pass(INTERVAL + HANDSHAKE_TIMEOUT);
    assert_eq!(told(&mut events), ["found 1.1", "connected 1.1"]);
}

/// A process that said it was the node, in a life that nobody ever took, keeps the node itself out as long as it is there, and no longer.
#[test]
fn an_earlier_life_is_taken_again_where_whoever_decides_says_that_it_counts() {
    let world = World::new(1);
    let seeker = world.endpoint(9, 1, |_| {});
    seeker.listen(address(9)).unwrap();
    let go_back = || seeker.manager().go_back_to(NodeId(1), Incarnation(1));
    assert!(!go_back(), "nobody has said hello");
    let newer = world.endpoint(1, 2, |_| {});
    world.run(newer.connect(address(9), world.deadline())).unwrap();
    let older = world.endpoint(1, 1, |_| {});
    let connect = || world.run(older.connect(address(9), world.deadline()));
    let is_refused = |refused| matches!(refused, Err(ConnectError::Closed { reason, .. }) if reason.is_of_earlier_life());
    assert!(is_refused(connect()));
    assert!(!go_back(), "it is connected");
    newer.shutdown();
    world.pass(100 * MS);
    assert!(is_refused(connect()), "it is remembered");
    assert!(go_back() && !go_back());
    connect().unwrap();
}

#[test]
fn a_node_that_restarts_is_found_again_and_calls_to_its_old_life_fail() {
    let world = World::new(1);
    let old = world.node(1, 1);
    let seeker = world.endpoint(9, 1, |_| {});
    let (manager, mut events) = (seeker.manager(), seeker.manager().events());
    manager.add(address(1));
    world.pass(100 * MS);
    assert_eq!(told(&mut events), ["found 1.1", "connected 1.1"]);
    let connection = manager.connection(NodeId(1)).unwrap();
    // Nobody tells that it is gone: the machine was cut off, and its address is taken anew.
    let call = std::pin::pin!(connection.call(b"wait", world.deadline()));
    let hello_of_the_new = async {
        seeker.sleep_until(world.now() + 10 * MS).await;
        world.hang(&old, true);
        let new = world.endpoint(1, 2, |_| {});
        new.connect(address(9), world.deadline()).await.unwrap();
        new
    };
    seeker.listen(address(9)).unwrap();
    let (outcome, _new) = world.run(join(call, hello_of_the_new));
    let (stale, current) = (Incarnation(1), Incarnation(2));
    let reason = CloseReason::StaleIncarnation { node: NodeId(1), stale, current };
    let applied = Applied::Maybe;
    assert_eq!(outcome.err(), Some(CallError::Disconnected { applied, reason: reason.clone() }));
    let lost = format!("lost 1.1: {reason}");
    assert_eq!(told(&mut events), [&lost[..], "found 1.2", "connected 1.2"]);
    assert_eq!(manager.listed()[0].found, Some((NodeId(1), current)));

    // The old life comes back to itself, and is refused.
    world.hang(&old, false);
    let error = world.run(old.connect(address(9), world.deadline())).unwrap_err();
    let ConnectError::Closed { reason: CloseReason::Goodbye(goodbye), .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(goodbye.code, 9);
    // So it is where it listens.
    let (_, error) = (
        manager.remove(address(1)),
        world.run(seeker.connect(address(1), world.deadline())).unwrap_err(),
    );
    assert_eq!(error, ConnectError::Closed { address: address(1), reason });
    assert_eq!(told(&mut events), Vec::<String>::new());
}

#[test]
fn a_node_that_stops_and_starts_again_is_come_back_to_without_being_asked_for() {
    let world = World::new(1);
    let seeker = world.endpoint(9, 1, |_| {});
    let mut events = seeker.manager().events();
    seeker.manager().add(address(1));
    for life in 1..=5 {
        let node = world.node(1, life);
        world.pass(INTERVAL + BACKOFF.max);
        assert_eq!(told(&mut events), [format!("found 1.{life}"), format!("connected 1.{life}")]);
        let connection = seeker.manager().connection(NodeId(1)).unwrap();
        assert_eq!(&*world.run(connection.call(b"x", world.deadline())).unwrap(), b"x");
        world.stop(node);
        world.pass(3 * SECOND);
        assert_eq!(told(&mut events), [format!("lost 1.{life}: the peer is shutting down")]);
    }
}

#[test]
fn a_connection_that_the_network_loses_comes_back() {
    let world = World::new(1);
    let _node = world.node(1, 1);
    let seeker = world.endpoint(9, 1, |_| {});
    let mut events = seeker.manager().events();
    seeker.manager().add(address(1));
    world.pass(100 * MS);
    for _ in 0..20 {
        assert!(world.network.lose_one());
        // Of that, it lasts for long enough to be come back to as soon again.
        world.pass(BACKOFF.first + INTERVAL + 20 * MS);
        assert!(seeker.manager().connection(NodeId(1)).is_some());
    }
    let told = told(&mut events);
    assert_eq!(told[..2], ["found 1.1", "connected 1.1"]);
    for pair in told[2..].chunks(2) {
        assert!(pair[0].starts_with("lost 1.1: ") && pair[1] == "connected 1.1", "{pair:?}");
    }
    assert_eq!(told.len(), 2 + 20 * 2);
}

#[test]
fn idle_connections_go_by_least_recent_use_and_none_that_is_in_use() {
    let world = World::new(1);
    let nodes: Vec<_> = (1..=6).map(|id| world.node(id, 1)).collect();
    let seeker = world.endpoint(9, 1, |config| config.connections_max = 3);
    let manager = seeker.manager();
    let connect = |id| {
        world.pass(2 * SECOND);
        world.run(seeker.connect(address(id), world.deadline()))
    };
    let connected =
        || -> BTreeSet<u64> { manager.connected().iter().map(|peer| peer.node.0).collect() };
    let first = connect(1).unwrap();
    connect(2).unwrap();
    connect(3).unwrap();
    world.pass(2 * SECOND);
    world.run(first.call(b"x", world.deadline())).unwrap();
    connect(4).unwrap();
    assert_eq!(connected(), BTreeSet::from([1, 3, 4]), "2 was used least recently");
    world.pass(2 * SECOND);
    // A call that is not answered is in flight, however long ago it was sent.
    let call = std::pin::pin!(first.call(b"wait", Time::MAX));
    let others = std::pin::pin!(async {
        for id in [5, 6, 2] {
            seeker.sleep_until(world.now() + 2 * SECOND).await;
            seeker.connect(address(id), world.deadline()).await.unwrap();
        }
    });
    let Either::Right(((), _call)) = world.run(select(call, others)) else {
        panic!("nobody answers the call")
    };
    assert!(first.is_open());
    assert_eq!(connected(), BTreeSet::from([1, 2, 6]));
    world.pass(2 * SECOND);
    let open: u64 = nodes.iter().map(|node| node.stats().connections).sum();
    assert_eq!((open, seeker.stats().connections), (3, 3));
}

/// Whether who waits to be told has been woken, and how many messages came before and after that.
#[derive(Default)]
struct Order {
    is_woken: AtomicBool,
    came: [AtomicUsize; 2],
}

impl Wake for Order {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
    }
}

impl Handler for Order {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            let came = &self.came[usize::from(self.is_woken.load(Ordering::SeqCst))];
            came.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A turn may sleep when it looks for input, so whom an end concerns is to be woken before.
#[test]
fn an_end_is_told_of_before_the_turn_looks_for_input() {
    let world = World::new(1);
    let order = Arc::new(Order::default());
    let node = world.endpoint_with(Arc::clone(&order) as Arc<dyn Handler>, 9, 1, |_| {});
    node.listen(address(9)).unwrap();
    let peers = [1, 2].map(|id| world.endpoint(id, 1, |_| {}));
    let connections = world.run(join_all(
        peers
            .iter()
            .map(|peer| async { peer.connect(address(9), world.deadline()).await.unwrap() }),
    ));
    world.pass(100 * MS);
    let mut events = node.manager().events();
    world.hang(&node, true);
    world.run(connections[1].send(b"x")).unwrap();
    world.pass(100 * MS);
    let waker = Waker::from(Arc::clone(&order));
    assert!(pin!(events.next()).poll(&mut Context::from_waker(&waker)).is_pending());
    node.manager().connection(NodeId(1)).unwrap().close();
    node.turn();
    assert_eq!(order.came.each_ref().map(|came| came.load(Ordering::SeqCst)), [0, 1]);
    assert_eq!(told(&mut events), ["lost 1.1: closed"]);
}
