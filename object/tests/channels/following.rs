//! Channels whose connection makes way for another one between the same nodes.

use futures_util::FutureExt;
use futures_util::future::join;
use weft_object::channel::{GraphLimits, GraphSender, ReceiveError, SendGraphError};

use crate::world::{between_nodes, types, walked};

#[test]
fn a_channel_goes_on_by_the_connection_that_has_taken_the_place_of_its_own() {
    between_nodes(GraphLimits::default(), |world| {
        let (small, large) = (world.ring(2, 2), world.ring(20, 100_000));
        world.run(async {
            let connection = world.connect().await;
            let (mut sender, mut receiver) = world.channel().await;
            sender.send(&small, world.deadline()).await.unwrap();
            assert_eq!(walked(&receiver.receive().await.unwrap()), (2, 2));
            assert!(receiver.receive().now_or_never().is_none());
            world.make_way(&connection).await;
            assert!(receiver.receive().now_or_never().is_none(), "the channel has not ended");
            let send = async {
                for graph in [&large, &small, &large] {
                    sender.send(graph, world.deadline()).await.unwrap();
                }
                sender.close().await.unwrap();
            };
            let receive = async {
                for shape in [(20, 100_000), (2, 2), (20, 100_000)] {
                    assert_eq!(walked(&receiver.receive().await.unwrap()), shape);
                }
                assert_eq!(receiver.receive().await.unwrap_err(), ReceiveError::Closed);
            };
            join(send, receive).await;
        });
    });
}

#[test]
fn a_channel_that_nobody_has_accepted_goes_on_too() {
    between_nodes(GraphLimits::default(), |world| {
        let graph = world.ring(2, 2);
        world.run(async {
            let connection = world.connect().await;
            let types = types();
            let open = GraphSender::open(&connection, &types, world.deadline());
            let mut sender = open.await.unwrap();
            world.make_way(&connection).await;
            sender.send(&graph, world.deadline()).await.unwrap();
            let mut receiver = world.listener.accept().await;
            assert_eq!(walked(&receiver.receive().await.unwrap()), (2, 2));
            drop(sender);
            assert_eq!(receiver.receive().await.unwrap_err(), ReceiveError::Closed);
        });
    });
}

#[test]
fn a_channel_ends_with_the_last_connection_that_it_goes_by() {
    between_nodes(GraphLimits::default(), |world| {
        let graph = world.ring(2, 2);
        world.run(async {
            let connection = world.connect().await;
            let (mut sender, mut receiver) = world.channel().await;
            world.make_way(&connection).await;
            connection.successor().unwrap().close();
            let ended = receiver.receive().await.unwrap_err();
            assert!(matches!(ended, ReceiveError::Disconnected(_)), "{ended}");
            let failed = sender.send(&graph, world.deadline()).await.unwrap_err();
            assert!(matches!(failed, SendGraphError::Call(_)), "{failed}");
        });
    });
}
