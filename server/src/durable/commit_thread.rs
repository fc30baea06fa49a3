//! The log's own thread: does on the disk what the log asks for, and tells what became durable.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex, MutexGuard};
use weft_transport::{Clock, Time};

use super::disk::{Disk, perform};
use super::log::{Event, Log, Poisoned, State};

/// A log with its disk and its thread. Dropped, it stops as in a crash; [`close`](Self::close) ends it in good order.
#[derive(Debug)]
pub struct CommitThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    log: Mutex<Locked>,
    /// Something was appended, or the thread is to stop.
    wake: Condvar,
    clock: Clock,
}

#[derive(Debug)]
struct Locked {
    log: Log,
    is_stopping: bool,
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
        let log = Mutex::new(Locked { log, is_stopping: false });
        let shared = Arc::new(Shared { log, wake: Condvar::new(), clock });
        let thread = thread::Builder::new().name("log".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(disk, tell)
        })?;
        Ok(CommitThread { shared, thread: Some(thread) })
    }

    /// Appends to the log, with the time that it is. One lock for all that a batch of requests has to append; nothing of the disk is done
    /// under it.
    pub fn with<T>(&self, append: impl FnOnce(&mut Log, Time) -> T) -> T {
        let now = self.shared.clock.now();
        let mut locked = self.shared.log.lock();
        let result = append(&mut locked.log, now);
        drop(locked);
        self.shared.wake.notify_one();
        result
    }

    /// Writes all that was appended and marks the log as complete; what is appended afterwards is refused.
    ///
    /// # Errors
    /// [`Poisoned`] if that fails, or something did before.
    pub fn close(mut self) -> Result<(), Poisoned> {
        self.with(|log, _| log.close());
        self.join();
        match self.shared.log.lock().log.state() {
            State::Poisoned(poisoned) => Err(poisoned.clone()),
            _ => Ok(()),
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
        self.shared.log.lock().is_stopping = true;
        self.shared.wake.notify_one();
        self.join();
    }
}

impl Shared {
    fn run(&self, mut disk: impl Disk, mut tell: impl FnMut(&[Event])) {
        let mut events = Vec::new();
        let mut locked = self.log.lock();
        loop {
            let effect = if locked.is_stopping { None } else { locked.log.poll(self.clock.now()) };
            let has_worked = effect.is_some();
            if let Some(effect) = effect {
                let outcome = MutexGuard::unlocked(&mut locked, || perform(&mut disk, &effect));
                locked.log.done(effect, outcome, self.clock.now());
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
            let has_ended = matches!(locked.log.state(), State::Closed | State::Poisoned(_));
            if locked.is_stopping || has_ended {
                return;
            }
            match locked.log.next_at() {
                Some(at) => {
                    let now = self.clock.now();
                    let _ = self.wake.wait_for(&mut locked, at.since(now));
                }
                None => self.wake.wait(&mut locked),
            }
        }
    }
}
