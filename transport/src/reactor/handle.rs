//! What everybody else sees of a reactor: how to leave it work, and how to wake it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;

use crate::connection::{Connection, Core};
use crate::driver::Parker;
use crate::error::ConnectError;
use crate::handler::Handler;
use crate::handshake::{BODIES, Hello, LARGE, Windows};
use crate::identity::{Incarnation, NodeId};
use crate::link::{Link, LinkPolicy, Listener, SimPort};
use crate::manager::{Accepted, Asked, Attempt, Registry, TooEarly};
use crate::memory::Memory;
use crate::poller::Kick;
use crate::secret::Secret;
use crate::session::receives::Messages;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::thread::Thread;
use crate::time::{Clock, Time};

use super::Reactor;

/// What all reactors of an endpoint share.
pub(crate) struct Common {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) secret: Option<Secret>,
    pub(crate) windows: Windows,
    pub(crate) links: LinkPolicy,
    /// Who is given messages.
    pub(crate) messages: Messages,
    /// Connections that peers have begun and nobody has asked for, where messages are not handled.
    pub(crate) accepted: Accepted,
    pub(crate) memory: Memory,
    pub(crate) clock: Clock,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) registry: Registry,
    pub(crate) stall_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections_max: usize,
    /// Connections that are open or coming about.
    pub(crate) connections: AtomicUsize,
    /// What bodies keep that handlers have retained, in bytes.
    pub(crate) retained_bytes: AtomicU64,
    /// Where simulated links come from; nothing for real ones.
    pub(crate) sim: Option<SimPort>,
    /// All reactors, to spread what is accepted over.
    pub(crate) reactors: OnceLock<Vec<Weak<ReactorHandle>>>,
    pub(crate) next_reactor: AtomicUsize,
}

impl Common {
    /// The hello of this endpoint.
    pub(crate) fn hello(&self) -> Hello {
        Hello {
            node: self.node,
            incarnation: self.incarnation,
            features: LARGE | BODIES,
            windows: self.windows,
            secret: self.secret,
        }
    }

    /// The attempt to connect to `address`: the one that is under way or has succeeded, or a new one.
    ///
    /// # Errors
    /// See [`TooEarly`].
    pub(crate) fn connect(
        &self,
        address: SocketAddr,
        asked: Asked,
    ) -> Result<Arc<Attempt>, TooEarly> {
        let now = self.clock.now();
        let (attempt, fresh) = self.registry.attempt(address, asked, now)?;
        if fresh {
            let reactors = self.reactors.get().map_or(&[][..], Vec::as_slice);
            let next = self.next_reactor.fetch_add(1, Ordering::Relaxed) % reactors.len().max(1);
            match reactors.get(next).and_then(Weak::upgrade) {
                Some(reactor) if !reactor.stopping.load(Ordering::SeqCst) => {
                    reactor.submit(Command::Connect(address, Arc::clone(&attempt)));
                }
                _ => {
                    self.finish_attempt(address, &attempt, Err(ConnectError::ShutDown { address }));
                }
            }
        }
        Ok(attempt)
    }

    /// Ends an attempt, for all who wait for it.
    pub(crate) fn finish_attempt(
        &self,
        address: SocketAddr,
        attempt: &Attempt,
        outcome: Result<Connection, ConnectError>,
    ) {
        self.registry.finish(address, attempt, outcome, self.clock.now());
        self.see_to_schedule();
    }

    /// Sees to it that the first reactor begins what is due when it is. Whoever changes the schedule
    /// does this.
    pub(crate) fn see_to_schedule(&self) {
        let next = self.registry.next_due();
        let first = self.reactors.get().and_then(|reactors| reactors.first()?.upgrade());
        if let (true, Some(first)) = (next != Time::MAX, first) {
            first.note_deadline(next);
            first.ensure_driver();
        }
    }

    /// Whether a peer that says `hello` is one of those that may say anything.
    pub(crate) fn trusts(&self, hello: &Hello) -> bool {
        self.secret.is_none() || self.secret == hello.secret
    }
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").field("node", &self.node).finish_non_exhaustive()
    }
}

/// What only the driver of a reactor can do, asked for by others.
#[derive(Debug)]
pub(crate) enum Command {
    /// Accept what comes in here.
    Listen(Listener),
    /// Drive a connection that another reactor has accepted.
    Adopt(Link, SocketAddr),
    /// Connect, for those who wait for the attempt.
    Connect(SocketAddr, Arc<Attempt>),
    /// Begin or cease to wait for room on a link.
    WatchWritable(Arc<Core>, bool),
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
    /// The endpoint's own thread holds the role.
    pub(crate) own_drives: AtomicBool,
    /// The endpoint's own thread is to let go of the role, or to stop.
    pub(crate) own_interrupt: AtomicBool,
    /// Somebody needs a driver while there are no callers.
    pub(crate) own_wanted: AtomicBool,
    pub(crate) own_thread: OnceLock<Thread>,
    pub(crate) stopping: AtomicBool,
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
}

#[derive(Debug, Default)]
struct Timers {
    wakers: BTreeMap<(Time, u64), Waker>,
    next: u64,
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
            own_drives: AtomicBool::new(false),
            own_interrupt: AtomicBool::new(false),
            own_wanted: AtomicBool::new(false),
            own_thread: OnceLock::new(),
            stopping: AtomicBool::new(false),
            members: Mutex::default(),
            in_turn: CachePadded::default(),
            sleeps_until: CachePadded::default(),
            dirty: SegQueue::new(),
            commands: SegQueue::new(),
            kick,
            next_deadline: AtomicU64::new(u64::MAX),
            timers: Mutex::default(),
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
        self.wake_driver();
    }

    pub(super) fn next_command(&self) -> Option<Command> {
        // A look costs less than an attempt.
        if self.commands.is_empty() { None } else { self.commands.pop() }
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
    pub(super) fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.commands.is_empty()
    }

    /// The driver is about to sleep; it looks for work once more after saying so.
    pub(super) fn sleep(&self, until: Time) {
        self.sleeps_until.store(until.nanos().max(1), Ordering::SeqCst);
        fence(Ordering::SeqCst);
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

    /// Ends the wait of the endpoint's own thread, so that it lets go of the role.
    pub(crate) fn interrupt_own(&self) {
        if !self.own_interrupt.swap(true, Ordering::SeqCst) {
            self.kick.kick();
        }
    }

    /// The earliest deadline that anybody waits for.
    pub(super) fn next_deadline(&self) -> Time {
        Time::from_nanos(self.next_deadline.load(Ordering::SeqCst))
    }

    /// Sees to it that the driver looks at deadlines when `deadline` has come.
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

    /// Has `waker` woken at `time`. Returns what [`forget_timer`](Self::forget_timer) takes.
    pub(crate) fn wake_at(&self, time: Time, waker: Waker) -> (Time, u64) {
        let key = {
            let mut timers = self.timers.lock();
            timers.next += 1;
            let key = (time, timers.next);
            timers.wakers.insert(key, waker);
            key
        };
        self.note_deadline(time);
        self.ensure_driver();
        key
    }

    /// The waker of a timer that has not fired is dropped.
    pub(crate) fn forget_timer(&self, key: (Time, u64)) {
        self.timers.lock().wakers.remove(&key);
    }

    /// Takes the deadlines that have come, and forgets the next one: the caller finds it anew.
    pub(super) fn take_due(&self, now: Time, wakers: &mut Vec<Waker>) -> bool {
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
