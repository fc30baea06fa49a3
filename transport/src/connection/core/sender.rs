//! Which of a connection's users sends what they have committed: the sender role.
//!
//! Whoever has committed a frame either takes the role and sends it, or tells others that it is there and
//! leaves it to who has promised to send: the driver in its turn, the endpoint's own thread in a
//! stream, who holds the role, or who hears that the link has room again. To tell is an atomic
//! operation on what all users share, so it is left out where the role itself is at hand.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::CloseReason;
use crate::link::LinkKind;
use crate::reactor::Command;
use crate::session::outbound::{Outbound, Progress, Unannounced};
use crate::sync::MutexGuard;
use crate::sync::atomic::{Ordering, fence};
use crate::time::Time;

use super::Core;

/// A send that follows another within this time, with nothing come back in between, is taken for
/// part of a stream and left to the endpoint's own thread, which gathers.
const STREAM_GAP: Duration = Duration::from_micros(20);

/// Over a socket, a send before a turn ends is to follow the last one by this much: it costs either side some two microseconds, whatever
/// it carries. Without that, replies of 1 KiB went three at a time, and did not get beyond that: who is slow for that reason finds all the
/// more input, and answers it all the same way.
const SEND_PAYS: Duration = Duration::from_micros(8);

/// What is to be done with a frame that has been committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::connection) enum Committed {
    /// Nothing: the scope that this thread is in sends it at its end.
    Deferred,
    /// It is to be sent soon.
    Alone(Unannounced),
    /// Enough waits to be sent at once, or a `long` batch of it.
    Batch { unannounced: Unannounced, long: bool },
}

impl Core {
    /// Sees to it that what this thread has just committed is sent: by this thread, by whoever is
    /// in a turn, or by the endpoint's own thread (the three cases of the sender role).
    #[inline]
    pub(in crate::connection) fn committed(self: &Arc<Self>, committed: Committed) {
        match committed {
            Committed::Deferred => {}
            Committed::Alone(unannounced) => self.send_soon(unannounced),
            Committed::Batch { unannounced, long } => {
                if !self.flush_lanes(unannounced) && long {
                    // Whoever sends is slower than this thread, or has lost its processor to it,
                    // and would get it back only when the scheduler takes it away or when the
                    // whole window is committed, milliseconds later.
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Has `unannounced` sent, and all that has been announced, at once or at the end of the turn or
    /// stream that others are in; and finds a driver if there is none.
    pub(crate) fn send_soon(self: &Arc<Self>, unannounced: Unannounced) {
        self.send_by_caller(unannounced);
        self.reactor.ensure_driver();
    }

    /// As [`send_soon`](Self::send_soon), by a caller who drives the reactor next, or waits for a turn
    /// to.
    pub(crate) fn send_by_caller(self: &Arc<Self>, unannounced: Unannounced) {
        if self.is_promised() {
            self.session.lanes.announce(unannounced);
            // A promise that has been kept meanwhile was for others.
            if !self.is_promised() {
                self.flush(false);
            }
        } else if self.reactor.is_in_turn() {
            self.session.lanes.announce(unannounced);
            self.schedule();
            if !self.reactor.is_in_turn() {
                self.flush(false);
            }
        } else if self.is_streaming() {
            self.session.lanes.announce(unannounced);
            self.schedule();
            self.reactor.interrupt_sleep();
        } else {
            self.flush_lanes(unannounced);
        }
    }

    /// Whether somebody will flush: who has promised it, or who hears that the link has room.
    fn is_promised(&self) -> bool {
        self.scheduled.load(Ordering::SeqCst) || self.blocked.load(Ordering::SeqCst)
    }

    /// Whether the last send was a moment ago and nothing but credit has come since.
    fn is_streaming(&self) -> bool {
        if self.heard.load(Ordering::Relaxed) {
            return false;
        }
        self.since_flush() < STREAM_GAP
    }

    /// Whether what this thread has written is worth a send before its turn ends: `backlog` bytes, of which `added` have come
    /// just now.
    #[inline]
    pub(crate) fn is_send_due(&self, backlog: u64, added: u64) -> bool {
        self.session.overlap.is_reached(backlog, added, || {
            self.link.kind() != LinkKind::Tcp || self.since_flush() >= SEND_PAYS
        })
    }

    fn since_flush(&self) -> Duration {
        self.clock.now().since(Time::from_nanos(self.flushed_at.load(Ordering::Relaxed)))
    }

    /// Puts the connection on the list of those that the reactor flushes.
    pub(crate) fn schedule(self: &Arc<Self>) {
        if !self.scheduled.swap(true, Ordering::SeqCst) {
            self.reactor.push_dirty(Arc::clone(self));
        }
    }

    /// Takes the sender role, if it is free, and sends all that is committed, in `unannounced` too. Returns
    /// false if somebody else has the role.
    pub(crate) fn flush_lanes(self: &Arc<Self>, unannounced: Unannounced) -> bool {
        self.keep_promise();
        if self.takes_more()
            && let Some(mut outbound) = self.session.outbound.try_lock()
        {
            outbound.look_at(unannounced);
            if self.transmit(outbound) {
                self.flush(false);
            }
            return true;
        }
        self.session.lanes.announce(unannounced);
        self.flush(false)
    }

    /// Takes the sender role, if it is free, and sends all that is announced. `writable` says that
    /// the poller has found room on the link. Returns false if somebody else has the role.
    pub(crate) fn flush(self: &Arc<Self>, writable: bool) -> bool {
        self.keep_promise();
        if !writable && !self.takes_more() {
            return true;
        }
        loop {
            // Whoever holds the role looks again after releasing it.
            let Some(outbound) = self.session.outbound.try_lock() else { return false };
            if !self.transmit(outbound) {
                return true;
            }
        }
    }

    /// Whoever promised to flush does it now. Before the role is tried for: if somebody else has it,
    /// they may have sent what this is for and look no further, and a promise that nobody keeps any
    /// more would hold up all who rely on it.
    fn keep_promise(&self) {
        if self.scheduled.load(Ordering::Relaxed) {
            self.scheduled.store(false, Ordering::SeqCst);
        }
    }

    /// Sends what is there, in the sender role, and gives it up. Returns whether there is more to send
    /// by now, and room for it.
    fn transmit(self: &Arc<Self>, mut outbound: MutexGuard<'_, Outbound>) -> bool {
        self.heard.store(false, Ordering::Relaxed);
        let progress = outbound.transmit(&self.session, &self.link);
        let any_more = self.end_transmit(outbound, progress);
        if !any_more {
            self.flushed_at.store(self.clock.now().nanos(), Ordering::Relaxed);
        }
        any_more
    }

    /// Gives up the sender role after a transmission that got as far as `progress`. Returns whether
    /// there is more to send by now, and room for it.
    fn end_transmit(
        self: &Arc<Self>,
        mut outbound: MutexGuard<'_, Outbound>,
        progress: io::Result<Progress>,
    ) -> bool {
        let is_blocked = matches!(progress, Ok(Progress::Blocked));
        let was_blocked = self.blocked.swap(is_blocked, Ordering::SeqCst);
        let left = outbound.take_left();
        drop(outbound);
        // Posted buffers that have been sent go back, and wake who waits for them.
        drop(left);
        fence(Ordering::SeqCst);
        if let Err(error) = progress {
            self.close(CloseReason::link(&error));
            return false;
        }
        // That shared memory has room again changes nothing about how it is watched.
        if is_blocked != was_blocked && (is_blocked || self.link.kind() != LinkKind::Shm) {
            self.reactor.submit(Command::WatchWritable(Arc::clone(self)));
        }
        // Of a connection that has ended, what waits stays until it is discarded: nobody is to try again.
        !is_blocked && self.session.is_waiting() && !self.session.lanes.has_ended()
    }

    /// Whether the link is not known to be full.
    pub(super) fn takes_more(&self) -> bool {
        !self.blocked.load(Ordering::SeqCst) || self.link.has_room()
    }

    /// Queues a greeting and sends it.
    pub(crate) fn greet(self: &Arc<Self>, frame: Vec<u8>) {
        self.session.lanes.greet(frame);
        self.flush(false);
    }
}

#[cfg(test)]
mod tests;
