//! A lock that nobody sleeps for until it is given back, which one atomic operation takes and a plain store gives back. For what is
//! held for a few instructions as a rule, and for longer where hardly anybody else wants it, as a call's slot is while its request is written.
//!
//! A lock that wakes whoever sleeps for it has to look, as it is given back, whether somebody does: a second atomic
//! operation, that waits for the processor's stores as the first does, and costs as much as all that such a lock is
//! held for. Nobody sleeps until this one is free: who finds it taken looks again, lets others have the processor, and
//! then sleeps for a moment at a time, since its holder may be a thread that has lost its processor to this one, or would
//! never get it beside one of a higher priority.

#![expect(
    unsafe_code,
    reason = "an implementation of the trait by which a lock is promised to lock"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_api::{GuardNoSend, RawMutex};

/// A value behind such a lock.
pub(crate) type Latch<T> = lock_api::Mutex<RawLatch, T>;

/// What holds it.
pub(crate) type LatchGuard<'a, T> = lock_api::MutexGuard<'a, RawLatch, T>;

/// How often to look for it while the holder may be at work on another processor.
const LOOKS: u32 = 100;

/// How often to let others have the processor before sleeping.
const YIELDS: u32 = 100;

/// How long to sleep at a time.
const NAP: Duration = Duration::from_micros(50);

/// The lock itself.
#[derive(Debug)]
pub(crate) struct RawLatch {
    taken: AtomicBool,
}

impl RawLatch {
    /// Returns when somebody has given it back, though another may have been faster to take it again.
    #[cold]
    #[expect(clippy::disallowed_methods, reason = "to be woken would cost whoever gives it back")]
    fn wait(&self) {
        let mut waited = 0;
        while self.taken.load(Ordering::Relaxed) {
            match waited {
                0..LOOKS => std::hint::spin_loop(),
                LOOKS..YIELDS_OVER => std::thread::yield_now(),
                YIELDS_OVER.. => std::thread::sleep(NAP),
            }
            waited = u32::min(waited + 1, YIELDS_OVER);
        }
    }
}

/// How often it has waited who has both looked and yielded.
const YIELDS_OVER: u32 = LOOKS + YIELDS;

// SAFETY: whoever finds `taken` false and makes it true has the lock, in one operation, until the guard calls `unlock`; nothing
// else sets it to false. The store that gives it back releases what the holder has written, and the operation that takes it acquires that.
unsafe impl RawMutex for RawLatch {
    const INIT: Self = Self { taken: AtomicBool::new(false) };

    type Guard = GuardNoSend;

    #[inline]
    fn lock(&self) -> GuardNoSend {
        loop {
            match self.try_lock() {
                Some(guard) => return guard,
                None => self.wait(),
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardNoSend> {
        let free = self.taken.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed);
        free.is_ok().then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardNoSend) {
        self.taken.store(false, Ordering::Release);
    }

    fn is_locked(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// One thread at a time, and each sees all that those before it have written.
    #[test]
    fn nobody_else_is_in() {
        let pair = Arc::new(Latch::new((0_u64, 0_u64)));
        let add = |pair: Arc<Latch<(u64, u64)>>| {
            thread::spawn(move || {
                for _ in 0..50_000 {
                    let mut pair = pair.lock();
                    assert_eq!(pair.0, pair.1);
                    pair.0 += 1;
                    std::hint::black_box(&mut *pair);
                    pair.1 += 1;
                }
            })
        };
        let threads: Vec<_> = (0..4).map(|_| add(Arc::clone(&pair))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*pair.lock(), (200_000, 200_000));
    }

    #[test]
    fn it_is_given_back_by_who_panics_too() {
        let latch = Arc::new(Latch::new(1));
        let held = Arc::clone(&latch);
        let panicked = thread::spawn(move || {
            let _held = held.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert!(latch.try_lock().is_some());
    }

    /// A holder that sleeps is waited for, past all looking and yielding.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is held for so long on purpose")]
    fn who_waits_for_long_gets_it() {
        let latch = Arc::new(Latch::new(0));
        let mut held = latch.lock();
        let waiting = Arc::clone(&latch);
        let waiting = thread::spawn(move || *waiting.lock());
        thread::sleep(Duration::from_millis(30));
        assert!(latch.is_locked() && latch.try_lock().is_none());
        *held = 7;
        drop(held);
        assert_eq!(waiting.join().unwrap(), 7);
    }
}
