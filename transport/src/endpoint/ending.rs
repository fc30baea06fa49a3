//! How an endpoint ends.

use std::time::Duration;

use crate::handling;
use crate::limits::LEAVE_TIMEOUT;
use crate::local;
use crate::reactor::Command;
use crate::sync::atomic::Ordering;
use crate::sync::thread::{self, Thread};

use super::Inner;

/// For how long handlers that are at work are waited for before those who wait for a time, a connection or an event are told that none comes
/// any more: longer than peers are.
const HANDLERS_ALONE: Duration = Duration::from_secs(2);

/// A handler has panicked, or a thread of the endpoint's own has by a bug.
#[derive(Debug)]
pub(super) struct HandlerPanicked;

impl Inner {
    /// # Errors
    /// The endpoint has ended nevertheless.
    pub(super) fn shut_down(&self) -> Result<(), HandlerPanicked> {
        local::announce_all();
        for reactor in &self.reactors {
            reactor.submit(Command::ShutDown);
            reactor.stopping.store(true, Ordering::SeqCst);
            // Also for a handler's sake that waits for room: only when it has returned does its reactor see to the rest.
            reactor.refuse_all();
            reactor.interrupt_driver();
            if let Some(thread) = reactor.own_thread.get() {
                thread.unpark();
            }
        }
        // A handler may shut it down, or drop the last clone, of this endpoint or another one's. The threads see to the rest when their handlers have returned:
        // one that this waited for might wait for this one.
        // A simulated endpoint has no thread that could, nor anybody to wait for.
        let is_simulated = self.common.sim.is_some();
        let is_own = !is_simulated && (self.is_own_thread() || handling::is_within());
        let mut ended = if is_own { Ok(()) } else { self.join_threads() };
        for reactor in &self.reactors {
            // Nobody drives any more, unless it is this thread, further up, or who waits for something.
            let is_let_go = if reactor.has_panicked() {
                // It was left in the middle of a turn.
                reactor.let_go_at_once()
            } else if is_own {
                false
            } else {
                reactor.let_go()
            };
            if !is_let_go {
                reactor.interrupt_sleep();
            }
        }
        self.end_waits();
        // Who is in a handler, or woken by a thread of the endpoint's own, goes on with what that is there for: another one's panic is none of its own.
        let is_told = !is_own && !handling::is_within();
        if is_told && self.common.handler_panicked.swap(false, Ordering::SeqCst) {
            ended = Err(HandlerPanicked);
        }
        ended
    }

    /// Nobody waits any more for a time, a connection or an event.
    fn end_waits(&self) {
        self.common.accepted.end();
        self.common.registry.end();
        // Last, so that who waits for one of the above with a deadline learns of that first.
        self.reactors.iter().for_each(|reactor| reactor.end_timers());
    }

    fn is_own_thread(&self) -> bool {
        let current = thread::current().id();
        let own_threads = self.reactors.iter().filter_map(|reactor| reactor.own_thread.get());
        own_threads.map(Thread::id).any(|id| id == current)
    }

    /// Waits until the endpoint's threads have ended, also where somebody else shuts it down at the same time.
    fn join_threads(&self) -> Result<(), HandlerPanicked> {
        let mut ended = Ok(());
        let mut threads = self.threads.lock();
        let until = self.common.clock.now() + HANDLERS_ALONE;
        while !self.reactors.iter().all(|reactor| reactor.has_ended()) {
            let now = self.common.clock.now();
            if now >= until {
                // A handler may wait for what only this ends.
                self.end_waits();
                break;
            }
            park(until.since(now));
        }
        for thread in threads.drain(..) {
            // All of them, whatever has become of one.
            if thread.join().is_err() {
                ended = Err(HandlerPanicked);
            }
        }
        ended
    }

    /// Whether it has been shut down, or is about to be.
    pub(super) fn is_shut_down(&self) -> bool {
        self.reactors[0].stopping.load(Ordering::SeqCst)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Who drops it may be on the way out for that very reason, and the panic has been told where it happened.
        let _ = self.shut_down();
        self.common.accepted.leave();
    }
}

const _: () = assert!(HANDLERS_ALONE.as_millis() * 2 > LEAVE_TIMEOUT.as_millis() * 3);

#[expect(clippy::disallowed_methods, reason = "nobody looks at the endpoint's timers any more")]
fn park(time: Duration) {
    thread::park_timeout(time);
}
