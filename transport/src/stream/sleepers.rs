//! The tasks that wait for one stream: of reading and writing, which may be two, on two threads.

use std::sync::Arc;
use std::task::Wake;

use futures_util::task::AtomicWaker;

/// As a waker, it wakes both.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    pub(super) reader: AtomicWaker,
    pub(super) writer: AtomicWaker,
}

impl Wake for Sleepers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.reader.wake();
        self.writer.wake();
    }
}
