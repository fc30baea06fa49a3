//! How an endpoint ends.

use crate::local;
use crate::reactor::Command;
use crate::sync::atomic::Ordering;
use crate::sync::thread;

use super::Inner;

impl Inner {
    pub(super) fn shut_down(&self) {
        local::announce_all();
        for reactor in &self.reactors {
            reactor.submit(Command::ShutDown);
            reactor.stopping.store(true, Ordering::SeqCst);
            reactor.interrupt_driver();
            if let Some(thread) = reactor.own_thread.get() {
                thread.unpark();
            }
        }
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // The last clone may be dropped by a handler, on one of these threads.
            if thread.thread().id() != thread::current().id() {
                thread.join().expect("a reactor's thread ends without a panic");
            }
        }
        for reactor in &self.reactors {
            // Nobody drives any more, unless it is this thread, further up, or who waits for something.
            if !reactor.let_go() {
                reactor.interrupt_sleep();
            }
        }
        self.common.accepted.end();
        self.common.registry.end();
        // Last, so that who waits for one of the above with a deadline learns of that first.
        self.reactors.iter().for_each(|reactor| reactor.end_timers());
    }

    /// Whether it has been shut down, or is about to be.
    pub(super) fn is_shut_down(&self) -> bool {
        self.reactors[0].stopping.load(Ordering::SeqCst)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shut_down();
        self.common.accepted.leave();
    }
}
