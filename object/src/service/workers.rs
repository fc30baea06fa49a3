//! Threads for what may block: methods that call others, and destructors of objects.
//!
//! There are as many as are busy at the same time, up to limits. A method that calls back to who called it may be called by that in turn, and so on; each such
//! step takes a thread for as long as it waits, so a fixed few would wait for one another. What one peer's calls can take of them is limited as well, and
//! what is no call has threads that calls do not take: an object is dropped though all methods wait.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::calls::{Call, Calls};
use super::disposal::{contained, drop_each};
use super::references::Holder;
use super::thread::receiving;

/// Of the threads for calls, one peer's take this part at most: what it does not let end, it keeps from itself alone.
const SHARE: usize = 4;

/// After dropping something, a thread looks so often, and each time so much later, whether there is more: whoever puts objects aside has to wake nobody
/// meanwhile, which would take longer than most calls.
const LOOKS: u32 = 32;
const LOOK_AFTER: Duration = Duration::from_millis(1);

/// Something to be done.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads. Clones are the same.
#[derive(Clone)]
pub(super) struct Workers {
    shared: Arc<Shared>,
}

/// How a thread is begun, the so-many-th, that does this.
type Begin = fn(usize, Job) -> io::Result<()>;

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    begin: Begin,
}

struct State {
    /// Polls of replies that wait for window. They never wait themselves.
    replies: Lane,
    /// What drops objects.
    drops: Lane,
    calls: Calls,
    calls_busy: usize,
    calls_max: usize,
    threads: usize,
    /// Threads that look by themselves whether there is something to be done.
    looking: usize,
    /// Something was added that nobody was woken for.
    is_unannounced: bool,
    is_stopping: bool,
}

/// Jobs of one kind, in order.
struct Lane {
    jobs: VecDeque<Job>,
    busy: usize,
    busy_max: usize,
}

/// What a thread does next.
enum Work {
    Reply(Job),
    Drop(Job),
    Call(Call),
}

/// What a thread has done.
enum Done {
    Reply,
    Drop,
    /// With the slot, unless a reply that waits has it.
    Call(Option<Slot>),
}

impl Workers {
    /// None yet. There may be `threads_max` for calls.
    pub(super) fn new(threads_max: usize) -> Self {
        Self::begun_by(threads_max, |number, job| {
            thread::Builder::new().name(format!("service-{number}")).spawn(job).map(drop)
        })
    }

    fn begun_by(threads_max: usize, begin: Begin) -> Self {
        let calls_max = threads_max.max(1);
        let share = (calls_max / SHARE).max(1);
        let state = State {
            replies: Lane::new(1),
            drops: Lane::new(share),
            calls: Calls::new(share),
            calls_busy: 0,
            calls_max,
            threads: 0,
            looking: 0,
            is_unannounced: false,
            is_stopping: false,
        };
        let shared = Shared { state: Mutex::new(state), wake: Condvar::new(), begin };
        Self { shared: Arc::new(shared) }
    }

    /// Has a thread handle a call, when it is its peer's turn. Returns whether it is the first that has come by its connection: somebody has to tell of
    /// the [end](Self::end) of that.
    pub(super) fn call(&self, call: Call) -> bool {
        self.add(|state| state.calls.add(call))
    }

    /// A connection has ended: what has come by it and has not begun never does.
    pub(super) fn end(&self, connection: (Holder, u64)) {
        let ended = self.add(|state| state.calls.end(connection));
        self.dispose(ended);
    }

    /// Has a thread drop these, each by itself.
    pub(super) fn dispose<T: Send + 'static>(&self, objects: Vec<T>) {
        if !objects.is_empty() {
            self.run(Box::new(|| drop_each(objects)));
        }
    }

    /// The same, within a millisecond if a thread looks for such anyway.
    pub(super) fn dispose_soon<T: Send + 'static>(&self, objects: Vec<T>) {
        let mut state = self.shared.state.lock();
        if state.looking == 0 {
            drop(state);
            return self.dispose(objects);
        }
        state.drops.jobs.push_back(Box::new(|| drop_each(objects)));
        state.is_unannounced = true;
    }

    /// Has a thread do `job`, which may take long and is no call.
    pub(super) fn run(&self, job: Job) {
        self.add(|state| state.drops.jobs.push_back(job));
    }

    /// Has a thread do `job`, which never waits.
    pub(super) fn reply(&self, job: Job) {
        self.add(|state| state.replies.jobs.push_back(job));
    }

    /// Threads end when what is to be done is done. Not waited for: one of them may be who says so.
    pub(super) fn stop(&self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.wake.notify_all();
    }

    /// Adds something to be done, and sees to it that somebody does it.
    fn add<T>(&self, add: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.state.lock();
        let added = add(&mut state);
        self.provide(&mut state);
        if state.threads == 0 && state.runnable() > 0 {
            self.do_here(state);
        } else {
            let is_all = mem::take(&mut state.is_unannounced);
            drop(state);
            self.wake(is_all);
        }
        added
    }

    /// Begins a thread, if there are not enough for what could be done now.
    fn provide(&self, state: &mut State) {
        if state.runnable() > state.threads.saturating_sub(state.busy()) {
            let workers = self.clone();
            let begun = (self.shared.begin)(state.threads, Box::new(move || workers.work()));
            state.threads += usize::from(begun.is_ok());
        }
    }

    fn wake(&self, is_all: bool) {
        if is_all {
            self.shared.wake.notify_all();
        } else {
            self.shared.wake.notify_one();
        }
    }

    /// There is no thread, and none can be begun. Objects are dropped here, and who waits for a call is told by what is dropped with that.
    #[cold]
    fn do_here(&self, mut state: MutexGuard<'_, State>) {
        let State { replies, drops, calls, .. } = &mut *state;
        let jobs: Vec<_> = replies.jobs.drain(..).chain(drops.jobs.drain(..)).collect();
        let calls = calls.take_all();
        drop(state);
        receiving(self, || {
            jobs.into_iter().for_each(contained);
            drop_each(calls);
        });
    }

    fn work(&self) {
        /// Also if something panics after all: what counts on this thread would wait for ever.
        struct Counted<'a>(&'a Shared);

        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.state.lock().threads -= 1;
            }
        }

        let _counted = Counted(&self.shared);
        let mut state = self.shared.state.lock();
        let mut looks = 0;
        loop {
            if let Some(work) = state.next() {
                // This may take long, and others know nothing of what else was added.
                let is_all = mem::take(&mut state.is_unannounced);
                if is_all {
                    self.provide(&mut state);
                }
                drop(state);
                if is_all {
                    self.wake(true);
                }
                let done = self.work_off(work);
                if matches!(done, Done::Drop) {
                    looks = LOOKS;
                }
                state = self.shared.state.lock();
                state.done(done);
            } else if state.is_stopping {
                return;
            } else if looks > 0 {
                looks -= 1;
                state.looking += 1;
                self.shared.wake.wait_for(&mut state, LOOK_AFTER);
                state.looking -= 1;
            } else {
                self.shared.wake.wait(&mut state);
            }
        }
    }

    fn work_off(&self, work: Work) -> Done {
        match work {
            Work::Reply(job) => {
                contained(job);
                Done::Reply
            }
            Work::Drop(job) => {
                contained(job);
                Done::Drop
            }
            Work::Call(Call { caller: (holder, _), job }) => {
                let mut slot = Some(Slot { workers: self.clone(), holder: Some(holder) });
                contained(|| job(&mut slot));
                Done::Call(slot)
            }
        }
    }
}

impl State {
    fn next(&mut self) -> Option<Work> {
        if let Some(job) = self.replies.next() {
            return Some(Work::Reply(job));
        }
        if let Some(job) = self.drops.next() {
            return Some(Work::Drop(job));
        }
        let call = if self.calls_busy < self.calls_max { self.calls.next() } else { None }?;
        self.calls_busy += 1;
        Some(Work::Call(call))
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Reply => self.replies.busy -= 1,
            Done::Drop => self.drops.busy -= 1,
            Done::Call(slot) => {
                self.calls_busy -= 1;
                if let Some(holder) = slot.and_then(|mut slot| slot.holder.take()) {
                    self.calls.give_back(holder);
                }
            }
        }
    }

    fn busy(&self) -> usize {
        self.replies.busy + self.drops.busy + self.calls_busy
    }

    /// What threads could begin with now, as many as they like.
    fn runnable(&self) -> usize {
        let calls = self.calls.ready().min(self.calls_max - self.calls_busy);
        self.replies.runnable() + self.drops.runnable() + calls
    }
}

impl Lane {
    fn new(busy_max: usize) -> Self {
        Self { jobs: VecDeque::new(), busy: 0, busy_max }
    }

    fn next(&mut self) -> Option<Job> {
        let job = if self.busy < self.busy_max { self.jobs.pop_front() } else { None }?;
        self.busy += 1;
        Some(job)
    }

    fn runnable(&self) -> usize {
        self.jobs.len().min(self.busy_max - self.busy)
    }
}

/// One of its peer's slots, for as long as a call takes and its reply is not taken.
pub(super) struct Slot {
    workers: Workers,
    /// Nothing once it has been given back.
    holder: Option<Holder>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(holder) = self.holder.take() {
            self.workers.add(|state| state.calls.give_back(holder));
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("holder", &self.holder).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
