//! Waiting for a connection's end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Core;
use crate::error::CloseReason;
use crate::sync::Mutex;

/// Those who wait for the end of one connection.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<(u64, Waker)>,
    next: u64,
}

impl Endings {
    /// The connection has ended.
    pub(crate) fn take_waiters(&self, wakers: &mut Vec<Waker>) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
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
        let mut state = this.core.endings.state.lock();
        // Under the lock: who closes sets the reason first, and then takes the waiters.
        if let Some(reason) = this.core.closed() {
            return Poll::Ready(reason.clone());
        }
        let waits = *this.waits.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        match state.waiting.iter_mut().find(|(number, _)| *number == waits) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => state.waiting.push((waits, context.waker().clone())),
        }
        drop(state);
        this.core.reactor.ensure_driver();
        Poll::Pending
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(waits) = self.waits {
            self.core.endings.state.lock().waiting.retain(|(number, _)| *number != waits);
        }
    }
}
