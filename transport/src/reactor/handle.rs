//! What everybody else sees of a reactor: how to leave it work, and how to wake it.

mod timers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;

use crate::connection::Core;
use crate::driver::{self, Parker};
use crate::error::ConnectError;
use crate::link::{Link, Listener};
use crate::manager::Attempt;
use crate::poller::Kick;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::thread::{self, Thread};
use crate::sync::{Mutex, MutexGuard};
use crate::time::Time;

use super::{Common, Reactor, Wait};
use timers::Timers;

/// What only the driver of a reactor can do, asked for by others.
#[derive(Debug)]
pub(crate) enum Command {
    /// Accept what comes in here.
    Listen(Listener),
    /// Drive a connection that another reactor has accepted.
    Adopt(Link, SocketAddr),
    /// Connect, for those who wait for the attempt.
    Connect(SocketAddr, Arc<Attempt>),
    /// Begin or cease to wait for room on a link, by whether it is known to be full when this is done: those who have
    /// found either may leave word of it the other way round.
    WatchWritable(Arc<Core>),
    /// The connection has been left: nothing begins on it any more.
    Left(Arc<Core>),
    /// The connection has been closed.
    Closed(Arc<Core>),
    /// Look after connections before long.
    Housekeep,
    /// Go on with what had to wait on the connection.
    Retry(Arc<Core>),
    /// Accept nothing more, and close everything.
    ShutDown,
}

/// A reactor, from outside.
#[derive(Debug)]
pub(crate) struct ReactorHandle {
    pub(crate) common: Arc<Common>,
    /// The role of the driver.
    pub(crate) state: Mutex<Reactor>,
    /// Callers who would drive while they wait, if asked.
    pub(crate) waiting: Mutex<Vec<Arc<Parker>>>,
    /// One of them has been offered the role, and has not answered yet.
    pub(crate) offered: AtomicBool,
    /// Threads that are in `block_on`.
    pub(crate) callers: AtomicUsize,
    /// How often a caller has taken the role.
    pub(crate) drives: AtomicU64,
    /// Somebody who is not in `block_on` has found a driver in those who are, and may still need one
    /// when they have gone.
    pub(crate) relied_on: AtomicBool,
    /// Which of those in `block_on` has driven last; zero for none.
    pub(crate) last_driver: AtomicUsize,
    /// The endpoint's own thread holds the role.
    pub(crate) own_drives: AtomicBool,
    /// A thread in `block_on` that stands aside for callers holds the role.
    pub(crate) aside_drives: AtomicBool,
    /// Either of these two is to let go of the role, or the first to stop.
    pub(crate) interrupt: AtomicBool,
    /// Somebody needs a driver while there are no callers.
    pub(crate) own_wanted: AtomicBool,
    pub(crate) own_thread: OnceLock<Thread>,
    /// The endpoint's own thread has ended, or is about to; and who waits for that.
    own_ended: AtomicBool,
    own_awaited: Mutex<Vec<Thread>>,
    pub(crate) stopping: AtomicBool,
    /// The endpoint's own thread is gone, in the middle of a turn.
    panicked: AtomicBool,
    /// Everything has been let go of, and nobody looks for what is left for a driver.
    pub(super) abandoned: AtomicBool,
    /// The connections that have not ended, for those who do not hold the role.
    pub(crate) members: Mutex<BTreeMap<u64, Arc<Core>>>,
    in_turn: CachePadded<AtomicBool>,
    /// Until when the driver sleeps, in nanoseconds; zero while it is awake.
    sleeps_until: CachePadded<AtomicU64>,
    dirty: SegQueue<Arc<Core>>,
    commands: SegQueue<Command>,
    kick: Kick,
    next_deadline: AtomicU64,
    timers: Mutex<Timers>,
    /// In nanoseconds.
    unseen: AtomicU64,
}

impl ReactorHandle {
    pub(crate) fn new(common: Arc<Common>, state: Reactor, kick: Kick) -> Self {
        Self {
            common,
            state: Mutex::new(state),
            waiting: Mutex::default(),
            offered: AtomicBool::new(false),
            callers: AtomicUsize::new(0),
            drives: AtomicU64::new(0),
            relied_on: AtomicBool::new(false),
            last_driver: AtomicUsize::new(0),
            own_drives: AtomicBool::new(false),
            aside_drives: AtomicBool::new(false),
            interrupt: AtomicBool::new(false),
            own_wanted: AtomicBool::new(false),
            own_thread: OnceLock::new(),
            own_ended: AtomicBool::new(false),
            own_awaited: Mutex::default(),
            stopping: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            members: Mutex::default(),
            in_turn: CachePadded::default(),
            sleeps_until: CachePadded::default(),
            dirty: SegQueue::new(),
            commands: SegQueue::new(),
            kick,
            next_deadline: AtomicU64::new(u64::MAX),
            timers: Mutex::default(),
            unseen: AtomicU64::new(0),
        }
    }

    /// Whether the driver is in a turn, which ends with a flush.
    #[inline]
    pub(crate) fn is_in_turn(&self) -> bool {
        self.in_turn.load(Ordering::SeqCst)
    }

    pub(super) fn begin_turn(&self) {
        // Whoever sees it late flushes by itself.
        self.in_turn.store(true, Ordering::Relaxed);
    }

    pub(super) fn end_turn(&self) {
        // A full fence, and a cheaper one than a fence by itself: whoever has still seen the turn has
        // left its connection by then.
        self.in_turn.swap(false, Ordering::SeqCst);
    }

    /// Leaves a connection to be flushed at the end of the turn, or when the driver wakes.
    pub(crate) fn push_dirty(&self, core: Arc<Core>) {
        self.dirty.push(core);
        fence(Ordering::SeqCst);
        self.abandon_late();
    }

    /// Flushes every connection that has been left. Returns whether there was one.
    pub(super) fn flush_dirty(&self) -> bool {
        let mut any = false;
        // What is pushed meanwhile is for the next time, or this could go on for ever.
        for _ in 0..self.dirty.len() {
            let Some(core) = self.dirty.pop() else { break };
            core.flush(false);
            any = true;
        }
        any
    }

    /// Leaves the driver something to do, and wakes it.
    pub(crate) fn submit(&self, command: Command) {
        self.commands.push(command);
        fence(Ordering::SeqCst);
        self.abandon_late();
        self.wake_driver();
    }

    pub(super) fn next_command(&self) -> Option<Command> {
        // A look costs less than an attempt.
        if self.commands.is_empty() { None } else { self.commands.pop() }
    }

    /// One turn of whoever drives. What a handler panics with is not theirs, nor of those who wait for something else: it has
    /// been noted for who shuts the endpoint down, and the reactor goes on.
    pub(crate) fn turn(self: &Arc<Self>, state: &mut Reactor, wait: Wait<'_>) -> bool {
        state.turn(self, wait).unwrap_or_else(|panic| {
            panic.discard();
            true
        })
    }

    /// Whether the endpoint's own thread has panicked itself, by a bug, and is gone.
    pub(crate) fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::SeqCst)
    }

    /// The endpoint's own thread goes because it panics itself. Whoever shuts the endpoint down sees that, or
    /// this thread sees that it has been, and lets go of everything.
    pub(crate) fn note_panic(self: &Arc<Self>) {
        self.panicked.store(true, Ordering::SeqCst);
        if self.stopping.load(Ordering::SeqCst) {
            self.let_go_at_once();
        }
    }

    /// The endpoint's own thread ends.
    pub(crate) fn note_end(&self) {
        self.own_ended.store(true, Ordering::SeqCst);
        for thread in self.own_awaited.lock().drain(..) {
            thread.unpark();
        }
    }

    /// Whether the endpoint's own thread has ended. If it has not, this thread is unparked when it does.
    pub(crate) fn has_ended(&self) -> bool {
        if self.own_thread.get().is_none() {
            return true;
        }
        self.own_awaited.lock().push(thread::current());
        // Behind that: either this sees that it has, or it finds whom to unpark.
        self.own_ended.load(Ordering::SeqCst)
    }

    /// Begins nothing more on any connection, but for replies.
    pub(crate) fn refuse_all(&self) {
        let members: Vec<_> = self.members.lock().values().cloned().collect();
        members.iter().for_each(Core::refuse);
    }

    /// Lets go of everything, when the endpoint has been shut down. Returns false if somebody drives, who does it then.
    pub(crate) fn let_go(self: &Arc<Self>) -> bool {
        let Some(mut state) = self.state.try_lock() else { return false };
        state.finish(self);
        self.clear(state);
        true
    }

    /// The same, waiting for no peer, and giving nothing to the handler.
    pub(crate) fn let_go_at_once(self: &Arc<Self>) -> bool {
        let Some(state) = self.state.try_lock() else { return false };
        self.clear(state);
        true
    }

    fn clear(self: &Arc<Self>, mut state: MutexGuard<'_, Reactor>) {
        state.clear(self);
        drop(state);
        self.abandoned.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.abandon();
    }

    /// Whether nobody will drive any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// What has just been left for a driver is let go of, if none looks any more: behind a fence, so that either this
    /// thread sees that or the last driver sees what was left.
    #[inline]
    fn abandon_late(&self) {
        if self.abandoned.load(Ordering::Relaxed) {
            self.abandon();
        }
    }

    /// Lets go of what was left for a driver, when nobody will drive any more: it holds connections, which
    /// hold this.
    pub(crate) fn abandon(&self) {
        while let Some(command) = self.commands.pop() {
            if let Command::Connect(address, attempt) = command {
                let shut_down = Err(ConnectError::ShutDown { address });
                self.common.finish_attempt(address, &attempt, shut_down);
            }
        }
        while self.dirty.pop().is_some() {}
    }

    /// Whether something has been left for the driver.
    pub(crate) fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.commands.is_empty()
    }

    /// The driver is about to sleep; it looks for work once more after saying so.
    pub(super) fn sleep(&self, until: Time) {
        self.sleeps_until.store(until.nanos().max(1), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Until when the driver sleeps, in nanoseconds; zero while it does not.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) fn sleeps_until(&self) -> u64 {
        self.sleeps_until.load(Ordering::SeqCst)
    }

    pub(super) fn wake_up(&self) {
        self.sleeps_until.store(0, Ordering::SeqCst);
    }

    /// Ends the driver's sleep, if it sleeps.
    pub(crate) fn interrupt_sleep(&self) {
        if self.sleeps_until.load(Ordering::SeqCst) != 0 {
            self.kick.kick();
        }
    }

    /// Wakes the driver if it sleeps, and finds one if there is none.
    pub(crate) fn wake_driver(&self) {
        if self.sleeps_until.load(Ordering::SeqCst) != 0 {
            self.kick.kick();
        } else {
            self.ensure_driver();
        }
    }

    /// Finds a driver if there is none: the endpoint's own thread, which may have left the role to
    /// callers that have gone since.
    #[inline]
    pub(crate) fn ensure_driver(&self) {
        driver::rely();
        self.find_driver();
    }

    /// As [`ensure_driver`](Self::ensure_driver), for what this thread does not wait for, or need not drive for.
    #[inline]
    pub(crate) fn find_driver(&self) {
        if self.callers.load(Ordering::SeqCst) > 0 {
            if self.relied_on.load(Ordering::SeqCst) {
                return;
            }
            self.relied_on.store(true, Ordering::SeqCst);
        }
        // The last of them may have gone without having seen that.
        if self.callers.load(Ordering::SeqCst) == 0 && !self.own_drives.load(Ordering::SeqCst) {
            self.own_wanted.store(true, Ordering::SeqCst);
            if let Some(thread) = self.own_thread.get() {
                thread.unpark();
            }
        }
    }

    /// Ends the wait of the endpoint's own thread, or of who stands aside, so that it lets go of the role.
    pub(crate) fn interrupt_driver(&self) {
        if !self.interrupt.swap(true, Ordering::SeqCst) {
            self.kick.kick();
        }
    }
}
