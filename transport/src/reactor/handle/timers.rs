//! When the driver of a reactor has to look again: deadlines of calls, and timers of those who sleep. And for how long
//! it has not looked when it should have.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use crate::catching;
use crate::sync::atomic::{Ordering, fence};
use crate::time::Time;

use super::ReactorHandle;

#[derive(Debug, Default)]
pub(super) struct Timers {
    wakers: BTreeMap<(Time, u64), Waker>,
    next: u64,
    /// Nobody looks at them any more.
    ended: bool,
}

impl ReactorHandle {
    /// The earliest deadline that anybody waits for.
    pub(crate) fn next_deadline(&self) -> Time {
        Time::from_nanos(self.next_deadline.load(Ordering::SeqCst))
    }

    /// Sees to it that the driver looks at deadlines when `deadline` has come. What it is to find then is there already: it
    /// may look at once, and forgets the deadline.
    #[inline]
    pub(crate) fn note_deadline(&self, deadline: Time) {
        if deadline.nanos() >= self.next_deadline.load(Ordering::SeqCst) {
            return;
        }
        self.next_deadline.fetch_min(deadline.nanos(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.sleeps_until.load(Ordering::SeqCst) > deadline.nanos() {
            self.kick.kick();
        }
    }

    /// Has `waker` woken at `time`. Returns what [`forget_timer`](Self::forget_timer) takes; nothing once timers
    /// [have ended](Self::end_timers).
    pub(crate) fn wake_at(&self, time: Time, waker: Waker) -> Option<(Time, u64)> {
        let key = {
            let mut timers = self.timers.lock();
            if timers.ended {
                return None;
            }
            timers.next += 1;
            let key = (time, timers.next);
            timers.wakers.insert(key, waker);
            key
        };
        self.note_deadline(time);
        // Whoever stands aside for it looks for itself.
        self.find_driver();
        Some(key)
    }

    /// The endpoint is shut down, and nobody looks at timers any more: wakes all who wait for one.
    pub(crate) fn end_timers(&self) {
        let wakers = {
            let mut timers = self.timers.lock();
            timers.ended = true;
            std::mem::take(&mut timers.wakers)
        };
        wakers.into_values().for_each(catching::wake);
    }

    /// The waker of a timer that has not fired is dropped. Returns whether the driver has come to it; not once timers
    /// [have ended](Self::end_timers), since all are gone then.
    pub(crate) fn forget_timer(&self, key: (Time, u64)) -> bool {
        let mut timers = self.timers.lock();
        timers.wakers.remove(&key).is_none() && !timers.ended
    }

    /// For how long, in all, the driver has not looked after connections when it should have, such as while its process was
    /// stopped: what peers did meanwhile, nobody could see, nor answer. Counted while there is something to look after.
    pub(crate) fn unseen(&self) -> Duration {
        Duration::from_nanos(self.unseen.load(Ordering::SeqCst))
    }

    /// The driver looks after connections so much later than it should have. Before it fires timers: whoever hears of one
    /// knows of this.
    pub(in crate::reactor) fn note_unseen(&self, late: Duration) {
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.unseen.fetch_add(late, Ordering::SeqCst);
    }

    /// Takes the deadlines that have come, and forgets the next one: the caller finds it anew.
    pub(in crate::reactor) fn take_due(&self, now: Time, wakers: &mut Vec<Waker>) -> bool {
        if now < self.next_deadline() {
            return false;
        }
        self.next_deadline.store(u64::MAX, Ordering::SeqCst);
        let mut timers = self.timers.lock();
        while let Some(entry) = timers.wakers.first_entry() {
            let (time, _) = *entry.key();
            if time > now {
                drop(timers);
                self.note_deadline(time);
                return true;
            }
            wakers.push(entry.remove());
        }
        true
    }
}
