//! The log's own thread: does on the disk what the log asks for, and tells what became durable.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::MutexGuard;
use weft_transport::{Clock, Time};

use super::disk::{Disk, perform};
use super::file_header::Mode;
use super::journal::Journal;
use super::log::{Event, Log, Poisoned};

/// A log with its disk and its thread. Dropped, it stops as in a crash; [`close`](Self::close) ends it in good order.
#[derive(Debug)]
pub struct CommitThread {
    journal: Arc<Journal>,
    thread: Option<JoinHandle<()>>,
}

/// Why a log was not closed in good order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// It failed, then or before.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
    /// The disk took nothing for too long: it is full, in all likelihood.
    #[error("the disk takes nothing; what was not written yet is lost on this node")]
    Late,
}

impl CommitThread {
    /// Starts the thread. It calls `tell` with what became so, in order and without the lock that [`with`](Self::with) takes.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(
        log: Log,
        disk: impl Disk + Send + 'static,
        clock: Clock,
        tell: impl FnMut(&[Event]) + Send + 'static,
    ) -> io::Result<CommitThread> {
        CommitThread::drive(Arc::new(Journal::new(log, clock)), disk, tell)
    }

    /// The same for a log that others append to.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn drive(
        journal: Arc<Journal>,
        disk: impl Disk + Send + 'static,
        tell: impl FnMut(&[Event]) + Send + 'static,
    ) -> io::Result<CommitThread> {
        let thread = thread::Builder::new().name("log".to_owned()).spawn({
            let journal = Arc::clone(&journal);
            move || run(&journal, disk, tell)
        })?;
        Ok(CommitThread { journal, thread: Some(thread) })
    }

    /// See [`Journal::with`].
    pub fn with<T>(&self, append: impl FnOnce(&mut Log, Time) -> T) -> T {
        self.journal.with(append)
    }

    /// Whether the disk has no room for more.
    pub(crate) fn is_full(&self) -> bool {
        self.journal.is_full()
    }

    /// Writes all that was appended and marks the log as complete; what is appended afterwards is refused. A disk that takes nothing is given up after
    /// `patience`.
    ///
    /// # Errors
    /// [`CloseError`]: the log is not complete.
    pub fn close(mut self, patience: Duration) -> Result<(), CloseError> {
        self.with(|log, _| log.close());
        let until = self.journal.now() + patience;
        let mut locked = self.journal.locked.lock();
        while !locked.log.state().is_final() {
            let left = until.since(self.journal.clock.now());
            if left.is_zero() || self.journal.ended.wait_for(&mut locked, left).timed_out() {
                break;
            }
        }
        let is_late = !locked.log.state().is_final();
        locked.is_stopping = true;
        drop(locked);
        self.journal.wake.notify_one();
        self.join();
        match self.journal.failure() {
            Some(poisoned) => Err(CloseError::Poisoned(poisoned)),
            None if is_late => Err(CloseError::Late),
            None => Ok(()),
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the log's thread ends without a panic");
        }
    }
}

impl Drop for CommitThread {
    fn drop(&mut self) {
        self.journal.locked.lock().is_stopping = true;
        self.journal.wake.notify_one();
        self.join();
    }
}

fn run(journal: &Journal, mut disk: impl Disk, mut tell: impl FnMut(&[Event])) {
    let mut events = Vec::new();
    let mut locked = journal.locked.lock();
    loop {
        let effect = if locked.is_stopping { None } else { locked.log.poll(journal.clock.now()) };
        let has_worked = effect.is_some();
        if let Some(mut effect) = effect {
            let outcome = MutexGuard::unlocked(&mut locked, || {
                let outcome = perform(&mut disk, &mut effect);
                // Nobody waits for what is written behind; those who serve may wait for this core, and several writes in a row would keep it for
                // milliseconds.
                if journal.mode() == Mode::Disk {
                    thread::yield_now();
                }
                outcome
            });
            locked.log.done(effect, outcome, journal.clock.now());
            journal.note(&locked.log);
        }
        while let Some(event) = locked.log.next_event() {
            events.push(event);
        }
        let has_told = !events.is_empty();
        if has_told {
            MutexGuard::unlocked(&mut locked, || tell(&events));
            events.clear();
        }
        if has_worked || has_told {
            continue;
        }
        let has_ended = locked.log.state().is_final();
        if locked.is_stopping || has_ended {
            journal.ended.notify_all();
            return;
        }
        let next_at = locked.log.next_at();
        locked.asleep = Some(next_at);
        match next_at {
            Some(at) => {
                let now = journal.clock.now();
                let _ = journal.wake.wait_for(&mut locked, at.since(now));
            }
            None => journal.wake.wait(&mut locked),
        }
        locked.asleep = None;
    }
}
