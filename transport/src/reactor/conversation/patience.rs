//! How long a conversation may take: what is under way on it, since when, and when it is over for that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::CloseReason;
use crate::reactor::Common;
use crate::reactor::overdue::{Stalled, Unfinished};
use crate::time::Time;

use super::{Conversation, Phase};

/// How often within the time after which a peer is taken to have stalled it is told that a large message
/// still waits for a receive to be posted: a peer that is as patient as this side hears of it in time.
const REMINDERS: u32 = 6;

impl Conversation {
    /// Notes what stays after a turn: a frame that has not ended, and whether the connection could
    /// be closed to make room.
    pub(in crate::reactor) fn settle(&mut self, now: Time) {
        let inbound = &self.inbound;
        self.unfinished = Unfinished::follow(self.unfinished, inbound.unfinished(), now);
        self.landing = Unfinished::follow(self.landing, inbound.landing_progress(), now);
        self.landing_first = Unfinished::follow(self.landing_first, inbound.oldest_landing(), now);
        self.streamed = Unfinished::follow(self.streamed, inbound.streamed(), now);
        let receives = &self.core.session.receives;
        let unasked = (receives.waiting() > 0).then_some(0);
        self.unasked = Unfinished::follow(self.unasked, unasked, now);
        let busy = self.phase != Phase::Open
            || !self.deferred.is_empty()
            || self.unfinished.is_some()
            || inbound.is_landing();
        if self.core.busy.load(Ordering::Relaxed) != busy {
            self.core.busy.store(busy, Ordering::SeqCst);
        }
        self.leave_if_done(now);
    }

    /// Ends a connection that is not to be used any more, when nothing is under way on it.
    fn leave_if_done(&self, now: Time) {
        match self.core.leaving() {
            // Who streams a body sees to it how long that takes.
            Some(leaving)
                if now >= leaving.by && !self.streams()
                    || leaving.is_peer && self.core.is_settled() =>
            {
                self.core.close(leaving.reason.clone());
            }
            None if self.core.retired.load(Ordering::SeqCst) && self.phase == Phase::Open => {
                self.core.try_leave(CloseReason::Duplicate);
            }
            _ => {}
        }
    }

    /// Whether a streamed body is under way, which the peer may have begun when this side left.
    fn streams(&self) -> bool {
        self.inbound.streams() || self.core.session.departures.has_bodies()
    }

    /// Since when it has kept memory that others wait for: an unfinished frame or large body, a streamed one that
    /// does not go on, requests that were set aside, messages that nobody receives, replies that are not read. Only of connections that others have begun.
    pub(in crate::reactor) fn keeps_memory_since(&self) -> Option<Time> {
        if self.core.initiated || self.core.closed().is_some() {
            return None;
        }
        let stalled = [self.stalled, self.ungranted].into_iter().flatten();
        let unfinished = [self.unfinished, self.landing_first, self.streamed, self.unasked];
        let unfinished = unfinished.into_iter().flatten();
        stalled
            .map(|stalled| stalled.began)
            .chain(unfinished.map(|unfinished| unfinished.since))
            .min()
    }

    /// Whether it has to be looked at again before long though nothing comes in.
    pub(in crate::reactor) fn needs_housekeeping(&self) -> bool {
        self.phase != Phase::Open
            || self.core.is_blocked()
            || !self.deferred.is_empty()
            || self.unfinished.is_some()
            || self.unasked.is_some()
            || self.inbound.is_landing()
            || !self.core.session.departures.is_idle()
            || self.core.retired.load(Ordering::SeqCst)
            || self.core.leaving().is_some()
    }

    /// For so long, nobody could see what the peer did: its time begins later by as much.
    pub(in crate::reactor) fn forgive(&mut self, time: Duration) {
        for stalled in [&mut self.stalled, &mut self.ungranted].into_iter().flatten() {
            stalled.began = stalled.began + time;
            stalled.since = stalled.since + time;
        }
        let Self { unfinished, landing, landing_first, streamed, unasked, .. } = self;
        let begun = [unfinished, landing, landing_first, streamed, unasked];
        for begun in begun.into_iter().flatten() {
            begun.since = begun.since + time;
        }
        if let Phase::Connecting { by, .. } | Phase::Greeting { by } = &mut self.phase {
            *by = *by + time;
        }
        if let Phase::Connecting { link_by: Some(link_by), .. } = &mut self.phase {
            *link_by = *link_by + time;
        }
    }

    /// Closes what has run out of time. Returns whether the conversation is over and done.
    pub(in crate::reactor) fn housekeep(&mut self, common: &Common, now: Time) -> bool {
        match self.phase {
            Phase::Connecting { by, .. } | Phase::Greeting { by } if now >= by => {
                self.core.close(CloseReason::HandshakeTimeout);
            }
            Phase::Draining { until } => return now >= until,
            _ => {}
        }
        if self.core.is_blocked() || !self.deferred.is_empty() {
            let taken = self.core.traffic().bytes;
            self.stalled = Some(Stalled::follow(self.stalled, taken, now));
        } else {
            self.stalled = None;
        }
        let waits = self.core.session.departures.waits_since();
        self.ungranted = waits.map(|taken| Stalled::follow(self.ungranted, taken, now));
        let stalled = [self.stalled, self.ungranted].into_iter().flatten();
        if stalled.into_iter().any(|stalled| now.since(stalled.since) >= common.stall_timeout) {
            self.core.close(CloseReason::Stalled);
        }
        let mut unfinished = [self.unfinished, self.landing].into_iter().flatten();
        if unfinished.any(|unfinished| now.since(unfinished.since) >= common.stall_timeout) {
            self.core.close(CloseReason::Unfinished);
        }
        if now.since(self.reminded_at) >= common.stall_timeout / REMINDERS
            && self.inbound.remind(&self.core.session)
        {
            self.reminded_at = now;
            self.core.schedule();
        }
        false
    }
}
