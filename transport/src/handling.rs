//! Whether a thread is running a handler.
//!
//! Who shuts an endpoint down waits for its handlers, but not from within one, of whatever endpoint: two of them would wait for each other.
//! A handler runs on the endpoint's own thread, on one that waits in [`block_on`](crate::Endpoint::block_on), or on a pool's, so the thread
//! alone does not tell.

use std::cell::Cell;

use crate::catching::{self, Panicked};
use crate::sync;

sync::thread_local! {
    /// One within the other, where a handler waits in `block_on`.
    static DEPTH: Cell<u32> = Cell::default();
}

/// Runs a handler.
///
/// # Errors
/// What it has panicked with.
pub(crate) fn run(handle: impl FnOnce()) -> Result<(), Panicked> {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let ended = catching::call(handle);
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    ended
}

/// Whether this thread runs a handler.
pub(crate) fn is_within() -> bool {
    DEPTH.with(Cell::get) > 0
}
