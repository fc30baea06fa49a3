//! How connections leave: closed, read to their end, and let go of.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::connection::Core;
use crate::error::CloseReason;
use crate::limits::LEAVE_TIMEOUT;
use crate::link::Transfer;
use crate::reactor::conversation::{Conversation, Phase};
use crate::reactor::handle::ReactorHandle;
use crate::reactor::{Reactor, Wait};
use crate::time::Time;

/// How long a closed connection is read to its end, so that the peer gets the goodbye instead of
/// a reset.
pub(super) const DRAIN: Duration = Duration::from_millis(500);

/// How often a connection is received from before it is closed at the end: more than a window of
/// the usual size holds, so that only a flood is not heard to its end.
const LAST_RECEIVES: usize = 32;

impl Reactor {
    /// Nothing begins on a connection any more: another one may take its place.
    pub(super) fn let_go(&mut self, handle: &ReactorHandle, core: &Arc<Core>) {
        let now = handle.common.clock.now();
        if core.counts.swap(false, Ordering::SeqCst) {
            handle.common.connections.fetch_sub(1, Ordering::Relaxed);
        }
        handle.common.registry.forget(core, now, &mut self.brought.wakers);
        handle.common.see_to_schedule();
        self.housekeep_soon(now);
    }

    /// A connection has been closed: nobody finds it any more, and it is read to its end.
    pub(super) fn leave(&mut self, handle: &Arc<ReactorHandle>, core: &Arc<Core>) {
        let now = handle.common.clock.now();
        handle.members.lock().remove(&core.id);
        let place = core.place.load(Ordering::Relaxed);
        let until = self.drains_until(place, now);
        if let Some(Some(conversation)) = self.conversations.get_mut(place)
            && Arc::ptr_eq(&conversation.core, core)
        {
            conversation.begin_draining(until);
        }
        // Its attempt has ended by now.
        self.let_go(handle, core);
        handle.common.accepted.forget(core);
        if let (Some(reason), peer) = (core.closed(), core.address) {
            tracing::debug!(%peer, %reason, "connection closed");
        }
        self.housekeep_soon(now);
    }

    /// How long a connection that is closed now is read to its end: longer where the endpoint is shut down. Then the peer may
    /// not have taken all of what lies in sockets, and would lose it to the reset with which its next word is answered once ours
    /// is gone.
    fn drains_until(&self, place: usize, now: Time) -> Time {
        let until = now + DRAIN;
        let conversation = self.conversations.get(place).and_then(Option::as_ref);
        match self.closes_by {
            Some(by) if conversation.is_some_and(|c| c.phase == Phase::Open) => by.max(until),
            Some(_) | None => until,
        }
    }

    /// Lets go of a closed connection that nothing more comes in on.
    pub(in crate::reactor) fn remove(&mut self, place: usize) {
        if let Some(mut conversation) = self.conversations[place].take() {
            conversation.begin_draining(Time::ZERO);
            self.poller.remove(&conversation.core.link);
            conversation.core.link.shutdown();
        }
    }

    /// Accepts nothing more, hands what has arrived to the handler, and closes everything when what is committed,
    /// such as the replies, has been sent.
    pub(super) fn shut_down(&mut self, handle: &Arc<ReactorHandle>) {
        self.listeners.clear();
        let clock = &handle.common.clock;
        let now = clock.now();
        let heard_by = now + LEAVE_TIMEOUT;
        for place in 0..self.conversations.len() {
            for _ in 0..LAST_RECEIVES {
                // The handler may take its time.
                if clock.now() >= heard_by {
                    break;
                }
                let is_open =
                    |c: &Conversation| c.phase == Phase::Open && c.core.closed().is_none();
                let open = self.conversations[place].as_ref().is_some_and(is_open);
                match open.then(|| self.receive(handle, place)).flatten() {
                    Some(received) => self.handle_received(handle, place, received, now),
                    None => break,
                }
            }
        }
        // Whoever sends without pause would be sent for to the end of the time that peers have. Those that were there when the
        // endpoint was shut down refuse already.
        for Conversation { core, .. } in self.open() {
            core.refuse();
        }
        let by = clock.now() + LEAVE_TIMEOUT;
        self.closes_by = Some(by);
        self.close_what_is_sent(handle, by);
        self.housekeep_soon(now);
    }

    /// Whether the endpoint has been shut down and it is time to see to that, before the handler is given more: it is time
    /// when that has not begun, and when peers have had theirs.
    #[inline]
    pub(in crate::reactor) fn is_shutdown_due(&self, handle: &ReactorHandle) -> bool {
        handle.stopping.load(Ordering::Relaxed)
            && self
                .closes_by
                .is_none_or(|by| handle.common.clock.now() >= by && self.open().next().is_some())
    }

    /// Once the endpoint has been shut down: closes the connections on which the link has taken all that was
    /// committed, and the others when that has had its time. Returns whether there was one.
    #[cold]
    pub(in crate::reactor) fn close_what_is_sent(
        &mut self,
        handle: &ReactorHandle,
        by: Time,
    ) -> bool {
        let is_over = handle.common.clock.now() >= by;
        let mut any = false;
        for conversation in self.open() {
            let Conversation { core, phase, .. } = conversation;
            core.session.lanes.announce_every();
            // Nothing waits for the link but what it has no room for, or has not been opened for; and what was set aside until
            // there is room for its replies is still to be answered.
            let is_sent =
                || core.flush(true) && !core.is_blocked() && !conversation.has_set_aside();
            if is_over || *phase != Phase::Open || is_sent() {
                core.close(CloseReason::ShutDown);
                any = true;
            }
        }
        any
    }

    /// Drives an endpoint that has been shut down until its connections are closed and read to their end: who still
    /// takes what was sent is not to lose it to a reset.
    pub(crate) fn finish(&mut self, handle: &Arc<ReactorHandle>) {
        let clock = &handle.common.clock;
        let began = clock.now();
        loop {
            let active = handle.turn(self, Wait::Poll);
            // All have ended by then, unless whoever closed one has not said so. Peers have their time when the handler has
            // had what has arrived, however long that took.
            let by = self.closes_by.unwrap_or(began) + LEAVE_TIMEOUT + 2 * DRAIN;
            if self.conversations.iter().all(Option::is_none) || clock.now() >= by {
                return;
            }
            if active {
                continue;
            }
            // Nothing comes of waiting where time stands still.
            if clock.is_virtual() {
                return;
            }
            // Whoever interrupts wants to drive, or has left something, which is done by now.
            handle.interrupt.store(false, Ordering::SeqCst);
            self.housekeep_soon(clock.now());
            handle.turn(self, Wait::Own);
        }
    }

    /// Lets go of everything, when nobody will drive any more: also of connections that were begun while
    /// all others were closed.
    pub(crate) fn clear(&mut self, handle: &Arc<ReactorHandle>) {
        self.listeners.clear();
        for conversation in self.open() {
            conversation.core.close(CloseReason::ShutDown);
        }
        self.run_commands(handle);
        // Another thread may have closed one and not said so yet: then it says so to nobody. And none comes after
        // this: whoever clears has seen that the endpoint stops, which keeps all that is begun out.
        let unsaid = std::mem::take(&mut *handle.members.lock());
        for core in unsaid.values() {
            self.leave(handle, core);
        }
        self.wake(handle);
        for place in 0..self.conversations.len() {
            self.remove(place);
        }
        self.conversations.clear();
        self.closes_by = None;
        if let Some(port) = &self.port {
            port.give_back();
        }
    }
}
