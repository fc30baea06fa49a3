//! The connection as whoever is called sees it.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::join;
use weft_transport::{Batch, CloseReason, Connection, Handler, IncomingKind};

use crate::world::{Echo, World};

/// Remembers who has called.
#[derive(Default)]
struct Remembered {
    callers: Mutex<Vec<Connection>>,
}

impl Handler for Remembered {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                self.callers.lock().unwrap().push(batch.connection());
                batch.reply(call, incoming.body);
            }
        }
    }
}

pub(crate) fn who_is_called_calls_back_and_is_told_of_the_end(world: &World) {
    let remembered = Arc::<Remembered>::default();
    let server = world.node(1, Arc::clone(&remembered) as _);
    let caller = world.node(2, Arc::new(Echo));
    world.run(async {
        let deadline = world.deadline();
        let connection = caller.endpoint.connect(server.address, deadline).await.unwrap();
        connection.call(b"there", deadline).await.unwrap();
        let back = remembered.callers.lock().unwrap().pop().unwrap();
        assert_eq!(back.peer().node, caller.endpoint.node());
        assert_eq!(&*back.call(b"and back", deadline).await.unwrap(), b"and back");
        assert_eq!(back.clone().id(), back.id());
        assert_ne!(back.id(), connection.id(), "each side has one of its own");
        assert_eq!(back.ended().now_or_never(), None);
        assert_eq!(connection.ended().now_or_never(), None);
        let (ended, again) = (back.ended(), back.ended());
        connection.close();
        assert_eq!(connection.ended().await, CloseReason::Closed);
        let (ended, again) = join(ended, again).await;
        assert_eq!(ended, again);
        assert_eq!(ended, CloseReason::PeerGone);
        assert!(back.call(b"too late", deadline).await.is_err());
    });
}

pub(crate) fn a_connection_that_has_made_way_has_a_successor(world: &World) {
    let (server, other) = (world.node(1, Arc::new(Echo)), world.node(2, Arc::new(Echo)));
    world.run(async {
        let deadline = world.deadline();
        let connection = other.endpoint.connect(server.address, deadline).await.unwrap();
        assert!(connection.successor().is_none(), "it is open");
        // That of the node with the lower number stays.
        let second = server.endpoint.connect(other.address, deadline).await.unwrap();
        second.call(b"there", deadline).await.unwrap();
        assert_eq!(connection.ended().await, CloseReason::Duplicate);
        let successor = connection.successor().unwrap();
        assert_ne!(successor.id(), connection.id());
        assert_eq!(successor.peer().node, server.endpoint.node());
        assert!(successor.successor().is_none(), "it is open");
        assert_eq!(&*successor.call(b"and back", deadline).await.unwrap(), b"and back");
        second.close();
        successor.ended().await;
        assert!(connection.successor().is_none(), "there is none any more");
    });
}
