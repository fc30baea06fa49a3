//! What a thread in [`block_on`](super::block_on) waits with, and whether what it polls needs a driver.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::reactor::ReactorHandle;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};
use crate::sync::{self, Mutex};

/// A thread that waits for a future, and can be woken.
#[derive(Debug)]
pub(crate) struct Parker {
    pub(super) thread: Thread,
    /// The future is to be polled again.
    pub(super) notified: AtomicBool,
    /// The thread sleeps, or is about to: it has to be unparked.
    pub(super) parked: AtomicBool,
    /// It is on the list of those who would drive.
    pub(super) listed: AtomicBool,
    /// It has been offered the role, and has not answered yet.
    pub(super) offered: AtomicBool,
    /// It drives a reactor and sleeps in its poller, or is about to.
    sleeps: AtomicBool,
    /// Which one.
    drives: Mutex<Option<Arc<ReactorHandle>>>,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.notified.swap(true, Ordering::SeqCst) {
            return;
        }
        if self.parked.load(Ordering::SeqCst) {
            self.thread.unpark();
        } else if self.sleeps.load(Ordering::SeqCst)
            && let Some(reactor) = &*self.drives.lock()
        {
            reactor.interrupt_sleep();
        }
    }
}

sync::thread_local! {
    /// What this thread waits with, while it does not.
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };

    /// What this thread polls waits for what a driver brings.
    static RELIES: Cell<bool> = const { Cell::new(false) };
}

/// What is polled on this thread waits for what a driver brings: if it is in [`block_on`](super::block_on), the thread is to
/// drive meanwhile.
#[inline]
pub(crate) fn rely() {
    RELIES.with(|relies| relies.set(true));
}

/// Whether what has been polled on this thread [relies](rely) on a driver, since this was last asked.
#[inline]
pub(super) fn take_reliance() -> bool {
    RELIES.with(|relies| relies.replace(false))
}

/// What a thread waits with.
pub(super) struct Own {
    pub(super) parker: Arc<Parker>,
    pub(super) waker: Waker,
}

impl Own {
    /// This thread's; a new one inside a future that itself blocks.
    pub(super) fn take() -> Self {
        OWN.with(Cell::take).unwrap_or_else(|| {
            let parker = Arc::new(Parker {
                thread: thread::current(),
                notified: AtomicBool::new(false),
                parked: AtomicBool::new(false),
                listed: AtomicBool::new(false),
                offered: AtomicBool::new(false),
                sleeps: AtomicBool::new(false),
                drives: Mutex::new(None),
            });
            Self { waker: Waker::from(Arc::clone(&parker)), parker }
        })
    }

    /// Keeps it for the next time.
    pub(super) fn keep(self) {
        OWN.with(|kept| kept.set(Some(self)));
    }
}

impl Parker {
    /// Tells it from others that live now: neither 0 nor 1.
    pub(super) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether the future is to be polled again.
    pub(crate) fn is_notified(&self) -> bool {
        self.notified.load(Ordering::SeqCst)
    }

    /// The thread is about to sleep in the poller of `reactor`; it looks whether it is notified once
    /// more after saying so.
    pub(crate) fn sleep(&self, reactor: &Arc<ReactorHandle>) {
        *self.drives.lock() = Some(Arc::clone(reactor));
        self.sleeps.store(true, Ordering::SeqCst);
    }

    pub(crate) fn wake_up(&self) {
        self.sleeps.store(false, Ordering::SeqCst);
        *self.drives.lock() = None;
    }
}
