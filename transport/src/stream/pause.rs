//! What a task does between two looks at a stream that has nothing for it: spin by being scheduled
//! again, then sleep.
//!
//! The thread belongs to the executor, and so does the decision how many threads spin at most: it
//! has as many as it was given. All that waits here is one task.

use std::future::Future as _;
use std::pin::pin;
use std::task::Context;
use std::time::Duration;

use crate::idle::{Idle, PollPolicy};
use crate::time::{Clock, Time};

/// After so many looks in a row the thread gives way to others that want its core.
const LOOKS_A_YIELD: u32 = 16;

/// So long an adaptive reader of a flow lets more of it gather before it looks again. Half as much and twice as much carry
/// as many messages, or fewer where the processors are far apart.
const GATHERS_FOR: Duration = Duration::from_micros(20);

/// How one direction of a stream waits.
#[derive(Debug)]
pub(super) struct Pause {
    poll: PollPolicy,
    clock: Clock,
    idle: Idle,
    wait: Option<Wait>,
    /// There is no look before this.
    look_at: Option<Time>,
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
        Self { poll, clock, idle, wait: None, look_at: None, asleep: false, sleeps: 0 }
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

    /// More is on its way, and the next look is worth more when some of it has gathered: unless whoever spins
    /// wants each byte at once.
    pub(super) fn gather(&mut self) {
        if self.poll == PollPolicy::Adaptive {
            self.look_at = Some(self.clock.now() + GATHERS_FOR);
        }
    }

    /// Whether it is too early for the next look; then the task has been scheduled. One that would sleep
    /// instead looks before.
    pub(super) fn gathers(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(look_at) = self.look_at else { return false };
        let gathers = self.clock.now() < look_at && self.spins(cx);
        if !gathers {
            self.look_at = None;
        }
        gathers
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Whether the reader of a flow looks again right after a look, and 20 us later.
    fn looks(poll: PollPolicy) -> [bool; 2] {
        let (clock, manual) = Clock::manual();
        let mut pause = Pause { clock, ..Pause::new(poll) };
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(!pause.gathers(cx), "{poll:?} has seen no flow");
        pause.gather();
        let at_once = !pause.gathers(cx);
        manual.advance_to(manual.now() + GATHERS_FOR);
        [at_once, !pause.gathers(cx)]
    }

    #[test]
    fn an_adaptive_reader_lets_more_of_a_flow_gather() {
        assert_eq!(looks(PollPolicy::Adaptive), [false, true]);
        assert_eq!(looks(PollPolicy::Busy), [true, true]);
        assert_eq!(looks(PollPolicy::Park), [true, true]);
    }

    /// It would have nothing scheduled that looks.
    #[test]
    fn a_reader_that_would_sleep_looks_before() {
        let (clock, manual) = Clock::manual();
        let mut pause = Pause { clock, ..Pause::new(PollPolicy::Adaptive) };
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(pause.spins(cx));
        // Something else has had the core.
        manual.advance_to(manual.now() + Duration::from_millis(3));
        pause.gather();
        assert!(!pause.gathers(cx));
    }
}
