//! How an endpoint ends.

use crate::local;
use crate::reactor::Command;
use crate::sync::atomic::Ordering;
use crate::sync::thread::{self, Thread};

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
        self.join_threads();
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

    /// Waits until the endpoint's threads have ended, also where somebody else shuts it down at the same time.
    fn join_threads(&self) {
        // A handler may shut it down, or drop the last clone, on one of these threads. Whoever waits for that one is
        // not waited for by it.
        let current = thread::current().id();
        let own_threads = self.reactors.iter().filter_map(|reactor| reactor.own_thread.get());
        let is_own = own_threads.map(Thread::id).any(|id| id == current);
        let threads = if is_own { self.threads.try_lock() } else { Some(self.threads.lock()) };
        let Some(mut threads) = threads else { return };
        // Its own handle stays for the next one who comes.
        while let Some(other) = threads.iter().position(|thread| thread.thread().id() != current) {
            let ended = threads.swap_remove(other).join();
            ended.expect("a reactor's thread ends without a panic");
        }
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
