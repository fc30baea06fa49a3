//! The types of loom, under the interfaces of those that ship.

pub(crate) use std::{thread, thread_local};

pub(crate) use loom::sync::{MutexGuard, atomic};

use loom::cell::UnsafeCell;

use atomic::{AtomicBool, Ordering};

/// Words whose use is followed one by one: records are multiples of them.
const WORD: usize = 8;

/// A lock that is not poisoned.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a model ends at its first panic")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    /// No model of loom's asks this.
    pub(crate) fn is_locked(&self) -> bool {
        self.0.try_lock().is_err()
    }
}

pub(crate) use {Mutex as Latch, MutexGuard as LatchGuard};

/// A lock that is not poisoned.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("a model ends at its first panic")
    }

    pub(crate) fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("a model ends at its first panic")
    }
}

/// A place that is filled once, by one thread.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    /// What loom sees of it.
    filled: AtomicBool,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), filled: AtomicBool::new(false) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.filled.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.filled.store(true, Ordering::Release);
        Ok(())
    }
}

/// Has loom find bytes that are written while somebody else may read or write them.
#[derive(Debug)]
pub(crate) struct Watch(Vec<UnsafeCell<()>>);

impl Watch {
    pub(crate) fn new(bytes: usize) -> Self {
        Self((0..bytes.div_ceil(WORD)).map(|_| UnsafeCell::new(())).collect())
    }

    pub(crate) fn write(&self, offset: usize, len: usize) {
        self.of(offset, len).iter().for_each(|word| word.with_mut(|_| ()));
    }

    pub(crate) fn read(&self, offset: usize, len: usize) {
        self.of(offset, len).iter().for_each(|word| word.with(|_| ()));
    }

    fn of(&self, offset: usize, len: usize) -> &[UnsafeCell<()>] {
        &self.0[offset / WORD..(offset + len).div_ceil(WORD)]
    }
}

pub(crate) fn before_sleep(_descriptor: std::os::fd::BorrowedFd<'_>) {
    unreachable!("no model of loom's runs a reactor");
}
