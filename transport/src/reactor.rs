//! The reactor: who polls the links, receives, dispatches, and flushes what that produced.
//!
//! Receiving is a role, not a thread (DXNet's hand-overs between threads cost it 8 us where MPI
//! needs 2). Whoever holds the lock on [`Reactor`] drives it, one turn after the other: the
//! endpoint's own thread, or a caller that waits for a reply anyway ([`driver`](crate::driver)).
//! Replies leave when their handler is done; during a turn others only leave their records, which its end flushes.
//! A reactor never stops reading: what cannot be answered yet is set aside, bounded by the window.

mod awake;
mod conversation;
mod deferred;
mod handle;
mod input;
mod membership;
mod overdue;
mod shared;
mod waiting;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use rustix::thread::sched_yield;

use crate::catching::{self, Panicked};
#[cfg(test)]
use crate::connection::Core;
use crate::driver::Parker;
use crate::idle::{Idle, YIELD_MIN};
use crate::link::{Listener, VerbsPort};
use crate::memory::Block;
use crate::poller::{Poller, Ready, Token};
#[cfg(test)]
use crate::session::ledger::ReceivedBody;
use crate::time::Time;

use awake::Awake;
use conversation::{Brought, Conversation, Received};

pub(crate) use deferred::again;
pub(crate) use handle::{Command, ReactorHandle};
pub(crate) use shared::Common;

/// How often unfinished greetings, stalled peers and the like are looked at.
const HOUSEKEEPING: Duration = Duration::from_millis(100);

/// After replies for other threads have come, a caller that drives lets them commit their next
/// requests before it flushes, by yielding up to this many times.
const YIELDS_MAX: usize = 128;

/// How a turn waits for something to do.
#[derive(Clone, Copy)]
pub(crate) enum Wait<'a> {
    /// Not at all.
    Poll,
    /// Until there is: the endpoint's own thread, unless it is interrupted.
    Own,
    /// Until there is, or until this caller is notified.
    Caller(&'a Parker),
    /// The same, unless it is interrupted.
    Aside(&'a Parker),
}

impl Wait<'_> {
    /// Whether the driver is to look for something else to do.
    fn is_over(self, handle: &ReactorHandle) -> bool {
        let interrupted = match self {
            Self::Poll => true,
            Self::Own => handle.interrupt.load(Ordering::SeqCst),
            Self::Caller(parker) => parker.is_notified(),
            Self::Aside(parker) => parker.is_notified() || handle.interrupt.load(Ordering::SeqCst),
        };
        interrupted || handle.has_work()
    }
}

/// What only the driver of a reactor touches.
#[derive(Debug)]
pub(crate) struct Reactor {
    poller: Poller,
    conversations: Vec<Option<Conversation>>,
    listeners: Vec<Listener>,
    ready: Vec<Ready>,
    hot: Vec<usize>,
    /// Whether these are known to have had no more at the first look since.
    hot_looked_at: bool,
    /// Connections to flush at the end of this turn.
    due: Vec<usize>,
    awake: Awake,
    /// What connections over verbs go by, where there is a device.
    port: Option<Arc<VerbsPort>>,
    /// Turns and rounds of spinning since the poller was asked.
    unasked: u32,
    /// Until when it was last known to be asked.
    asked_at: Time,
    scratch: Option<Block>,
    /// What a connection that was tried while spinning has brought; it lies in `scratch`.
    received: Option<(usize, Received)>,
    brought: Brought,
    idle: Idle,
    housekeeping_at: Option<Time>,
    /// Listeners that are not watched until there are descriptors again.
    paused: Vec<usize>,
    /// It has been said that there are none.
    warned: bool,
    /// Until when what is committed is still sent, once the endpoint has been shut down.
    closes_by: Option<Time>,
}

/// Tokens from here on are listeners'.
const LISTENERS: u64 = 1 << 48;

/// The tokens of a device: of what has come over it, and of itself.
const PORT: [Token; 2] = [Token(1 << 56), Token((1 << 56) + 1)];

impl Reactor {
    pub(crate) fn new(poller: Poller, idle: Idle) -> Self {
        Self {
            poller,
            conversations: Vec::new(),
            listeners: Vec::new(),
            ready: Vec::new(),
            hot: Vec::new(),
            hot_looked_at: false,
            due: Vec::new(),
            awake: Awake::default(),
            port: None,
            unasked: 0,
            asked_at: Time::from_nanos(0),
            scratch: None,
            received: None,
            brought: Brought::default(),
            idle,
            housekeeping_at: None,
            paused: Vec::new(),
            warned: false,
            closes_by: None,
        }
    }

    /// Connects and accepts over verbs from now on, by way of `port`.
    pub(crate) fn use_port(&mut self, port: Arc<VerbsPort>) -> io::Result<()> {
        self.poller.add_port(&port, PORT)?;
        self.port = Some(port);
        Ok(())
    }

    /// One turn: waits for input as `wait` says, handles all that is there, and flushes. Returns
    /// whether anything happened.
    ///
    /// # Errors
    /// What a handler has panicked with, after all else of the turn.
    pub(crate) fn turn(
        &mut self,
        handle: &Arc<ReactorHandle>,
        wait: Wait<'_>,
    ) -> Result<bool, Panicked> {
        let mut active = self.run_commands(handle);
        if active {
            // Such as those who are to hear of an end: the wait below may be long.
            self.wake(handle);
        }
        active |= self.flush(handle);
        self.ready.clear();
        let spun_until = match self.gather_ready(handle, wait) {
            Ok(spun_until) => spun_until,
            // Only a descriptor that is not ours could do this: a bug, not the network.
            Err(error) => panic!("the poller failed: {error}"),
        };
        handle.begin_turn();
        // The time that spinning has last looked at is some microseconds old at most.
        let now = spun_until.unwrap_or_else(|| handle.common.clock.now());
        if let Err(error) = self.ask_overdue_poller(now) {
            panic!("the poller failed: {error}");
        }
        active |= !self.ready.is_empty();
        self.hot.clear();
        self.hot_looked_at = false;
        if let Some((index, received)) = self.received.take() {
            active = true;
            self.handle_received(handle, index, received, now);
        }
        for index in 0..self.ready.len() {
            if self.is_shutdown_due(handle) {
                break;
            }
            self.handle_ready(handle, self.ready[index], now);
        }
        self.idle.brought(std::mem::take(&mut self.brought.count), now);
        active |= self.run_timers(handle, now);
        active |= !self.brought.wakers.is_empty();
        self.wake(handle);
        handle.end_turn();
        active |= self.flush(handle);
        if let Some(by) = self.closes_by {
            active |= self.close_what_is_sent(handle, by);
        }
        self.brought.panic.take().map_or(Ok(active), Err)
    }

    /// Flushes every connection that there is something for: from this turn, or left by others.
    /// Returns whether there was one.
    fn flush(&mut self, handle: &ReactorHandle) -> bool {
        let any = !self.due.is_empty();
        if any {
            // Who has the sender role either sees that a grant is due, as it gives that up, or has given it up by now.
            fence(Ordering::SeqCst);
        }
        for index in self.due.drain(..) {
            // It may have ended since.
            if let Some(Some(conversation)) = self.conversations.get(index) {
                conversation.core.flush(false);
            }
        }
        handle.flush_dirty() || any
    }

    /// The streamed bodies on their way in on `core`.
    #[cfg(test)]
    pub(crate) fn ledger(&self, core: &Arc<Core>) -> Vec<ReceivedBody> {
        let here = self.open().find(|conversation| Arc::ptr_eq(&conversation.core, core));
        here.map_or_else(Vec::new, Conversation::ledger)
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self, handle: &ReactorHandle) -> Time {
        handle.next_deadline().min(self.housekeeping_at.unwrap_or(Time::MAX))
    }

    /// Whether any call waits for its reply here.
    pub(crate) fn has_pending_calls(&self) -> bool {
        self.open().any(|conversation| conversation.core.session.calls.pending() > 0)
    }

    /// The connections that have not ended.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Conversation> {
        self.conversations.iter().flatten().filter(|c| c.core.closed().is_none())
    }

    /// Ends what has run out of time, and begins what was to wait for it. Returns whether it has left
    /// something to do.
    fn run_timers(&mut self, handle: &Arc<ReactorHandle>, now: Time) -> bool {
        let mut began = false;
        let late = self.lateness(now);
        if late > Duration::ZERO {
            handle.note_unseen(late);
        }
        if handle.take_due(now, &mut self.brought.wakers) {
            for conversation in self.conversations.iter().flatten() {
                let calls = &conversation.core.session.calls;
                if let Some(next) = calls.expire(now, &mut self.brought.wakers) {
                    handle.note_deadline(next);
                }
            }
            began = self.try_due(handle, now);
        }
        if self.housekeeping_at.is_some_and(|at| now >= at) {
            self.housekeep(handle, now);
        }
        began
    }

    /// Wakes those whose replies, or what else they wait for, have come. A caller that drives lets the others commit their next
    /// requests, which the flush at the end of the turn then sends together.
    fn wake(&mut self, handle: &ReactorHandle) {
        let woken = self.brought.wakers.len();
        self.brought.wakers.drain(..).for_each(catching::wake);
        if woken > 1 && handle.callers.load(Ordering::SeqCst) > 1 {
            let mut now = handle.common.clock.now();
            for _ in 0..woken.min(YIELDS_MAX) {
                if self.idle.core_is_taken(now) {
                    break;
                }
                sched_yield();
                let before = std::mem::replace(&mut now, handle.common.clock.now());
                if now.since(before) < YIELD_MIN {
                    break;
                }
                self.idle.yielded(before, now);
            }
        }
    }
}
