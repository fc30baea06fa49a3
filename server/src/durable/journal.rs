//! A log as those who append to it see it: behind a lock that is never held while the disk works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::{Condvar, Mutex};
use weft_transport::{Clock, Time};

use super::disk::{DiskError, Effect};
use super::file_header::Mode;
use super::log::{Event, Log, Poisoned, State};

/// A log that many append to. One does on the disk what it asks for: a [`CommitThread`](super::CommitThread), or whoever simulates, who
/// [polls](Self::poll) it, says what was [done](Self::done), and takes [events](Self::take_events).
#[derive(Debug)]
pub struct Journal {
    mode: Mode,
    pub(super) clock: Clock,
    pub(super) locked: Mutex<Locked>,
    /// Something was appended, or the thread is to stop.
    pub(super) wake: Condvar,
    has_room: AtomicBool,
    has_failed: AtomicBool,
    /// Somebody has something for which there was no room.
    is_awaited: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Locked {
    pub(super) log: Log,
    pub(super) is_stopping: bool,
    /// Of whoever simulates.
    driver: Option<Waker>,
}

impl Journal {
    /// A log that goes by `clock`.
    pub fn new(log: Log, clock: Clock) -> Journal {
        let mode = log.identity().mode;
        let (has_room, has_failed) = (AtomicBool::new(log.has_room()), AtomicBool::new(false));
        let locked = Mutex::new(Locked { log, is_stopping: false, driver: None });
        let (wake, is_awaited) = (Condvar::new(), AtomicBool::new(false));
        Journal { mode, clock, locked, wake, has_room, has_failed, is_awaited }
    }

    /// What is promised of its entries.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Appends to the log, with the time that it is. One lock for all that a batch of requests has to append; nothing of the disk is done
    /// under it.
    pub fn with<T>(&self, append: impl FnOnce(&mut Log, Time) -> T) -> T {
        let now = self.clock.now();
        let mut locked = self.locked.lock();
        let result = append(&mut locked.log, now);
        self.note(&locked.log);
        let driver = locked.driver.take();
        drop(locked);
        self.wake.notify_one();
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    /// Whether there was room for more when the log was last used. See [`Log::has_room`].
    pub fn has_room(&self) -> bool {
        self.has_room.load(Ordering::SeqCst)
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
        self.has_room.store(log.has_room(), Ordering::SeqCst);
        if let State::Poisoned(_) = log.state() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }
}
