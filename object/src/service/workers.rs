//! Threads for what may block: methods that call others, and ends of connections, at which objects are dropped.
//!
//! There are as many as are busy at the same time, up to a limit. A method that calls back to who called it may be called by that in turn, and so on; each such
//! step takes a thread for as long as it waits, so a fixed few would wait for one another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

use super::disposal::{contained, drop_each};

/// Something to be done.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads. Clones are the same.
#[derive(Clone)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads_max: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    stopping: bool,
}

impl Workers {
    /// None yet.
    pub(super) fn new(threads_max: usize) -> Self {
        Self { shared: Arc::default(), threads_max: threads_max.max(1) }
    }

    /// Has a thread do `job`. What waits for one is bounded by who leaves it: by the windows of connections.
    pub(super) fn run(&self, job: Job) {
        let mut state = self.shared.state.lock();
        state.jobs.push_back(job);
        let is_short = state.jobs.len() > state.idle && state.threads < self.threads_max;
        if is_short {
            let shared = Arc::clone(&self.shared);
            let name = format!("service-{}", state.threads);
            let begun = thread::Builder::new().name(name).spawn(move || shared.work());
            state.threads += usize::from(begun.is_ok());
        }
        // Without any thread nobody would ever do it: who waits for it is told by what it drops.
        let undone =
            if state.threads == 0 { std::mem::take(&mut state.jobs) } else { VecDeque::new() };
        drop(state);
        drop(undone);
        self.shared.wake.notify_one();
    }

    /// Has a thread drop these, each by itself.
    pub(super) fn dispose<T: Send + 'static>(&self, objects: Vec<T>) {
        if !objects.is_empty() {
            self.run(Box::new(|| drop_each(objects)));
        }
    }

    /// Threads end when what is to be done is done. Not waited for: one of them may be who says so.
    pub(super) fn stop(&self) {
        self.shared.state.lock().stopping = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        /// Also if something panics after all: what counts on this thread would wait for ever.
        struct Counted<'a>(&'a Shared);

        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.state.lock().threads -= 1;
            }
        }

        let _counted = Counted(self);
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                contained(job);
                state = self.state.lock();
                continue;
            }
            if state.stopping {
                return;
            }
            state.idle += 1;
            self.wake.wait(&mut state);
            state.idle -= 1;
        }
    }
}
