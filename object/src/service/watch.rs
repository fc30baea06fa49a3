//! Waiting for the end of a connection: references that were given by it are released then, and calls that have come by it and not begun never do.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;
use weft_transport::{Connection, Ended};

use super::disposal::drop_each;
use super::references::{End, Holder};
use super::services::Inner;

/// One connection that is watched. It is its own waker: the end wakes it, and nobody else waits.
pub(super) struct Watch {
    ended: Mutex<Option<Ended>>,
    services: Weak<Inner>,
    connection: Connection,
}

impl Watch {
    /// Watches `connection` until it ends. It may have ended already.
    pub(super) fn begin(services: &Arc<Inner>, connection: &Connection) {
        let watch = Self {
            ended: Mutex::new(Some(connection.ended())),
            services: Arc::downgrade(services),
            connection: connection.clone(),
        };
        Arc::new(watch).look();
    }

    fn look(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut ended = self.ended.lock();
        let Some(waiting) = &mut *ended else { return };
        let polled = Pin::new(waiting).poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            return;
        }
        *ended = None;
        drop(ended);
        let Some(services) = self.services.upgrade() else { return };
        let ended = (Holder::of(self.connection.peer()), self.connection.id());
        services.workers.end(ended);
        let successor = self.connection.successor();
        let by = successor.as_ref().map(Connection::id);
        let end = services.references.write().end(ended, by);
        let released = match (end, successor) {
            (End::Released(held), _) => held,
            (End::GoesOn { is_new: true }, Some(successor)) => {
                Self::begin(&services, &successor);
                Vec::new()
            }
            (End::GoesOn { .. }, _) => Vec::new(),
        };
        // Not here: destructors may do anything, and whoever closes a connection may hold whatever lock. This may be the last to hold the registry, too.
        let workers = services.workers.clone();
        workers.run(Box::new(move || {
            drop_each(released);
            drop(services);
        }));
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
