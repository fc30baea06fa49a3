//! The types of shuttle, under the interfaces of those that ship.

use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;

pub(crate) use std::sync::OnceLock;
use std::sync::TryLockError;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::thread_local;

use atomic::{AtomicBool, Ordering};

/// Threads of a model: one that is parked goes on when it is unparked, and never before. Shuttle's own may go on by
/// themselves, as the system's may, but a model of those would not see that nobody has unparked one.
pub(crate) mod thread {
    use std::cell::{Cell, OnceCell};
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use shuttle::sync::{Condvar, Mutex};

    pub(crate) use shuttle::thread::yield_now;

    std::thread_local! {
        // All threads of a model, and who runs it, are on one of the system's.
        static TIME_PASSES: Cell<bool> = const { Cell::new(false) };
    }

    /// Says whether a time that is waited for may be over, in the models that this thread runs from now on.
    pub(crate) fn let_time_pass(passes: bool) {
        TIME_PASSES.set(passes);
    }

    /// What is waited for until it is unparked.
    #[derive(Debug, Default)]
    struct Token {
        is_there: Mutex<bool>,
        came: Condvar,
    }

    #[derive(Debug, Clone, Default)]
    pub(crate) struct Thread(Arc<Token>);

    impl Thread {
        /// Tells it from others that live now.
        pub(crate) fn id(&self) -> usize {
            Arc::as_ptr(&self.0).addr()
        }

        pub(crate) fn unpark(&self) {
            *self.0.is_there.lock().expect(NO_POISON) = true;
            self.0.came.notify_one();
        }
    }

    const NO_POISON: &str = "a model ends at its first panic";

    shuttle::thread_local! {
        static CURRENT: OnceCell<Thread> = const { OnceCell::new() };
    }

    pub(crate) fn current() -> Thread {
        CURRENT.with(|current| current.get_or_init(Thread::default).clone())
    }

    pub(crate) fn park() {
        let Token { is_there, came } = &*current().0;
        let is_there = is_there.lock().expect(NO_POISON);
        // Shuttle's wakes nobody who is not notified.
        let mut is_there = came.wait_while(is_there, |is_there| !*is_there).expect(NO_POISON);
        *is_there = false;
    }

    /// Where time passes, it may be over as soon as it begins: whoever relies on more is wrong on a busy machine. Where
    /// it stands still, it is never over, and whoever should have been unparked meanwhile is found waiting.
    pub(crate) fn park_timeout(_timeout: Duration) {
        if !TIME_PASSES.get() {
            return park();
        }
        *current().0.is_there.lock().expect(NO_POISON) = false;
        yield_now();
    }

    #[derive(Debug)]
    pub(crate) struct JoinHandle<T> {
        thread: Thread,
        handle: shuttle::thread::JoinHandle<T>,
    }

    impl<T> JoinHandle<T> {
        pub(crate) fn thread(&self) -> &Thread {
            &self.thread
        }

        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.handle.join()
        }
    }

    pub(crate) fn spawn<T: Send + 'static>(
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        Builder::new().spawn(run).expect("a thread of a model costs the system nothing")
    }

    #[derive(Debug)]
    pub(crate) struct Builder(shuttle::thread::Builder);

    impl Builder {
        pub(crate) fn new() -> Self {
            Self(shuttle::thread::Builder::new())
        }

        pub(crate) fn name(self, name: String) -> Self {
            Self(self.0.name(name))
        }

        pub(crate) fn spawn<T: Send + 'static>(
            self,
            run: impl FnOnce() -> T + Send + 'static,
        ) -> io::Result<JoinHandle<T>> {
            let thread = Thread::default();
            let current = thread.clone();
            let handle = self.0.spawn(move || {
                CURRENT.with(|own| own.set(current).expect("nobody has asked for it yet"));
                run()
            })?;
            Ok(JoinHandle { thread, handle })
        }
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
        let value = match self.value.try_lock() {
            Ok(value) => value,
            // The model has failed, and drops what it was made of.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => panic!("its word says that it is free"),
        };
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

pub(crate) use {Mutex as Latch, MutexGuard as LatchGuard};

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
