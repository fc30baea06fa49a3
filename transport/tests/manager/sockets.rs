//! The same over sockets, with threads.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use rustix::net::{AddressFamily, SocketType};
use weft_transport::{
    Backoff, Endpoint, EndpointConfig, Incarnation, LinkPolicy, Memory, MemoryConfig, NodeEvent,
    NodeId, Time,
};

use crate::world::{Echo, MS, SECOND};

fn endpoint(id: u64, life: u64) -> Endpoint {
    endpoint_over(LinkPolicy::Tcp, id, life)
}

fn endpoint_over(links: LinkPolicy, id: u64, life: u64) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(id), Incarnation(life), memory);
    config.links = links;
    // No attempt ends because the machine is busy.
    config.connect_timeout = 1000 * SECOND;
    config.discovery_interval = 10 * MS;
    config.backoff = Backoff { first: MS, max: 10 * MS };
    Endpoint::start(config, Arc::new(Echo)).unwrap()
}

fn node(id: u64, life: u64, at: impl Into<SocketAddr>) -> (Endpoint, SocketAddr) {
    let node = endpoint(id, life);
    let address = node.listen(at.into()).unwrap();
    (node, address)
}

/// Far enough away that only a hang reaches it.
fn deadline(endpoint: &Endpoint) -> Time {
    endpoint.clock().now() + 60 * SECOND
}

const ANY_PORT: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Passes on what comes in to `to`, and counts the connections.
fn counted(to: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(SocketAddr::from(ANY_PORT)).unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&count);
    std::thread::spawn(move || {
        while let Ok((near, _)) = listener.accept() {
            counter.fetch_add(1, Ordering::SeqCst);
            let far = TcpStream::connect(to).unwrap();
            for (mut from, mut to) in
                [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    (address, count)
}

#[test]
fn many_threads_that_ask_at_once_make_one_attempt() {
    let (_node, address) = node(1, 1, ANY_PORT);
    let (address, attempts) = counted(address);
    let asking = endpoint(2, 1);
    let start = std::sync::Barrier::new(32);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                start.wait();
                asking.block_on(async {
                    let connection = asking.connect(address, deadline(&asking)).await.unwrap();
                    let reply = connection.call(b"x", deadline(&asking)).await.unwrap();
                    assert_eq!(&*reply, b"x");
                });
            });
        }
    });
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    assert_eq!(asking.stats().connections, 1);
}

#[test]
fn many_threads_that_ask_for_a_dead_address_share_its_failures() {
    let (silent, attempts) = {
        let listener = TcpListener::bind(SocketAddr::from(ANY_PORT)).unwrap();
        let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&count);
        // It takes connections and ends them.
        std::thread::spawn(move || {
            while let Ok(accepted) = listener.accept() {
                // First, so that it is counted when the other side learns of the end.
                counter.fetch_add(1, Ordering::SeqCst);
                drop(accepted);
            }
        });
        (address, count)
    };
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(2), Incarnation(1), memory);
    config.links = LinkPolicy::Tcp;
    // Virtually no pause is so short that the threads below are not done before it ends.
    config.backoff = Backoff { first: 100_000 * SECOND, max: 100_000 * SECOND };
    let asking = Endpoint::start(config, Arc::new(Echo)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let asked = asking.connect(silent, deadline(&asking));
                    assert!(asking.block_on(asked).is_err());
                }
            });
        }
    });
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
}

#[test]
fn a_node_that_finds_itself_at_an_address_tries_it_no_more() {
    let (node, everywhere) = node(1, 1, ([0, 0, 0, 0], 0));
    let own = SocketAddr::from(([127, 0, 0, 1], everywhere.port()));
    // As where addresses are translated on the way.
    let (translated, attempts) = counted(own);
    let dead = TcpListener::bind(SocketAddr::from(ANY_PORT)).unwrap().local_addr().unwrap();
    let manager = node.manager();
    assert!([own, translated, dead].into_iter().all(|address| manager.add(address)));
    let failures = |of| {
        let listed = manager.listed();
        listed.iter().find(|listed| listed.address == of).unwrap().failures
    };
    node.block_on(async {
        let until = deadline(&node);
        while failures(own) == 0 || failures(translated) == 0 {
            assert!(node.clock().now() < until, "it does not find itself");
            node.sleep_until(node.clock().now() + MS).await;
        }
        let before = failures(dead);
        while failures(dead) < before + 20 {
            node.sleep_until(node.clock().now() + MS).await;
        }
    });
    assert_eq!((failures(own), failures(translated), attempts.load(Ordering::SeqCst)), (1, 1, 1));
    assert_eq!(manager.connected(), []);
}

/// Where connections are neither taken nor refused: a listener with more of them than it queues.
fn black_hole() -> (SocketAddr, Vec<Box<dyn Send>>) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(ANY_PORT)).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let mut kept: Vec<Box<dyn Send>> = vec![Box::new(listener)];
    while let Ok(stream) = TcpStream::connect_timeout(&address, 200 * MS) {
        kept.push(Box::new(stream));
    }
    (address, kept)
}

#[test]
fn neither_a_black_hole_nor_a_silent_listener_delays_another_connection() {
    let (hole, _kept) = black_hole();
    let silent = TcpListener::bind(SocketAddr::from(ANY_PORT)).unwrap();
    let nodes: Vec<_> = (1..=8).map(|id| node(id, 1, ANY_PORT)).collect();
    let asking = endpoint(9, 1);
    let manager = asking.manager();
    let never = [hole, silent.local_addr().unwrap()];
    never.iter().for_each(|address| assert!(manager.add(*address)));
    let mut events = manager.events();
    asking.block_on(async {
        let mut stuck = never.map(|address| Box::pin(asking.connect(address, deadline(&asking))));
        stuck.iter_mut().for_each(|attempt| assert!(attempt.now_or_never().is_none()));
        // One by the list and one by a caller in turn.
        for (number, (_, address)) in nodes.iter().enumerate() {
            match number % 2 {
                0 => assert!(manager.add(*address)),
                _ => drop(asking.connect(*address, deadline(&asking)).await.unwrap()),
            }
            let found = events.next().await;
            assert!(matches!(&found, Some(NodeEvent::Found(peer)) if peer.address == *address));
            assert!(matches!(events.next().await, Some(NodeEvent::Connected(_))));
            let connection = manager.connection(NodeId(number as u64 + 1)).unwrap();
            connection.call(b"x", deadline(&asking)).await.unwrap();
        }
        stuck.iter_mut().for_each(|attempt| assert!(attempt.now_or_never().is_none()));
    });
}

#[test]
fn a_node_that_restarts_is_told_of_and_served_again() {
    let seeker = endpoint(9, 1);
    let manager = seeker.manager();
    let mut events = manager.events();
    let (first, address) = node(1, 1, ANY_PORT);
    manager.add(address);
    let mut running = first;
    for life in 1..=3_u64 {
        seeker.block_on(async {
            let (found, connected) = (events.next().await, events.next().await);
            let Some(NodeEvent::Found(peer)) = found else { panic!("{found:?}") };
            assert_eq!((peer.node, peer.incarnation), (NodeId(1), Incarnation(life)));
            assert_eq!(connected, Some(NodeEvent::Connected(peer)));
            let connection = manager.connect(NodeId(1), deadline(&seeker)).await.unwrap();
            assert_eq!(&*connection.call(b"x", deadline(&seeker)).await.unwrap(), b"x");
        });
        running.shutdown();
        let lost = seeker.block_on(events.next());
        assert!(matches!(&lost, Some(NodeEvent::Lost { peer, .. }) if peer.incarnation.0 == life));
        running = node(1, life + 1, address).0;
    }
    seeker.shutdown();
    while seeker.block_on(events.next()).is_some() {}
}

#[test]
fn pairs_of_nodes_that_connect_at_once_lose_no_call() {
    for round in 0..60 {
        let links = [LinkPolicy::Tcp, LinkPolicy::Auto][round % 2];
        let nodes = [1, 2].map(|id| {
            let node = endpoint_over(links, id, 1);
            let address = node.listen(ANY_PORT.into()).unwrap();
            (node, address)
        });
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for from in [0, 1] {
                let (nodes, start) = (&nodes, &start);
                scope.spawn(move || {
                    let (own, to) = (&nodes[from].0, nodes[1 - from].1);
                    start.wait();
                    own.block_on(async {
                        let connection = own.connect(to, deadline(own)).await.unwrap();
                        for _ in 0..200 {
                            connection.call(b"x", deadline(own)).await.unwrap();
                        }
                        own.sleep_until(own.clock().now() + Duration::from_millis(5)).await;
                        connection.call(b"x", deadline(own)).await.unwrap();
                    });
                });
            }
        });
        let settled = pin!(async {
            while nodes.iter().any(|(node, _)| node.stats().connections != 1) {
                nodes[0].0.sleep_until(nodes[0].0.clock().now() + MS).await;
            }
        });
        nodes[0].0.block_on(settled);
    }
}
