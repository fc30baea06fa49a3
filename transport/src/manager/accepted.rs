//! Connections that peers have begun, until somebody asks for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::catching;
use crate::connection::{Connection, Core};
use crate::sync::Mutex;

/// Connections that peers have begun, until somebody asks for them.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Only where messages go to posted receives: elsewhere nobody asks.
    is_kept: bool,
    state: Mutex<AcceptedState>,
}

#[derive(Debug, Default)]
struct AcceptedState {
    waiting: VecDeque<Arc<Core>>,
    wakers: Vec<Waker>,
    /// No more will come.
    ended: bool,
    /// Nobody asks any more.
    is_left: bool,
}

impl Accepted {
    pub(crate) fn new(is_kept: bool) -> Self {
        Self { is_kept, state: Mutex::default() }
    }

    /// A peer has begun a connection.
    pub(crate) fn add(&self, core: &Arc<Core>) {
        if !self.is_kept {
            return;
        }
        let mut state = self.state.lock();
        if state.is_left {
            return;
        }
        state.waiting.push_back(Arc::clone(core));
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(catching::wake);
    }

    /// A connection has ended. If something has come over it that can still be received, it is handed out
    /// nevertheless.
    pub(crate) fn forget(&self, core: &Arc<Core>) {
        if core.session.receives.waiting() == 0 {
            self.state.lock().waiting.retain(|waiting| !Arc::ptr_eq(waiting, core));
        }
    }

    /// No more will come.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(catching::wake);
    }

    /// Nobody asks any more. What waits is let go of: it holds its endpoint, and so this.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        state.is_left = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    /// The connection that has waited longest, or later; none if no more will come.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Option<Connection>> {
        let mut state = self.state.lock();
        if let Some(core) = state.waiting.pop_front() {
            return Poll::Ready(Some(Connection::new(core)));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
