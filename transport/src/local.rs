//! What a thread keeps for itself: its lanes, and the connections it has yet to flush.
//!
//! In a [`deferred`] scope, in which futures are polled, what a thread commits is sent when the scope
//! ends. So within one it neither tells the senders of each record nor reserves window for each:
//! it reserves some ahead, tells once, and gives back the rest. Either is an atomic operation that
//! waits for the processor's stores to drain, and was half of what a small message cost.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use crate::connection::{Core, Unwritten};
use crate::frame::Class;
use crate::lane::{Mark, Producer};
use crate::memory::MemoryError;
use crate::reactor::ReactorHandle;
use crate::session::outbound::Unannounced;
use crate::sync;

/// Window that is reserved ahead, in bytes, while there is at least [`AHEAD_SHARE`] times as much.
const AHEAD: usize = 4 << 10;

const AHEAD_SHARE: u64 = 64;

#[derive(Default)]
struct Local {
    lanes: Vec<OwnLane>,
    /// How many `deferred` scopes the thread is in.
    depth: u32,
    /// Connections of which it has promised to send what it has committed.
    dirty: Vec<Arc<Core>>,
    /// Why a lane could not be opened.
    refused: Option<MemoryError>,
}

/// This thread's lane of a connection.
pub(crate) struct OwnLane {
    connection: u64,
    core: Weak<Core>,
    pub(crate) producer: Producer,
    /// Request window that is reserved and not used; nothing outside of scopes.
    ahead: usize,
    /// A scope sends at its end what is committed.
    deferred: bool,
    /// Why the last record was not written.
    refused: Option<MemoryError>,
}

impl Drop for Local {
    fn drop(&mut self) {
        for lane in self.lanes.drain(..) {
            if let Some(core) = lane.core.upgrade() {
                core.session.lanes.retire(lane.producer);
                core.flush(false);
            }
        }
    }
}

sync::thread_local! {
    static LOCAL: RefCell<Local> = RefCell::default();
}

fn with_local<R>(run: impl FnOnce(&mut Local) -> R) -> R {
    LOCAL.with(|local| run(&mut local.borrow_mut()))
}

/// Whether this thread is ending and has let go of what it keeps here.
pub(crate) fn is_gone() -> bool {
    LOCAL.try_with(|_| ()).is_err()
}

/// Runs `write` with this thread's lane of `core`, which is opened if there is none.
#[inline]
pub(crate) fn with_lane<R>(
    core: &Arc<Core>,
    write: impl FnOnce(&mut OwnLane) -> Result<R, Unwritten>,
) -> Result<R, Unwritten> {
    with_local(|local| {
        let found = local.lanes.iter().position(|lane| lane.connection == core.id);
        let index = match found {
            Some(index) => index,
            None => local.open_lane(core)?,
        };
        let lane = &mut local.lanes[index];
        if local.depth > 0 && !lane.deferred {
            lane.deferred = true;
            local.dirty.push(Arc::clone(core));
        }
        write(lane)
    })
}

/// Reserves `bytes` of the window of `class`, if they are there, as this thread's lane of `core` does if it has one.
#[inline]
pub(crate) fn try_reserve(core: &Core, class: Class, bytes: usize) -> bool {
    with_local(|local| {
        let own = local.lanes.iter_mut().find(|lane| lane.connection == core.id);
        match own {
            Some(lane) => lane.try_reserve(core, class, bytes),
            None => core.session.send_credit.try_reserve(class, bytes),
        }
    })
}

/// Why memory was refused for the last frame that could not be written.
pub(crate) fn take_refusal(core: &Core) -> MemoryError {
    let taken = with_local(|local| {
        let own = local.lanes.iter_mut().find(|lane| lane.connection == core.id);
        own.map_or_else(|| local.refused.take(), |lane| lane.refused.take())
    });
    taken.expect("a refusal is kept until it is asked for")
}

impl Local {
    #[cold]
    fn open_lane(&mut self, core: &Arc<Core>) -> Result<usize, Unwritten> {
        // Lanes of connections that are gone have nobody to send them.
        self.lanes.retain(|lane| lane.core.upgrade().is_some_and(|core| core.closed().is_none()));
        let producer = core.open_lane().map_err(|error| {
            self.refused = Some(error);
            Unwritten::NoMemory
        })?;
        let (connection, core) = (core.id, Arc::downgrade(core));
        let lane = OwnLane { connection, core, producer, ahead: 0, deferred: false, refused: None };
        self.lanes.push(lane);
        Ok(self.lanes.len() - 1)
    }

    /// One of the connections that the thread has promised to send to, what has been committed to it,
    /// and the window that was reserved and not used.
    fn settle_one(&mut self) -> Option<(Arc<Core>, Unannounced, usize)> {
        let core = self.dirty.pop()?;
        let own = self.lanes.iter_mut().find(|lane| lane.connection == core.id);
        let (unannounced, ahead) = own.map_or((Unannounced::NONE, 0), |lane| {
            lane.deferred = false;
            (Unannounced::of(&lane.producer), std::mem::take(&mut lane.ahead))
        });
        Some((core, unannounced, ahead))
    }
}

impl OwnLane {
    /// Reserves `bytes` of the window of `class`, if they are there; of that of requests, in a scope, some ahead.
    #[inline]
    pub(crate) fn try_reserve(&mut self, core: &Core, class: Class, bytes: usize) -> bool {
        if class != Class::Request {
            return core.session.send_credit.try_reserve(class, bytes);
        }
        if let Some(rest) = self.ahead.checked_sub(bytes) {
            self.ahead = rest;
            return true;
        }
        let credit = &core.session.send_credit;
        if self.deferred
            && bytes <= AHEAD
            && credit.room(Class::Request) >= AHEAD as u64 * AHEAD_SHARE
        {
            // What is left of the last time goes along with this.
            if credit.try_reserve(Class::Request, AHEAD) {
                self.ahead += AHEAD - bytes;
                return true;
            }
        }
        credit.try_reserve(Class::Request, bytes)
    }

    /// Whether a scope sends at its end what is committed.
    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// Keeps `error` for who asks why.
    #[cold]
    pub(crate) fn refused(&mut self, error: MemoryError) -> Unwritten {
        self.refused = Some(error);
        Unwritten::NoMemory
    }
}

/// Has what is to be sent on `core` sent at the end of the scope that this thread is in. Returns whether it
/// is in one.
pub(crate) fn promise(core: &Arc<Core>) -> bool {
    with_local(|local| {
        let is_promised = local.depth > 0;
        if is_promised && !local.dirty.iter().any(|dirty| Arc::ptr_eq(dirty, core)) {
            local.dirty.push(Arc::clone(core));
        }
        is_promised
    })
}

/// What this thread has committed to `core` and nobody has taken yet, for what is not to overtake it. The sender
/// is told of it.
pub(crate) fn mark(core: &Core) -> Option<Mark> {
    with_local(|local| {
        let own = local.lanes.iter().find(|lane| lane.connection == core.id)?;
        let mark = own.producer.mark()?;
        core.session.lanes.announce(Unannounced::of(&own.producer));
        Some(mark)
    })
}

/// Tells the senders of all that this thread has committed: somebody is about to send it, before the
/// scope ends.
pub(crate) fn announce_all() {
    // A thread that is ending has told already.
    let _ = LOCAL.try_with(|local| {
        let Ok(local) = local.try_borrow() else { return };
        for core in &local.dirty {
            let own = local.lanes.iter().find(|lane| lane.connection == core.id);
            if let Some(lane) = own {
                core.session.lanes.announce(Unannounced::of(&lane.producer));
            }
        }
    });
}

/// Runs `work` for a caller who drives `reactor` next; what it commits is sent when it ends,
/// together, except for what fills a batch before that.
pub(crate) fn deferred<R>(reactor: &Arc<ReactorHandle>, work: impl FnOnce() -> R) -> R {
    struct Scope<'a>(&'a Arc<ReactorHandle>);
    impl Drop for Scope<'_> {
        fn drop(&mut self) {
            with_local(|local| local.depth -= 1);
            // Of an inner scope too: what runs in it may wait for the replies. One at a time, since
            // whoever is woken may be in need of this thread's lanes.
            while let Some(settled) = with_local(Local::settle_one) {
                let (core, unannounced, ahead) = settled;
                if ahead > 0 {
                    core.session.send_credit.cancel(Class::Request, ahead);
                }
                match Arc::ptr_eq(&core.reactor, self.0) {
                    true => core.send_by_caller(unannounced),
                    false => core.send_soon(unannounced),
                }
            }
        }
    }
    with_local(|local| local.depth += 1);
    let _scope = Scope(reactor);
    work()
}
