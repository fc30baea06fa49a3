//! The connection that a channel's receiving end hangs on, until there is none any more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use futures_util::FutureExt;
use parking_lot::Mutex;
use weft_transport::{CloseReason, Connection, Ended};

/// A connection, or the one that has taken its place. Nothing once neither is there: this is in what the connection's endpoint has for a handler.
pub(super) struct Bond {
    held: Mutex<Option<Held>>,
}

struct Held {
    connection: Connection,
    watch: Option<Ended>,
}

impl Bond {
    pub(super) fn new(connection: Connection) -> Bond {
        Bond { held: Mutex::new(Some(Held { connection, watch: None })) }
    }

    /// What waits for the end of the connection that is there now.
    pub(super) fn ended(&self) -> Option<Ended> {
        let mut held = self.held.lock();
        let held = held.as_mut()?;
        held.follow().then(|| held.connection.ended())
    }

    /// Has `waker` woken when the connection ends that is there now: at once, if it has.
    pub(super) fn watch(&self, waker: Waker) {
        let mut held = self.held.lock();
        let Some(Held { connection, watch }) = &mut *held else { return };
        let mut ended = connection.ended();
        let polled = Pin::new(&mut ended).poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            drop(held);
            return waker.wake();
        }
        *watch = Some(ended);
    }

    /// Lets go of the connection if it has ended and none has taken its place: why, unless that was done before. Nothing if one goes on.
    pub(super) fn leave(&self) -> Option<Option<CloseReason>> {
        let mut held = self.held.lock();
        if held.as_mut().is_some_and(Held::follow) {
            return None;
        }
        let left = held.take();
        drop(held);
        Some(left.and_then(|left| left.connection.ended().now_or_never()))
    }
}

impl Held {
    /// Goes on by the connection that has taken the place of this one, if it has made way. Returns whether one goes on.
    fn follow(&mut self) -> bool {
        while !self.connection.is_open() {
            let Some(successor) = self.connection.successor() else { return false };
            *self = Held { connection: successor, watch: None };
        }
        true
    }
}
