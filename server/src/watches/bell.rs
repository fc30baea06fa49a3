//! Which watches may have something to tell to somebody who waits, and how the one who answers learns of it.

use std::sync::Arc;
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// Rung under a partition's lock, so it does next to nothing.
#[derive(Debug, Default)]
pub(super) struct Bell {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Watches that there was an event for. Each is here once at most: it rings once for each time that it was asked.
    due: Vec<u64>,
    answerer: Option<Waker>,
}

/// Rings for one watch.
struct Rope {
    bell: Arc<Bell>,
    id: u64,
}

impl Bell {
    /// What rings for a watch.
    pub(super) fn waker_for(self: &Arc<Bell>, id: u64) -> Waker {
        Arc::new(Rope { bell: Arc::clone(self), id }).into()
    }

    /// Wakes the one who answers, for no watch in particular.
    pub(super) fn ring(&self) {
        let answerer = self.state.lock().answerer.take();
        if let Some(answerer) = answerer {
            answerer.wake();
        }
    }

    /// The watches that it was rung for since. From now on `answerer` is woken.
    pub(super) fn take(&self, answerer: &Waker) -> Vec<u64> {
        let mut state = self.state.lock();
        state.answerer = Some(answerer.clone());
        std::mem::take(&mut state.due)
    }
}

impl Wake for Rope {
    fn wake(self: Arc<Rope>) {
        self.bell.state.lock().due.push(self.id);
        self.bell.ring();
    }
}
