//! Running a handler: whether a thread does, and what one panics with.
//!
//! Who shuts an endpoint down waits for its handlers, but not from within one, of whatever endpoint: two of them would wait for each other.
//! A handler runs on the endpoint's own thread, on one that waits in [`block_on`](crate::Endpoint::block_on), or on a pool's, so the thread
//! alone does not tell.
//!
//! A panic is caught where the handler was called, so that whoever drives ends the turn that it is in for all other connections.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};

use crate::sync;

sync::thread_local! {
    /// One within the other, where a handler waits in `block_on`.
    static DEPTH: Cell<u32> = Cell::default();
}

/// What a handler has panicked with.
#[must_use]
pub(crate) struct HandlerPanic(Box<dyn Any + Send>);

impl HandlerPanic {
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

impl fmt::Debug for HandlerPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerPanic").finish_non_exhaustive()
    }
}

/// Runs a handler.
///
/// # Errors
/// What it has panicked with.
pub(crate) fn run(handle: impl FnOnce()) -> Result<(), HandlerPanic> {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    // What it was given ends with its connection, and what else it touches is the handler's to keep in order.
    let ended = panic::catch_unwind(AssertUnwindSafe(handle));
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    ended.map_err(HandlerPanic)
}

/// Whether this thread runs a handler.
pub(crate) fn is_within() -> bool {
    DEPTH.with(Cell::get) > 0
}
