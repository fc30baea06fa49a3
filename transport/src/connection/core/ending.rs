//! How a connection ends: left in two steps, or closed.

use std::sync::Arc;
use std::task::Waker;

use super::Core;
use crate::catching;
use crate::error::CloseReason;
use crate::handshake::encode_goodbye;
use crate::limits::LEAVE_TIMEOUT;
use crate::link::Transfer as _;
use crate::reactor::Command;
use crate::sync::atomic::Ordering;
use crate::time::Time;

/// That no calls and messages begin on a connection any more, on this side or on that of the peer who has
/// said so. What is under way ends first.
#[derive(Debug)]
pub(crate) struct Leave {
    pub(crate) reason: CloseReason,
    /// The peer leaves; this side ends the connection when nothing is under way.
    pub(crate) is_peer: bool,
    /// When it ends whatever is under way.
    pub(crate) by: Time,
}

impl Core {
    /// Leaves the connection, unless something is under way on it: nothing begins on it any more, and the
    /// peer, who is told, ends it when what it has under way has ended. Returns whether it is left.
    pub(crate) fn try_leave(self: &Arc<Self>, reason: CloseReason) -> bool {
        if self.leaving().is_some() {
            return false;
        }
        let credit = &self.session.send_credit;
        credit.shut();
        let frame = encode_goodbye(&reason);
        let by = self.clock.now() + LEAVE_TIMEOUT;
        let leaving = Box::new(Leave { reason, is_peer: false, by });
        if !self.is_idle() || self.leaving.set(leaving).is_err() {
            if self.leaving().is_none() {
                credit.reopen();
                // It may have been shut for good meanwhile.
                if self.refuses.load(Ordering::SeqCst) {
                    credit.shut();
                }
            }
            return false;
        }
        let mut wakers = Vec::new();
        credit.take_waiters(&mut wakers);
        self.session.departures.take_waiters(&mut wakers);
        wakers.into_iter().for_each(catching::wake);
        self.greet(frame);
        self.reactor.submit(Command::Left(Arc::clone(self)));
        true
    }

    /// Begins nothing more, but for replies: the endpoint is shut down. Who waits for room is told so, and what was posted
    /// and has none is given back. What is under way goes on until the connection is closed.
    pub(crate) fn refuse(self: &Arc<Self>) {
        self.refuses.store(true, Ordering::SeqCst);
        self.session.send_credit.shut();
        let mut wakers = Vec::new();
        self.session.calls.take_waiters(&mut wakers);
        self.session.send_credit.take_waiters(&mut wakers);
        self.session.departures.take_waiters(&mut wakers);
        wakers.into_iter().for_each(catching::wake);
    }

    /// The peer leaves: what this side has under way ends before the connection does.
    pub(crate) fn peer_leaves(self: &Arc<Self>, reason: CloseReason, wakers: &mut Vec<Waker>) {
        self.session.send_credit.shut();
        let leaving = Box::new(Leave { reason, is_peer: true, by: Time::MAX });
        if let Err(leaving) = self.leaving.set(leaving) {
            // Both leave, so neither has anything under way.
            return self.close(leaving.reason);
        }
        self.session.send_credit.take_waiters(wakers);
        self.session.departures.take_waiters(wakers);
        self.reactor.submit(Command::Left(Arc::clone(self)));
    }

    /// Ends the connection because a handler has panicked: what that was given is neither handled nor answered, its peer would wait for ever, and
    /// what came behind it may build upon it.
    pub(crate) fn forsake(self: &Arc<Self>) {
        tracing::error!(peer = ?self.peer_if_greeted(), "a handler has panicked: its connection ends");
        self.forsaken.store(true, Ordering::SeqCst);
        self.close(CloseReason::Closed);
    }

    /// Ends the connection: calls fail, waiters wake, and the peer is told why unless it is what
    /// told us.
    pub(crate) fn close(self: &Arc<Self>, reason: CloseReason) {
        let reason = match self.leaving() {
            Some(leaving) if reason == CloseReason::PeerGone => leaving.reason.clone(),
            _ => reason,
        };
        if self.closed.set(reason).is_err() {
            return;
        }
        let reason = self.closed.get().expect("it was set above");
        let tell = self.leaving().is_none()
            && !matches!(
                reason,
                CloseReason::PeerGone | CloseReason::Link { .. } | CloseReason::Goodbye(_)
            );
        let mut discarded = Vec::new();
        if let (true, Some(mut outbound)) = (tell, self.session.outbound.try_lock()) {
            // What is still to be told about large bodies, and their chunks, would come behind it.
            discarded = self.session.departures.discard();
            // A courtesy: if the link does not take it, the peer finds out by itself.
            self.session.lanes.greet(encode_goodbye(reason));
            let _ = outbound.transmit(&self.session, &self.link);
        }
        // Before anybody is told that a request has not left.
        self.session.lanes.end();
        self.link.finish();
        drop(discarded);
        self.session.sends.abandon();
        self.session.receives.close();
        let mut wakers = Vec::new();
        self.session.calls.close(reason, |sent| self.session.has_left(sent), &mut wakers);
        self.session.send_credit.take_waiters(&mut wakers);
        self.session.departures.take_waiters(&mut wakers);
        self.session.departures.take_writers(&mut wakers);
        self.reactor.common.endings.take_waiters(self.id, &mut wakers);
        wakers.into_iter().for_each(catching::wake);
        self.reactor.submit(Command::Closed(Arc::clone(self)));
    }
}
