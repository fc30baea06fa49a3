//! The types of shuttle, under the interfaces of those that ship.

use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;

pub(crate) use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::thread_local;

use atomic::{AtomicBool, Ordering};

/// Threads of a model.
pub(crate) mod thread {
    use std::time::Duration;

    pub(crate) use shuttle::thread::*;

    /// A time may be over as soon as it begins: whoever relies on more is wrong on a busy machine.
    pub(crate) fn park_timeout(_timeout: Duration) {
        yield_now();
    }
}

/// A lock of one word, which is all that `parking_lot`'s users see: whether it is taken can be
/// asked without taking it.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    taken: AtomicBool,
    value: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: std::sync::Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        loop {
            match self.try_lock() {
                Some(guard) => return guard,
                None => thread::yield_now(),
            }
        }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if self.taken.swap(true, Ordering::SeqCst) {
            return None;
        }
        let value =
            self.value.try_lock().unwrap_or_else(|_| panic!("its word says that it is free"));
        Some(MutexGuard { taken: &self.taken, value: Some(value) })
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    taken: &'a AtomicBool,
    /// Nothing while it is being given back.
    value: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is held")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.taken.store(false, Ordering::SeqCst);
    }
}

/// A lock that is not poisoned.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("a model ends at its first panic")
    }

    pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("a model ends at its first panic")
    }
}

/// Shuttle does not look at bytes.
#[derive(Debug)]
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn new(_bytes: usize) -> Self {
        Self
    }

    pub(crate) fn write(&self, _offset: usize, _len: usize) {}

    pub(crate) fn read(&self, _offset: usize, _len: usize) {}
}

/// Lets the other threads run until `descriptor` is readable. If it never is, the model runs out
/// of steps, which is how it finds a bell that was missed.
pub(crate) fn before_sleep(descriptor: BorrowedFd<'_>) {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    while poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)) == Ok(0) {
        thread::yield_now();
    }
}
