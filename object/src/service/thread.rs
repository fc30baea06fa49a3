//! Which threads may wait for a reply.

use std::cell::Cell;

use weft_transport::Connection;

thread_local! {
    /// This thread has received a call and handles it: what it would wait for, it would have to receive itself.
    static RECEIVES: Cell<bool> = const { Cell::new(false) };
}

/// Handles a call on the thread that has received it.
#[inline]
pub(super) fn receiving<T>(handle: impl FnOnce() -> T) -> T {
    /// Also when it panics: the thread goes on with other connections.
    struct Before(bool);

    impl Drop for Before {
        #[inline]
        fn drop(&mut self) {
            RECEIVES.set(self.0);
        }
    }

    let _before = Before(RECEIVES.replace(true));
    handle()
}

/// Runs `future` on this thread, which drives the connection meanwhile.
///
/// # Panics
/// On a simulated endpoint, and in a method that is not marked `#[blocking]`, which would wait for ever.
#[inline]
pub(super) fn block_on<F: Future>(connection: &Connection, future: F) -> F::Output {
    assert!(
        !RECEIVES.get(),
        "a method that waits for others has to be marked #[blocking]: it would wait for what its own thread receives"
    );
    connection.block_on(future)
}
