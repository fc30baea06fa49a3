//! What a thread keeps for itself: its lanes, and the connections it has yet to flush.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use crate::connection::Core;
use crate::lane::Producer;
use crate::memory::MemoryError;

#[derive(Default)]
struct Local {
    lanes: Vec<(u64, Weak<Core>, Producer)>,
    /// How many `deferred` scopes the thread is in.
    depth: u32,
    dirty: Vec<Arc<Core>>,
}

impl Drop for Local {
    fn drop(&mut self) {
        for (_, core, producer) in self.lanes.drain(..) {
            if let Some(core) = core.upgrade() {
                core.session.lanes.retire(producer);
                core.flush(false);
            }
        }
    }
}

thread_local! {
    static LOCAL: RefCell<Local> = RefCell::default();
}

/// Runs `write` with this thread's lane of `core`, which is opened if there is none.
#[inline]
pub(crate) fn with_lane<R>(
    core: &Arc<Core>,
    write: impl FnOnce(&mut Producer) -> Result<R, MemoryError>,
) -> Result<R, MemoryError> {
    LOCAL.with_borrow_mut(|local| {
        let found = local.lanes.iter().position(|(id, ..)| *id == core.id);
        let index = match found {
            Some(index) => index,
            None => local.open_lane(core)?,
        };
        write(&mut local.lanes[index].2)
    })
}

impl Local {
    #[cold]
    fn open_lane(&mut self, core: &Arc<Core>) -> Result<usize, MemoryError> {
        // Lanes of connections that are gone have nobody to send them.
        self.lanes
            .retain(|(_, core, _)| core.upgrade().is_some_and(|core| core.closed().is_none()));
        self.lanes.push((core.id, Arc::downgrade(core), core.open_lane()?));
        Ok(self.lanes.len() - 1)
    }
}

/// If this thread is in a [`deferred`] scope, notes that `core` is to be flushed at its end.
#[inline]
pub(crate) fn defer(core: &Arc<Core>) -> bool {
    LOCAL.with_borrow_mut(|local| {
        if local.depth == 0 {
            return false;
        }
        if !local.dirty.iter().any(|dirty| Arc::ptr_eq(dirty, core)) {
            local.dirty.push(Arc::clone(core));
        }
        true
    })
}

/// Runs `work`; what it commits is sent when it ends, together, except for what fills a batch
/// before that.
pub(crate) fn deferred<R>(work: impl FnOnce() -> R) -> R {
    struct Scope;
    impl Drop for Scope {
        fn drop(&mut self) {
            let dirty = LOCAL.with_borrow_mut(|local| {
                local.depth -= 1;
                // Of an inner scope too: what runs in it may wait for the replies.
                std::mem::take(&mut local.dirty)
            });
            dirty.iter().for_each(Core::send_soon);
        }
    }
    LOCAL.with_borrow_mut(|local| local.depth += 1);
    let _scope = Scope;
    work()
}
