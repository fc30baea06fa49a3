//! Replies from threads of the registry's own. One that finds no window waits for it without a thread, as long as its caller likes: it keeps the slot of
//! its call, of which the caller has few.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;
use weft_transport::{Body, Connection, Responder};

use super::services::Services;
use super::workers::{Slot, Workers};

/// What answers a call that is handled beside the thread that has received it.
#[derive(Debug)]
pub(super) struct Beside<'b> {
    pub(super) responder: Responder,
    pub(super) services: &'b Services,
    pub(super) connection: &'b Connection,
    /// Stays there, if the reply is taken at once.
    pub(super) slot: &'b mut Option<Slot>,
}

impl Beside<'_> {
    /// Replies with `body`, which gives the caller the references in `given`: they are taken back if it cannot be sent.
    pub(super) fn reply(self, body: impl Body + 'static, given: Vec<u64>) {
        let Self { responder, services, connection, slot } = self;
        let mut given = (!given.is_empty()).then(|| Given {
            services: services.clone(),
            connection: connection.clone(),
            references: given,
        });
        let reply = async move {
            let sent = responder.reply(body).await;
            if let (Ok(()), Some(given)) = (sent, &mut given) {
                given.references.clear();
            }
        };
        let waiting = Waiting { reply: Box::pin(reply), slot: None };
        let workers = services.inner().workers.clone();
        let unsent = Arc::new(Unsent { waiting: Mutex::new(Some(waiting)), workers });
        connection.block_on(async { unsent.poll() });
        if let Some(waiting) = &mut *unsent.waiting.lock() {
            waiting.slot = slot.take();
        }
        // Once more if it waits: whoever would have driven the connection is on its way out, so somebody else has to.
        unsent.poll();
    }
}

/// References that go with a reply. Unless that is sent they are taken back.
struct Given {
    services: Services,
    connection: Connection,
    references: Vec<u64>,
}

impl Drop for Given {
    /// Objects are dropped elsewhere: whoever drops this polls a reply, and has it locked.
    fn drop(&mut self) {
        let Self { services, connection, references } = self;
        let released =
            references.drain(..).filter_map(|id| services.release(connection.peer(), id));
        services.inner().workers.dispose(released.collect());
    }
}

/// A reply that may have to wait. It is its own waker.
struct Unsent {
    /// Nothing once it is done.
    waiting: Mutex<Option<Waiting>>,
    workers: Workers,
}

struct Waiting {
    reply: Pin<Box<dyn Future<Output = ()> + Send>>,
    slot: Option<Slot>,
}

impl Unsent {
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut state = self.waiting.lock();
        let Some(waiting) = &mut *state else { return };
        if waiting.reply.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            let done = state.take();
            drop(state);
            drop(done);
        }
    }
}

impl Wake for Unsent {
    /// Not polled here: whoever wakes may be in the midst of sending something else.
    fn wake(self: Arc<Self>) {
        let workers = self.workers.clone();
        workers.reply(Box::new(move || self.poll()));
    }
}
