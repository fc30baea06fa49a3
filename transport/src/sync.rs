//! Where locks, atomics and threads come from: the system, or a checker that runs them in many orders.
//!
//! With the feature `loom` or `shuttle`, the crate's own unit tests (and nothing else) are built on the
//! checker's types, so that its models run the code that ships, not a copy of it. Loom knows
//! what weak memory may do, and tries all of it: it is for the rings, whose every ordering
//! matters. Shuttle tries schedules at random, one memory operation after the other: it is for the
//! roles of sender and driver, which are too much code to try all of. The models are in `models`.
//!
//! What holds a lock while it touches one of these, or is touched in a model by two threads,
//! has to come from here: a checker runs all threads on one, which would wait for itself.

#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod latch;

#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod chosen {
    pub(crate) use std::sync::{OnceLock, atomic};
    pub(crate) use std::{thread, thread_local};

    pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};

    pub(crate) use super::latch::{Latch, LatchGuard};

    /// Tells a checker which bytes of a buffer are written and read. Here there is none.
    #[derive(Debug)]
    pub(crate) struct Watch;

    impl Watch {
        pub(crate) fn new(_bytes: usize) -> Self {
            Self
        }

        #[inline]
        pub(crate) fn write(&self, _offset: usize, _len: usize) {}

        #[inline]
        pub(crate) fn read(&self, _offset: usize, _len: usize) {}
    }

    /// Before the system is asked to put the thread to sleep until `descriptor` is readable.
    #[inline]
    pub(crate) fn before_sleep(_descriptor: std::os::fd::BorrowedFd<'_>) {}
}

#[cfg(all(test, feature = "loom"))]
#[path = "sync/by_loom.rs"]
mod chosen;

#[cfg(all(test, feature = "shuttle", not(feature = "loom")))]
#[path = "sync/by_shuttle.rs"]
mod chosen;

pub(crate) use chosen::*;
