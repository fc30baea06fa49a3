//! What a thread that receives leaves to others: waiting for a reply, and dropping objects of the program.

use std::cell::{Cell, RefCell};

use weft_transport::Connection;

use super::workers::Workers;

/// Something of the program's that is to be dropped.
pub(super) type Object = Box<dyn Send>;

thread_local! {
    /// This thread handles what it has received: what it would wait for, it would have to receive itself.
    static RECEIVES: Cell<bool> = const { Cell::new(false) };
    /// What it has let go of meanwhile. A destructor may wait, too.
    static ASIDE: RefCell<Vec<Object>> = const { RefCell::new(Vec::new()) };
}

/// Handles what this thread has received. Objects that it lets go of are dropped by `workers`.
#[inline]
pub(super) fn receiving<T>(workers: &Workers, handle: impl FnOnce() -> T) -> T {
    /// Also when it panics: the thread goes on with other connections.
    struct Before<'a>(&'a Workers, bool);

    impl Drop for Before<'_> {
        #[inline]
        fn drop(&mut self) {
            RECEIVES.set(self.1);
            let aside = ASIDE.take();
            if !aside.is_empty() {
                self.0.dispose_soon(aside);
            }
        }
    }

    let _before = Before(workers, RECEIVES.replace(true));
    handle()
}

/// Whether this thread handles what it has received.
#[inline]
pub(super) fn is_receiving() -> bool {
    RECEIVES.get()
}

/// Has `object` dropped elsewhere, when this thread has handled what it [receives](is_receiving).
pub(super) fn put_aside(object: Object) {
    ASIDE.with_borrow_mut(|aside| aside.push(object));
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
