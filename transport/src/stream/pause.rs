//! What a task does between two looks at a stream that has nothing for it: spin by being scheduled
//! again, then sleep.
//!
//! The thread belongs to the executor, and so does the decision how many threads spin at most: it
//! has as many as it was given. All that waits here is one task.

use std::future::Future as _;
use std::pin::pin;
use std::task::Context;

use crate::idle::{Idle, PollPolicy};
use crate::time::{Clock, Time};

/// After so many looks in a row the thread gives way to others that want its core.
const LOOKS_A_YIELD: u32 = 16;

/// How one direction of a stream waits.
#[derive(Debug)]
pub(super) struct Pause {
    poll: PollPolicy,
    clock: Clock,
    idle: Idle,
    wait: Option<Wait>,
    asleep: bool,
    sleeps: u64,
}

/// A wait that is under way.
#[derive(Debug, Clone, Copy)]
struct Wait {
    began: Time,
    looked: Time,
    looks: u32,
    /// Nothing once it is time to sleep.
    spin_until: Option<Time>,
}

impl Pause {
    pub(super) fn new(poll: PollPolicy) -> Self {
        let (clock, idle) = (Clock::system(), Idle::new(poll));
        Self { poll, clock, idle, wait: None, asleep: false, sleeps: 0 }
    }

    /// There was nothing. Whether the task is to look again soon; then it has been scheduled.
    pub(super) fn spins(&mut self, cx: &mut Context<'_>) -> bool {
        let now = self.clock.now();
        let wait = self.wait.get_or_insert_with(|| Wait {
            began: now,
            looked: now,
            looks: 0,
            spin_until: self.idle.spin_until(now),
        });
        if wait.spin_until.is_none_or(|until| now >= until) || self.idle.yielded(wait.looked, now) {
            wait.spin_until = None;
            return false;
        }
        wait.looked = now;
        wait.looks = wait.looks.wrapping_add(1);
        if wait.looks.is_multiple_of(LOOKS_A_YIELD) && !self.idle.core_is_taken(now) {
            std::thread::yield_now();
            if self.idle.gave_way(now, self.clock.now()) {
                wait.spin_until = None;
                return false;
            }
        }
        // Unlike a task that wakes itself, one that yields lets the executor look at its sockets
        // before it runs again, and no idle thread is woken to share the work.
        let yielding = pin!(tokio::task::yield_now());
        yielding.poll(cx).is_pending()
    }

    /// Whether spinning is for the sake of a short wait, and not at any price.
    pub(super) fn may_sleep(&self) -> bool {
        self.poll != PollPolicy::Busy
    }

    /// The task is about to be woken by the link alone.
    pub(super) fn sleeps(&mut self) {
        self.asleep = true;
        self.sleeps += 1;
    }

    /// Whether the link has been told to wake the task, and may still believe so.
    pub(super) fn was_asleep(&mut self) -> bool {
        std::mem::take(&mut self.asleep)
    }

    /// There was something, or there never will be.
    pub(super) fn end(&mut self) {
        if let Some(wait) = self.wait.take() {
            let waited = self.clock.now().since(wait.began);
            self.idle.end(wait.spin_until.is_some(), waited);
        }
    }

    pub(super) fn sleeps_counted(&self) -> u64 {
        self.sleeps
    }
}
