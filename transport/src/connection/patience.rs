//! For how long one side of a streamed body waits for the other to go on.

use std::task::Context;
use std::time::Duration;

use crate::error::BodyError;
use crate::time::Time;

use super::Core;

/// Measures one wait at a time.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// When the wait that has begun is over.
    until: Option<Time>,
    timer: Option<(Time, u64)>,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, until: None, timer: None }
    }

    /// Waits no longer than `limit` from now on, and from the next wait on.
    pub(super) fn set(&mut self, limit: Duration, core: &Core) {
        self.end_wait(core);
        self.limit = limit;
    }

    /// Nothing has come of a poll. Has it polled again when there is no more patience, which is an error then.
    pub(super) fn wait(&mut self, core: &Core, context: &Context<'_>) -> Result<(), BodyError> {
        let now = core.clock.now();
        let until = *self.until.get_or_insert(now + self.limit);
        self.forget_timer(core);
        if now >= until {
            self.until = None;
            return Err(BodyError::Silent { patience: self.limit });
        }
        if until != Time::MAX {
            self.timer = core.reactor.wake_at(until, context.waker().clone());
        }
        Ok(())
    }

    /// The other side has gone on.
    pub(super) fn end_wait(&mut self, core: &Core) {
        self.until = None;
        self.forget_timer(core);
    }

    fn forget_timer(&mut self, core: &Core) {
        if let Some(timer) = self.timer.take() {
            core.reactor.forget_timer(timer);
        }
    }
}
