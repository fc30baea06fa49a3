//! Two nodes that connect to each other at one moment: one connection stays, and nothing is lost.

use std::time::Duration;

use futures_util::future::{join, join_all};
use weft_transport::{ConnectionManager, Endpoint, NodeId};

use crate::world::{MS, SECOND, World, address, told};

/// Connects and calls `count` times, with pauses in which a connection may be left.
async fn connect_and_call(world: &World, from: &Endpoint, to: u64, count: u32) {
    let connection = from.connect(address(to), world.deadline()).await.unwrap();
    for number in 0..count {
        let calls = (0..number % 4).map(|_| connection.call(b"x", world.deadline()));
        for reply in join_all(calls).await {
            assert_eq!(&*reply.expect("it is answered"), b"x");
        }
        from.sleep_until(world.now() + number % 7 * 10 * MS).await;
    }
}

fn is_settled(one: &Endpoint, other: &Endpoint) -> bool {
    one.stats().connections == 1 && other.stats().connections == 1
}

#[test]
fn who_connect_to_each_other_at_one_moment_keep_one_connection_and_lose_no_call() {
    for seed in 0..200 {
        let world = World::new(seed);
        let (low, high) = (world.node(1, 1), world.node(2, 1));
        let managers = [low.manager(), high.manager()];
        let mut events = managers.each_ref().map(ConnectionManager::events);
        let head_start = Duration::from_micros(seed * 17 % 2000);
        world.run(join(connect_and_call(&world, &low, 2, 30), async {
            high.sleep_until(world.now() + head_start).await;
            connect_and_call(&world, &high, 1, 30).await;
        }));
        world.pass(SECOND);
        assert!(is_settled(&low, &high), "seed {seed}");
        let links = [(&managers[0], 2), (&managers[1], 1)].map(|(manager, node)| {
            manager.connection(NodeId(node)).expect("it is connected").peer().address
        });
        // Where both have tried, the one that the lower id began stays; in any case both mean the same.
        assert_eq!((links[0] == address(2)), (links[1] != address(1)), "seed {seed}");
        assert_eq!(told(&mut events[0]), ["found 2.1", "connected 2.1"], "seed {seed}");
        assert_eq!(told(&mut events[1]), ["found 1.1", "connected 1.1"], "seed {seed}");
    }
}

#[test]
fn what_a_node_calls_over_the_connection_that_loses_is_answered() {
    // The node that accepts the losing connection may have found it first, and calls over it.
    for seed in 0..200 {
        let world = World::new(seed);
        let (low, high) = (world.node(1, 1), world.node(2, 1));
        let manager = low.manager();
        let mut events = manager.events();
        let connects = join(
            low.connect(address(2), world.deadline()),
            high.connect(address(1), world.deadline()),
        );
        let calls = async {
            // Connected is told as soon as there is one of the two.
            events.next().await;
            events.next().await;
            for _ in 0..200 {
                let connection = manager.connection(NodeId(2)).expect("it stays connected");
                let reply = connection.call(b"y", world.deadline()).await;
                assert_eq!(&*reply.unwrap_or_else(|error| panic!("seed {seed}: {error}")), b"y");
            }
        };
        let ((first, second), ()) = world.run(join(connects, calls));
        first.unwrap();
        second.unwrap();
        world.pass(SECOND);
        assert!(is_settled(&low, &high), "seed {seed}");
    }
}

#[test]
fn a_list_of_all_nodes_connects_each_pair_once() {
    for seed in 0..20 {
        let world = World::new(seed);
        let nodes: Vec<_> = (1..=6).map(|id| world.node(id, 1)).collect();
        for node in &nodes {
            (1..=6).for_each(|id| assert!(node.manager().add(address(id)), "own included"));
        }
        world.pass(3 * SECOND);
        for node in &nodes {
            assert_eq!(node.manager().connected().len(), 5, "seed {seed}");
            assert_eq!(node.stats().connections, 5, "seed {seed}");
        }
    }
}
