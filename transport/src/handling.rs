//! Whose handlers a thread is running.
//!
//! Who shuts an endpoint down waits for its handlers, but not from within one: two of them would wait for each other. A handler runs on
//! the endpoint's own thread or on one that waits in [`block_on`](crate::Endpoint::block_on), so the thread alone does not tell.

use std::cell::RefCell;
use std::ptr;

use crate::reactor::Common;
use crate::sync;

sync::thread_local! {
    /// One within the other, where a handler waits in `block_on`. Addresses, which are compared only.
    static HANDLING: RefCell<Vec<*const Common>> = RefCell::default();
}

/// Ends what [`run`] has begun, also when the handler panics.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        HANDLING.with(|handling| handling.borrow_mut().pop());
    }
}

/// Runs a handler of the endpoint that `common` is of.
pub(crate) fn run(common: &Common, handle: impl FnOnce()) {
    HANDLING.with(|handling| handling.borrow_mut().push(ptr::from_ref(common)));
    let _ended = Ended;
    handle();
}

/// Whether this thread runs a handler of the endpoint that `common` is of.
pub(crate) fn is_within(common: &Common) -> bool {
    HANDLING.with(|handling| handling.borrow().contains(&ptr::from_ref(common)))
}
