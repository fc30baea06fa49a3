//! Panics of what others have handed to the transport, caught where it calls them: handlers, and wakers.
//!
//! Whoever drives ends its turn for all others then, and whoever wakes wakes the rest.

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::task::Waker;

/// What somebody's code has panicked with.
#[must_use]
pub(crate) struct Panicked(Box<dyn Any + Send>);

impl Panicked {
    /// Goes on with the panic, as if nobody had caught it.
    pub(crate) fn resume(self) -> ! {
        panic::resume_unwind(self.0)
    }

    /// Lets go of it, whatever that does in its turn.
    pub(crate) fn discard(self) {
        if let Err(next) = panic::catch_unwind(AssertUnwindSafe(|| drop(self.0))) {
            // What panics when it is dropped may do so for ever.
            mem::forget(next);
        }
    }
}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panicked").finish_non_exhaustive()
    }
}

/// Calls somebody's code, which keeps in order itself what it touches.
///
/// # Errors
/// What it has panicked with.
pub(crate) fn call(code: impl FnOnce()) -> Result<(), Panicked> {
    panic::catch_unwind(AssertUnwindSafe(code)).map_err(Panicked)
}

/// Wakes somebody. A waker that panics is logged: it is nobody else's who is to be woken.
pub(crate) fn wake(waker: Waker) {
    if let Err(panicked) = call(|| waker.wake()) {
        tracing::error!("a waker has panicked: who waits by it is not woken");
        panicked.discard();
    }
}
