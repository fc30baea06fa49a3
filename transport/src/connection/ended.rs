//! Waiting for a connection's end.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Core;
use crate::error::CloseReason;
use crate::sync::Mutex;

/// Those who wait for the end of one of an endpoint's connections. Most connections have none, and are many, so they lie here.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the number of the connection.
    waiting: HashMap<u64, Vec<(u64, Waker)>>,
    next: u64,
}

impl Endings {
    /// The connection of this number has ended.
    pub(crate) fn take_waiters(&self, connection: u64, wakers: &mut Vec<Waker>) {
        let waiting = self.state.lock().waiting.remove(&connection).unwrap_or_default();
        wakers.extend(waiting.into_iter().map(|(_, waker)| waker));
    }
}

/// Waits for a connection's end; see [`Connection::ended`](super::Connection::ended).
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Ended {
    core: Arc<Core>,
    waits: Option<u64>,
}

impl Ended {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), waits: None }
    }
}

impl Future for Ended {
    type Output = CloseReason;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CloseReason> {
        let this = &mut *self;
        let mut state = this.core.reactor.common.endings.state.lock();
        // Under the lock: who closes sets the reason first, and then takes the waiters.
        if let Some(reason) = this.core.closed() {
            return Poll::Ready(reason.clone());
        }
        let waits = *this.waits.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        let waiting = state.waiting.entry(this.core.id).or_default();
        match waiting.iter_mut().find(|(number, _)| *number == waits) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => waiting.push((waits, context.waker().clone())),
        }
        drop(state);
        this.core.reactor.ensure_driver();
        Poll::Pending
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let Some(waits) = self.waits else { return };
        let mut state = self.core.reactor.common.endings.state.lock();
        let Some(waiting) = state.waiting.get_mut(&self.core.id) else { return };
        waiting.retain(|(number, _)| *number != waits);
        if waiting.is_empty() {
            state.waiting.remove(&self.core.id);
        }
    }
}
