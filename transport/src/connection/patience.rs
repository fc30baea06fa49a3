//! For how long one side of a streamed body waits for the other to go on.

use std::task::Context;
use std::time::Duration;

use crate::error::BodyError;
use crate::time::Time;

use super::Core;

/// Measures one wait at a time. What nobody could see of it does not count: see
/// [`unseen`](crate::reactor::ReactorHandle::unseen).
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// When the wait has begun, and how long the driver had not been looking by then.
    began: Option<(Time, Duration)>,
    timer: Option<(Time, u64)>,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, began: None, timer: None }
    }

    /// Waits no longer than `limit` from now on, and from the next wait on.
    pub(super) fn set(&mut self, limit: Duration, core: &Core) {
        self.end_wait(core);
        self.limit = limit;
    }

    /// Nothing has come of a poll. Has it polled again when there is no more patience, which is an error then.
    ///
    /// Only when the driver has come to the end of the wait too: until then, what the other side has done may lie
    /// where nobody has looked, if this process was stopped.
    pub(super) fn wait(&mut self, core: &Core, context: &Context<'_>) -> Result<(), BodyError> {
        let seen_until = self.take_seen(core);
        // Behind it, so that what the driver noted before is known.
        let unseen = core.reactor.unseen();
        let (began, before) = *self.began.get_or_insert_with(|| (core.clock.now(), unseen));
        let until = began + self.limit + unseen.saturating_sub(before);
        if seen_until.is_some_and(|seen| seen >= until) {
            self.began = None;
            return Err(BodyError::Silent { patience: self.limit });
        }
        if until != Time::MAX {
            self.timer = core.reactor.wake_at(until, context.waker().clone());
        }
        Ok(())
    }

    /// The other side has gone on.
    pub(super) fn end_wait(&mut self, core: &Core) {
        self.began = None;
        self.take_seen(core);
    }

    /// Forgets the timer. Returns what it was set to, if the driver has come to that.
    fn take_seen(&mut self, core: &Core) -> Option<Time> {
        let timer = self.timer.take()?;
        core.reactor.forget_timer(timer).then_some(timer.0)
    }
}
