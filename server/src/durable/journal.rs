//! A log as those who append to it see it: behind a lock that is never held while the disk works.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::{Condvar, Mutex, MutexGuard};
use weft_protocol::{PartitionId, Version};
use weft_transport::{Clock, Time};

use super::disk::{DiskError, Effect};
use super::file_header::Mode;
use super::log::{AppendError, Event, Log, Poisoned, State};

/// A log that many append to. One does on the disk what it asks for: a [`CommitThread`](super::CommitThread), or whoever simulates, who
/// [polls](Self::poll) it, says what was [done](Self::done), and takes [events](Self::take_events).
#[derive(Debug)]
pub struct Journal {
    mode: Mode,
    pub(super) clock: Clock,
    pub(super) locked: Mutex<Locked>,
    /// Something was appended, or the thread is to stop.
    pub(super) wake: Condvar,
    /// The thread has ended.
    pub(super) ended: Condvar,
    has_room: AtomicBool,
    room_bytes: AtomicU64,
    has_failed: AtomicBool,
    /// Somebody has something for which there was no room.
    is_awaited: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Locked {
    pub(super) log: Log,
    pub(super) is_stopping: bool,
    /// The thread sleeps, and until when if nobody wakes it.
    pub(super) asleep: Option<Option<Time>>,
    /// Of whoever simulates.
    driver: Option<Waker>,
}

impl Locked {
    /// Whether the thread is to be woken for what was appended. Not for every entry of a log that is written behind: what it has time for waits
    /// for more, or a wake-up would be paid for each.
    fn wakes(&mut self, now: Time) -> bool {
        let Some(until) = self.asleep else { return false };
        let is_earlier = match (self.log.next_at(), until) {
            (Some(next_at), Some(until)) => next_at < until,
            (next_at, None) => next_at.is_some(),
            (None, Some(_)) => false,
        };
        let wakes = is_earlier || self.log.is_pressing(now);
        if wakes {
            self.asleep = None;
        }
        wakes
    }
}

impl Journal {
    /// A log that goes by `clock`.
    pub fn new(log: Log, clock: Clock) -> Journal {
        let mode = log.identity().mode;
        let (has_room, has_failed) = (AtomicBool::new(log.has_room()), AtomicBool::new(false));
        let room_bytes = AtomicU64::new(log.room_bytes());
        let locked = Mutex::new(Locked { log, is_stopping: false, asleep: None, driver: None });
        let (wake, ended, is_awaited) = (Condvar::new(), Condvar::new(), AtomicBool::new(false));
        Journal { mode, clock, locked, wake, ended, has_room, room_bytes, has_failed, is_awaited }
    }

    /// The time that it goes by.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// What is promised of its entries.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Appends to the log, with the time that it is. One lock for all that a batch of requests has to append; nothing of the disk is done
    /// under it.
    pub fn with<T>(&self, append: impl FnOnce(&mut Log, Time) -> T) -> T {
        self.with_at(self.clock.now(), append)
    }

    /// The same by who has looked at the clock a moment ago: for what comes many times in a batch.
    pub fn with_at<T>(&self, now: Time, append: impl FnOnce(&mut Log, Time) -> T) -> T {
        let mut locked = self.locked.lock();
        let result = append(&mut locked.log, now);
        self.let_go(locked, now);
        result
    }

    /// Appends an entry that was answered when it was made, and whose bytes are `entry` one after the other. See [`Log::append_made`].
    ///
    /// # Errors
    /// [`AppendError`].
    pub(crate) fn append_made(
        &self,
        partition: PartitionId,
        version: Version,
        entry: &[&[u8]],
        promised_bytes: &mut u64,
    ) -> Result<(), AppendError> {
        let mut locked = self.locked.lock();
        // Behind others that wait, the time plays no part.
        let now = locked.log.waiting_since().unwrap_or_else(|| self.clock.now());
        let appended = locked.log.append_made(partition, version, entry, promised_bytes, now);
        self.let_go(locked, now);
        appended
    }

    /// Wakes who is to see to what was appended.
    fn let_go(&self, mut locked: MutexGuard<'_, Locked>, now: Time) {
        self.note(&locked.log);
        let is_to_wake = locked.wakes(now);
        let driver = locked.driver.take();
        drop(locked);
        if is_to_wake {
            self.wake.notify_one();
        }
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Whether there was room for more when the log was last used. See [`Log::has_room`].
    pub fn has_room(&self) -> bool {
        self.has_room.load(Ordering::SeqCst)
    }

    /// How much room the file has that is written to, as of when the log was last used, behind what waits for it.
    #[inline]
    pub(crate) fn room_bytes(&self) -> u64 {
        self.room_bytes.load(Ordering::Relaxed)
    }

    /// Whether the disk has no room for more.
    pub(crate) fn is_full(&self) -> bool {
        *self.locked.lock().log.state() == State::Full
    }

    /// Whether the log has failed, for good.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Whether it takes nothing yet.
    pub fn is_opening(&self) -> bool {
        *self.locked.lock().log.state() == State::Opening
    }

    /// What it failed of, if it did.
    pub fn failure(&self) -> Option<Poisoned> {
        match self.locked.lock().log.state() {
            State::Poisoned(poisoned) => Some(poisoned.clone()),
            _ => None,
        }
    }

    /// Somebody waits for room: he is to look once more whether there is, and looks again when something was written.
    pub(crate) fn await_room(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    /// Whether somebody has waited for room since this was last asked.
    pub(crate) fn take_awaited(&self) -> bool {
        self.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// The next thing to be done on the disk, if any. `driver` is woken when there may be something that was not there now.
    pub fn poll(&self, driver: &Waker) -> Option<Effect> {
        let mut locked = self.locked.lock();
        let effect = locked.log.poll(self.clock.now());
        if effect.is_none() {
            locked.driver = Some(driver.clone());
        }
        effect
    }

    /// Takes the outcome of an effect.
    pub fn done(&self, effect: Effect, outcome: Result<(), DiskError>) {
        let now = self.clock.now();
        let mut locked = self.locked.lock();
        locked.log.done(effect, outcome, now);
        self.note(&locked.log);
    }

    /// When [`poll`](Self::poll) may have something though nobody appends.
    pub fn next_at(&self) -> Option<Time> {
        self.locked.lock().log.next_at()
    }

    /// What became so, oldest first: the node is to be [told](crate::handler::NodeHandler::log_told).
    pub fn take_events(&self) -> Vec<Event> {
        let mut locked = self.locked.lock();
        std::iter::from_fn(|| locked.log.next_event()).collect()
    }

    pub(super) fn note(&self, log: &Log) {
        // Written under the lock only, and for many entries once: what all look at stays where it is.
        let has_room = log.has_room();
        if self.has_room.load(Ordering::Relaxed) != has_room {
            self.has_room.store(has_room, Ordering::SeqCst);
        }
        self.room_bytes.store(log.room_bytes(), Ordering::Relaxed);
        if let State::Poisoned(_) = log.state() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }
}
