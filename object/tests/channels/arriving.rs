//! What is sent is received, in order, whatever it is sent as.

use futures_util::future::join;
use weft_object::channel::GraphLimits;
use weft_object::{Types, Wire};

use crate::world::{Node, on_every_link, walked};

/// Nodes and numbers a node: from what fits a call to more than a message, which others overtake.
const SHAPES: [(usize, usize); 9] =
    [(1, 0), (3, 2), (2, 400_000), (40, 50), (1, 1), (700, 300), (1, 300_000), (2, 1), (9, 4_000)];

#[test]
fn graphs_of_every_size_arrive_in_order() {
    on_every_link(GraphLimits::default(), |world| {
        let graphs: Vec<_> = SHAPES.map(|(nodes, numbers)| world.ring(nodes, numbers)).into();
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            assert!(!receiver.is_readable());
            for (graph, shape) in graphs.iter().zip(SHAPES) {
                sender.send(graph, world.deadline()).await.unwrap();
                assert!(receiver.is_readable(), "nobody needs to have asked for it");
                assert_eq!(walked(&receiver.receive().await.unwrap()), shape);
            }
        });
    });
}

#[test]
fn what_is_under_way_together_arrives_in_order() {
    on_every_link(GraphLimits::default(), |world| {
        let graphs: Vec<_> = SHAPES.map(|(nodes, numbers)| world.ring(nodes, numbers)).into();
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            let send = async {
                let mut under_way = Vec::new();
                for _ in 0..3 {
                    for graph in &graphs {
                        let sent = sender.send_async(graph, world.deadline()).await.unwrap();
                        under_way.push(sent);
                    }
                }
                for sent in under_way {
                    sent.wait().await.unwrap();
                }
            };
            let receive = async {
                for round in 0..3 {
                    for shape in SHAPES {
                        let graph = receiver.receive().await.unwrap();
                        assert_eq!(walked(&graph), shape, "round {round}");
                    }
                }
            };
            join(send, receive).await;
        });
    });
}

#[test]
fn a_send_can_be_looked_at_in_place_of_waited_for() {
    on_every_link(GraphLimits::default(), |world| {
        let graph = world.ring(5, 5);
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            let mut sent = sender.send_async(&graph, world.deadline()).await.unwrap();
            assert_eq!(walked(&receiver.receive().await.unwrap()), (5, 5));
            // What answers the send comes before what answers a later one.
            sender.send(&graph, world.deadline()).await.unwrap();
            assert_eq!(sent.test(), Some(Ok(())));
            assert_eq!(sent.test(), Some(Ok(())), "and stays so");
            sent.wait().await.unwrap();
            drop(sender.send_async(&graph, world.deadline()).await.unwrap());
            for _ in 0..2 {
                assert_eq!(walked(&receiver.receive().await.unwrap()), (5, 5));
            }
        });
    });
}

#[test]
fn what_an_iterator_holds_arrives_without_it() {
    #[derive(Wire, Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Point {
        x: f64,
        y: f64,
    }
    let types = Types::new().with::<Node>().with::<Point>();
    on_every_link(GraphLimits::default(), |world| {
        let point = |number: u32| Point { x: number.into(), y: -f64::from(number) };
        let connection = world.run(world.connect());
        // The listener has not heard of points.
        let opened = weft_object::channel::GraphSender::open(&connection, &types, world.deadline());
        let mut sender = world.run(opened).unwrap();
        let mut receiver = world.run(world.listener.accept());
        let on = (&world.memory, &types);
        let sent = sender.send_records((0..10).map(point), 4, on, world.deadline());
        let refused = world.run(sent).unwrap_err();
        assert!(refused.to_string().contains("type"), "{refused}");
        assert!(world.run(receiver.receive()).is_err());

        let (mut sender, mut receiver) = world.run(world.channel());
        let numbers = 0..10_000_u32;
        let on = (&world.memory, &Types::new().with::<Node>());
        let send = sender.send_records(numbers.clone(), 1_000, on, world.deadline());
        let mut received: Vec<u32> = Vec::new();
        let receive = async {
            for _ in 0..10 {
                let chunk = receiver.receive().await.unwrap();
                received.extend(chunk.records::<u32>().flatten().copied());
            }
        };
        let (sent, ()) = world.run(join(send, receive));
        assert_eq!(sent, Ok(10_000));
        assert!(received.into_iter().eq(numbers));
    });
}

#[test]
fn graphs_are_used_where_they_were_received_if_they_are_large() {
    on_every_link(GraphLimits::default(), |world| {
        world.run(async {
            let (mut sender, mut receiver) = world.channel().await;
            for (numbers, expected) in [(10, true), (100_000, false), (1_000_000, false)] {
                sender.send(&world.ring(1, numbers), world.deadline()).await.unwrap();
                let graph = receiver.receive().await.unwrap();
                assert_eq!(walked(&graph), (1, numbers));
                let large = graph.parts().filter(|part| !part.is_copy()).count();
                assert_eq!(large > 0, !expected, "{numbers}");
                let owned = graph.to_owned();
                drop(graph);
                assert_eq!(owned.root::<Node>().unwrap().numbers.len(), numbers);
            }
        });
    });
}
