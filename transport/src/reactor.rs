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
mod membership;
mod overdue;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use rustix::thread::sched_yield;

use crate::driver::Parker;
use crate::error::CloseReason;
use crate::idle::{Idle, YIELD_MIN};
use crate::limits::{FREE_SHARE, RECEIVE_BYTES};
use crate::link::{Link, LinkKind, Listener, VerbsPort};
use crate::memory::{Block, Purpose};
use crate::poller::{Poller, Ready, Token};
use crate::session::inbound::FrameRef;
use crate::session::landings::Landed;
use crate::time::Time;

use awake::Awake;
use conversation::{Conversation, Phase, Received, Turn};

pub(crate) use handle::{Command, Common, ReactorHandle};

/// How often unfinished greetings, stalled peers and the like are looked at.
const HOUSEKEEPING: Duration = Duration::from_millis(100);

/// Connections that had input in the last turn are tried without asking the poller, if there are
/// no more than this.
const HOT_MAX: usize = 4;

/// Looks at shared memory in one round of spinning: a microsecond or two, beside which the round's
/// other doings count for little.
const LOOKS: u32 = 32;

/// While it spins, a reactor asks the poller every so many rounds.
const POLL_EVERY: u32 = 16;

/// While it spins, a reactor lets others onto its core every so many rounds.
const YIELD_EVERY: u32 = 8;

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
}

impl Wait<'_> {
    /// Whether the driver is to look for something else to do.
    fn is_over(self, handle: &ReactorHandle) -> bool {
        let interrupted = match self {
            Self::Poll => true,
            Self::Own => handle.own_interrupt.load(Ordering::SeqCst),
            Self::Caller(parker) => parker.is_notified(),
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
    /// Connections to flush at the end of this turn.
    due: Vec<usize>,
    awake: Awake,
    /// What connections over verbs go by, where there is a device.
    port: Option<Arc<VerbsPort>>,
    /// Turns since the poller was asked.
    unasked: u32,
    scratch: Option<Block>,
    /// What a connection that was tried while spinning has brought; it lies in `scratch`.
    received: Option<(usize, Received)>,
    frames: Vec<FrameRef>,
    landed: Vec<Landed>,
    wakers: Vec<Waker>,
    idle: Idle,
    housekeeping_at: Option<Time>,
    /// Listeners that are not watched until there are descriptors again.
    paused: Vec<usize>,
    /// It has been said that there are none.
    warned: bool,
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
            due: Vec::new(),
            awake: Awake::default(),
            port: None,
            unasked: 0,
            scratch: None,
            received: None,
            frames: Vec::new(),
            landed: Vec::new(),
            wakers: Vec::new(),
            idle,
            housekeeping_at: None,
            paused: Vec::new(),
            warned: false,
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
    pub(crate) fn turn(&mut self, handle: &Arc<ReactorHandle>, wait: Wait<'_>) -> bool {
        let mut active = self.run_commands(handle);
        active |= self.flush(handle);
        self.ready.clear();
        let spun_until = match self.gather_ready(handle, wait) {
            Ok(spun_until) => spun_until,
            // Only a descriptor that is not ours could do this: a bug, not the network.
            Err(error) => panic!("the poller failed: {error}"),
        };
        active |= !self.ready.is_empty();
        handle.begin_turn();
        // The time that spinning has last looked at is some microseconds old at most.
        let now = spun_until.unwrap_or_else(|| handle.common.clock.now());
        self.hot.clear();
        if let Some((index, received)) = self.received.take() {
            active = true;
            self.handle_received(handle, index, received, now);
        }
        for index in 0..self.ready.len() {
            self.handle_ready(handle, self.ready[index], now);
        }
        active |= self.run_timers(handle, now);
        active |= !self.wakers.is_empty();
        self.wake(handle);
        handle.end_turn();
        active |= self.flush(handle);
        active
    }

    /// Flushes every connection that there is something for: from this turn, or left by others.
    /// Returns whether there was one.
    fn flush(&mut self, handle: &ReactorHandle) -> bool {
        let any = !self.due.is_empty();
        for index in self.due.drain(..) {
            // It may have ended since.
            if let Some(Some(conversation)) = self.conversations.get(index) {
                conversation.core.flush(false);
            }
        }
        handle.flush_dirty() || any
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

    /// Fills `ready`: first with what is there, then by waiting. Returns when spinning has last looked
    /// at the clock, if it has ended the wait.
    fn gather_ready(
        &mut self,
        handle: &Arc<ReactorHandle>,
        wait: Wait<'_>,
    ) -> io::Result<Option<Time>> {
        if let Poller::Sim = self.poller {
            self.look_around();
            return Ok(None);
        }
        if let Wait::Poll = wait {
            self.look_at_awake();
            self.poller.wait(Some(Duration::ZERO), &mut self.ready)?;
            return Ok(None);
        }
        if self.look_at_awake() {
            self.idle.end(true, Duration::ZERO);
            self.unasked = (self.unasked + 1) % POLL_EVERY;
            if self.unasked == 0 {
                self.poller.wait(Some(Duration::ZERO), &mut self.ready)?;
            }
            return Ok(None);
        }
        let began = handle.common.clock.now();
        if let Some((until, _permit)) = self.idle.begin(began)
            && let Some(looked) = self.spin(handle, (began, until), wait)?
        {
            self.idle.end(true, Duration::ZERO);
            return Ok(Some(looked));
        }
        let until = self.next_timer(handle);
        if let Wait::Caller(parker) = wait {
            parker.sleep(handle);
        }
        handle.sleep(until);
        if !wait.is_over(handle) && self.rest() {
            let now = handle.common.clock.now();
            let timeout = (until != Time::MAX).then(|| until.since(now));
            self.poller.wait(timeout, &mut self.ready)?;
        }
        self.look_at_awake();
        handle.wake_up();
        if let Wait::Caller(parker) = wait {
            parker.wake_up();
        }
        self.idle.end(false, handle.common.clock.now().since(began));
        Ok(None)
    }

    /// Spins from `began` until there is input, an interruption, a timer, or `until`. Returns when it
    /// has last looked at the clock, if the wait is over.
    fn spin(
        &mut self,
        handle: &ReactorHandle,
        (began, until): (Time, Time),
        wait: Wait<'_>,
    ) -> io::Result<Option<Time>> {
        let timer = self.next_timer(handle);
        let mut round = 0u32;
        let mut looked = began;
        loop {
            if self.receive_hot(handle) || self.watch_awake() {
                return Ok(Some(looked));
            }
            let asks = self.hot.is_empty() && self.is_all_quiet();
            if asks || round.is_multiple_of(POLL_EVERY) {
                self.poller.wait(Some(Duration::ZERO), &mut self.ready)?;
                if !self.ready.is_empty() {
                    return Ok(Some(looked));
                }
            }
            if wait.is_over(handle) {
                return Ok(Some(looked));
            }
            round = round.wrapping_add(1);
            if round.is_multiple_of(YIELD_EVERY) {
                let before = handle.common.clock.now();
                if !self.idle.core_is_taken(looked) {
                    sched_yield();
                }
                let now = handle.common.clock.now();
                let park = self.idle.yielded(looked, now) | self.idle.gave_way(before, now);
                looked = now;
                if now >= timer {
                    return Ok(Some(looked));
                }
                if park || now >= until {
                    return Ok(None);
                }
            }
            std::hint::spin_loop();
        }
    }

    /// Looks at links in memory for a moment. Returns whether there is something.
    fn watch_awake(&mut self) -> bool {
        if self.is_all_quiet() {
            return false;
        }
        for _ in 0..LOOKS {
            if self.look_at_awake() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Tries the few connections that had input in the last turn.
    fn receive_hot(&mut self, handle: &ReactorHandle) -> bool {
        if self.hot.len() > HOT_MAX {
            return false;
        }
        for at in 0..self.hot.len() {
            let index = self.hot[at];
            if let Some(received) = self.receive(handle, index) {
                self.received = Some((index, received));
                return true;
            }
        }
        false
    }

    /// Handles one link that the poller found ready.
    fn handle_ready(&mut self, handle: &Arc<ReactorHandle>, ready: Ready, now: Time) {
        if let (Some(port), true) = (&self.port, PORT.contains(&ready.token)) {
            // What it tells of is looked at by the next turn.
            port.hear();
            return port.hear_events();
        }
        if ready.token.0 >= LISTENERS {
            return self.accept(handle, (ready.token.0 - LISTENERS) as usize);
        }
        let index = ready.token.0 as usize;
        let Some(Some(conversation)) = self.conversations.get_mut(index) else { return };
        if let Phase::Connecting { by, .. } = conversation.phase {
            return self.finish_connect(handle, index, by);
        }
        let mut writable = ready.writable;
        match &conversation.core.link {
            Link::Shm(link) if ready.told => {
                link.hear();
                writable |= conversation.core.is_blocked();
                self.awake.note(index);
            }
            Link::Verbs(link) if ready.told => link.hear(),
            _ => {}
        }
        if writable {
            conversation.core.flush(true);
        }
        if conversation.core.link.take_fetched() {
            self.handle_fetched(handle, index, now);
        }
        if ready.readable
            && let Some(received) = self.receive(handle, index)
        {
            self.handle_received(handle, index, received, now);
        }
    }

    /// Handles what has been read from the memory of a connection's peer.
    fn handle_fetched(&mut self, handle: &Arc<ReactorHandle>, index: usize, now: Time) {
        let Some(Some(conversation)) = self.conversations.get_mut(index) else { return };
        let mut turn = Turn {
            common: &handle.common,
            wakers: &mut self.wakers,
            frames: &mut self.frames,
            landed: &mut self.landed,
            now,
        };
        conversation.handle_fetched(&mut turn);
        self.after_input(handle, index, now);
    }

    /// Goes on with what may go on after input on a connection.
    fn after_input(&mut self, handle: &Arc<ReactorHandle>, index: usize, now: Time) {
        let Some(Some(conversation)) = self.conversations.get_mut(index) else { return };
        conversation.retry(&handle.common);
        conversation.settle(now);
        if conversation.take_flush_due() {
            self.due.push(index);
        }
        if conversation.needs_housekeeping() {
            self.housekeep_soon(now);
        }
        if handle.common.memory.is_short(FREE_SHARE) {
            self.housekeeping_at = Some(self.housekeeping_at.map_or(now, |at| at.min(now)));
        }
    }

    /// Receives what is there on a connection. An error or the end of the stream closes it.
    fn receive(&mut self, handle: &ReactorHandle, index: usize) -> Option<Received> {
        let conversation = self.conversations.get_mut(index)?.as_mut()?;
        if self.scratch.is_none() {
            match handle.common.memory.allocate(RECEIVE_BYTES, Purpose::Receive) {
                Ok(block) => self.scratch = Some(block),
                Err(_) => {
                    conversation.core.close(CloseReason::Memory);
                    return None;
                }
            }
        }
        let scratch = self.scratch.as_mut().expect("it was just made");
        let reason = match conversation.receive(scratch) {
            Ok(Some(received)) if received.count == 0 => CloseReason::PeerGone,
            Ok(received) => return received,
            Err(error) => CloseReason::Link(error.kind()),
        };
        conversation.core.close(reason);
        self.remove(index);
        None
    }

    /// Handles what was received on a connection.
    fn handle_received(
        &mut self,
        handle: &Arc<ReactorHandle>,
        index: usize,
        received: Received,
        now: Time,
    ) {
        let scratch = self.scratch.take().expect("something was received into it");
        let Some(Some(conversation)) = self.conversations.get_mut(index) else { return };
        let mut turn = Turn {
            common: &handle.common,
            wakers: &mut self.wakers,
            frames: &mut self.frames,
            landed: &mut self.landed,
            now,
        };
        let in_memory = matches!(conversation.core.link.kind(), LinkKind::Shm | LinkKind::Verbs);
        self.scratch = conversation.handle(received, scratch, &mut turn);
        self.after_input(handle, index, now);
        if !in_memory {
            self.hot.push(index);
        }
    }

    /// Ends what has run out of time, and begins what was to wait for it. Returns whether it has left
    /// something to do.
    fn run_timers(&mut self, handle: &Arc<ReactorHandle>, now: Time) -> bool {
        let mut began = false;
        if handle.take_due(now, &mut self.wakers) {
            for conversation in self.conversations.iter().flatten() {
                let calls = &conversation.core.session.calls;
                if let Some(next) = calls.expire(now, &mut self.wakers) {
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

    /// Wakes those whose replies have come. A caller that drives lets the others commit their next
    /// requests, which the flush at the end of the turn then sends together.
    fn wake(&mut self, handle: &ReactorHandle) {
        let woken = self.wakers.len();
        self.wakers.drain(..).for_each(Waker::wake);
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

    /// Fills `ready` with the simulated links that are.
    fn look_around(&mut self) {
        for (index, listener) in self.listeners.iter().enumerate() {
            if matches!(listener, Listener::Sim(listener) if listener.is_ready()) {
                let token = Token(LISTENERS + index as u64);
                self.ready.push(Ready { token, readable: true, writable: false, told: true });
            }
        }
        for (index, conversation) in self.conversations.iter().enumerate() {
            let Some(conversation) = conversation else { continue };
            if let Link::Sim(link) = &conversation.core.link {
                let wants_room = conversation.core.is_blocked()
                    || matches!(conversation.phase, Phase::Connecting { .. });
                let (readable, writable) = (link.is_readable(), wants_room && link.is_writable());
                if readable || writable {
                    let token = Token(index as u64);
                    self.ready.push(Ready { token, readable, writable, told: true });
                }
            }
        }
    }
}
