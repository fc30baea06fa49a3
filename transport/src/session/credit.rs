//! Windows: how much may be sent before the receiver grants more.
//!
//! Positions are cumulative 64-bit counts of frame bytes, a class each, so a grant that is lost in
//! a race or said twice does no harm (DXNet's one-byte deltas overflowed). A sender reserves before
//! it takes room in a lane, atomically, so a window is never overshot. A receiver gives back what
//! its handler has let go of, in a credit frame when a quarter of the window is due, or along with
//! whatever else is going out when a sixteenth is.

use std::task::Waker;

use crossbeam_utils::CachePadded;

use crate::catching;
use crate::frame::Class;
use crate::handshake::Windows;
use crate::limits::SEND_AHEAD_MAX;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// What we may send: one of these a connection.
#[derive(Debug)]
pub(crate) struct SendCredit {
    windows: [CachePadded<SendWindow>; 3],
}

#[derive(Debug, Default)]
struct SendWindow {
    /// End of what has been reserved.
    reserved: AtomicU64,
    /// End of what may be reserved.
    granted: AtomicU64,
    /// Nothing is reserved any more.
    shut: AtomicBool,
    /// Whether `waiters` is worth locking.
    waiting: AtomicBool,
    waiters: Mutex<Vec<Waker>>,
}

impl SendCredit {
    pub(crate) fn new() -> Self {
        Self { windows: Default::default() }
    }

    /// From now on nothing can be reserved but for replies. What was reserved before this returns can be
    /// seen by [`reserved`](Self::reserved).
    pub(crate) fn shut(&self) {
        self.set_shut(true);
        fence(Ordering::SeqCst);
    }

    /// The opposite; those who wait try again.
    pub(crate) fn reopen(&self) {
        self.set_shut(false);
        fence(Ordering::SeqCst);
        let mut wakers = Vec::new();
        self.take_waiters(&mut wakers);
        wakers.into_iter().for_each(catching::wake);
    }

    fn set_shut(&self, shut: bool) {
        for class in [Class::Replication, Class::Request] {
            self.window(class).shut.store(shut, Ordering::SeqCst);
        }
    }

    /// Bytes of all windows that have ever been reserved and not given back.
    pub(crate) fn reserved(&self) -> u64 {
        self.windows.iter().map(|window| window.reserved.load(Ordering::SeqCst)).sum()
    }

    fn window(&self, class: Class) -> &SendWindow {
        &self.windows[class as usize]
    }

    /// Reserves `bytes` of the window of `class`, if they are there.
    #[inline]
    pub(crate) fn try_reserve(&self, class: Class, bytes: usize) -> bool {
        let window = self.window(class);
        let mut reserved = window.reserved.load(Ordering::Relaxed);
        loop {
            let end = reserved + bytes as u64;
            if end > window.granted.load(Ordering::Acquire) {
                return false;
            }
            match window.reserved.compare_exchange_weak(
                reserved,
                end,
                // Either this is seen by who shuts the window, or that is seen here.
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) if window.shut.load(Ordering::SeqCst) => {
                    window.reserved.fetch_sub(bytes as u64, Ordering::SeqCst);
                    return false;
                }
                Ok(_) => return true,
                Err(now) => reserved = now,
            }
        }
    }

    /// Reserves, or has `waker` woken when more is granted; then it is to be tried again.
    pub(crate) fn reserve_or_wait(&self, class: Class, bytes: usize, waker: &Waker) -> bool {
        if self.try_reserve(class, bytes) {
            return true;
        }
        let window = self.window(class);
        let mut waiters = window.waiters.lock();
        if !waiters.iter().any(|waiter| waiter.will_wake(waker)) {
            waiters.push(waker.clone());
        }
        window.waiting.store(true, Ordering::SeqCst);
        drop(waiters);
        fence(Ordering::SeqCst);
        self.try_reserve(class, bytes)
    }

    /// Gives back what was reserved and not used. Those who wait for window try again.
    pub(crate) fn cancel(&self, class: Class, bytes: usize) {
        let window = self.window(class);
        window.reserved.fetch_sub(bytes as u64, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if window.waiting.load(Ordering::Relaxed) && window.waiting.swap(false, Ordering::SeqCst) {
            let waiters = std::mem::take(&mut *window.waiters.lock());
            waiters.into_iter().for_each(catching::wake);
        }
    }

    /// Bytes that can be reserved now.
    #[inline]
    pub(crate) fn room(&self, class: Class) -> u64 {
        let window = self.window(class);
        let granted = window.granted.load(Ordering::Acquire);
        granted.saturating_sub(window.reserved.load(Ordering::Relaxed))
    }

    /// The peer has granted everything up to `position`. Those who wait for it are to be woken.
    pub(crate) fn grant(&self, class: Class, position: u64, wakers: &mut Vec<Waker>) {
        let window = self.window(class);
        window.granted.fetch_max(position, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if window.waiting.swap(false, Ordering::SeqCst) {
            wakers.append(&mut window.waiters.lock());
        }
    }

    /// The ends of what has been reserved and of what has been granted.
    #[cfg(test)]
    pub(crate) fn ledger(&self, class: Class) -> (u64, u64) {
        let window = self.window(class);
        (window.reserved.load(Ordering::SeqCst), window.granted.load(Ordering::SeqCst))
    }

    /// Everybody who waits for window, for when there will be none.
    pub(crate) fn take_waiters(&self, wakers: &mut Vec<Waker>) {
        for window in &self.windows {
            wakers.append(&mut window.waiters.lock());
        }
    }
}

/// What the peer may send us: one of these a connection.
#[derive(Debug)]
pub(crate) struct ReceiveCredit {
    windows: [ReceiveWindow; 3],
}

#[derive(Debug)]
struct ReceiveWindow {
    size: u64,
    /// A grant is due when this much has been let go of.
    step: u64,
    /// Bytes that have been received and let go of.
    released: CachePadded<AtomicU64>,
    /// End of what the peer has been told it may send.
    announced: AtomicU64,
}

impl ReceiveCredit {
    pub(crate) fn new(windows: &Windows) -> Self {
        Self {
            windows: Class::ALL.map(|class| {
                let size = u64::from(windows.of(class));
                ReceiveWindow {
                    size,
                    step: size.min(SEND_AHEAD_MAX) / 4,
                    released: CachePadded::new(AtomicU64::new(0)),
                    announced: AtomicU64::new(size),
                }
            }),
        }
    }

    /// Lets go of `bytes`. Returns whether a grant is due now.
    #[inline]
    pub(crate) fn release(&self, class: Class, bytes: u64) -> bool {
        let window = &self.windows[class as usize];
        let released = window.released.fetch_add(bytes, Ordering::AcqRel) + bytes;
        window.due(released) >= window.step
    }

    /// Bytes that the peer can have under way to us.
    pub(crate) fn under_way_max(&self, class: Class) -> u64 {
        self.windows[class as usize].size.min(SEND_AHEAD_MAX)
    }

    /// The ends of what has been let go of and of what has been announced.
    #[cfg(test)]
    pub(crate) fn ledger(&self, class: Class) -> (u64, u64) {
        (self.windows[class as usize].released.load(Ordering::SeqCst), self.announced(class))
    }

    /// The position that the peer has been granted.
    #[inline]
    pub(crate) fn announced(&self, class: Class) -> u64 {
        self.windows[class as usize].announced.load(Ordering::Acquire)
    }

    /// Whether a grant is due, whatever else is sent.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let is_due = |window: &ReceiveWindow| {
            window.due(window.released.load(Ordering::Relaxed)) >= window.step
        };
        self.windows.iter().any(is_due)
    }

    /// The grant to send, if one is due: of a quarter of the window (or of what a sender uses of a
    /// large one), or when something else goes out anyway, of a quarter of that. Only the sender calls this.
    pub(crate) fn take_grant(&self, class: Class, along: bool) -> Option<u64> {
        let window = &self.windows[class as usize];
        let released = window.released.load(Ordering::Acquire);
        let least = if along { window.step / 4 } else { window.step };
        if window.due(released) < least {
            return None;
        }
        window.announced.store(released + window.size, Ordering::Release);
        Some(released + window.size)
    }
}

impl ReceiveWindow {
    fn due(&self, released: u64) -> u64 {
        (released + self.size).saturating_sub(self.announced.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::frame_len;
    use crate::limits::{MESSAGE_MAX, WINDOW_MAX, WINDOW_MIN};
    use crate::session::Session;
    use crate::session::receives::Messages;

    const CLASS: Class = Class::Request;

    #[test]
    fn nothing_can_be_reserved_before_something_is_granted() {
        let credit = SendCredit::new();
        assert!(!credit.try_reserve(CLASS, 16));
        credit.grant(CLASS, 40, &mut Vec::new());
        assert!(credit.try_reserve(CLASS, 16));
        assert!(credit.try_reserve(CLASS, 24));
        assert!(!credit.try_reserve(CLASS, 8));
        assert_eq!(credit.room(CLASS), 0);
    }

    struct Woken(AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_is_given_back_wakes_those_who_wait() {
        let woken = std::sync::Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let credit = SendCredit::new();
        credit.grant(CLASS, 100, &mut Vec::new());
        assert!(credit.try_reserve(CLASS, 80));
        assert!(!credit.reserve_or_wait(CLASS, 50, &waker));
        credit.cancel(CLASS, 30);
        assert!(woken.0.load(Ordering::SeqCst));
        assert!(credit.reserve_or_wait(CLASS, 50, &waker));
    }

    #[test]
    fn while_it_is_shut_nothing_but_replies_is_reserved() {
        let woken = std::sync::Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let credit = SendCredit::new();
        for class in Class::ALL {
            credit.grant(class, 100, &mut Vec::new());
        }
        credit.shut();
        assert!(credit.try_reserve(Class::Reply, 24));
        for class in [Class::Replication, Class::Request] {
            assert!(!credit.try_reserve(class, 24));
            assert!(!credit.reserve_or_wait(class, 24, &waker));
            assert_eq!(credit.ledger(class), (0, 100), "what is refused takes nothing");
        }
        assert!(!woken.0.load(Ordering::SeqCst));
        credit.reopen();
        assert!(woken.0.load(Ordering::SeqCst));
        for class in Class::ALL {
            assert!(credit.try_reserve(class, 24));
        }
    }

    #[test]
    fn concurrent_reservations_never_overshoot() {
        let credit = SendCredit::new();
        credit.grant(CLASS, 80_000, &mut Vec::new());
        let reserved: u64 = std::thread::scope(|scope| {
            let take = || {
                let mut taken = 0;
                while credit.try_reserve(CLASS, 24) {
                    taken += 24;
                }
                taken
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(reserved, 80_000 / 24 * 24);
    }

    /// Whatever the window, once all that was sent has been let go of, there is room for a frame of
    /// the largest size, without anything else being sent: nobody has to ask for credit.
    #[test]
    fn all_that_is_let_go_of_makes_room_for_the_largest_frame() {
        let largest = frame_len(MESSAGE_MAX);
        for size in (WINDOW_MIN..=WINDOW_MAX).step_by(1 << 20) {
            let windows = Windows { reply: size, replication: size, request: size };
            let receive = ReceiveCredit::new(&windows);
            let session = Session::new(&windows, Messages::Handled);
            session.open(&windows, 0);
            for len in (0..400).map(|round| largest - round * 4096 % largest / 8 * 8) {
                assert!(session.send_credit.try_reserve(CLASS, len), "stuck in {size} bytes");
                if receive.release(CLASS, len as u64) {
                    let position = receive.take_grant(CLASS, false).expect("it is due");
                    session.grant(CLASS, position, u64::from(size), &mut Vec::new());
                }
                assert!(session.send_credit.room(CLASS) >= largest as u64, "{size} bytes");
            }
        }
    }

    proptest! {
        /// However sending, receiving, letting go and granting interleave, and however late a
        /// grant arrives, the sender is never ahead of the window and never stuck for good.
        #[test]
        fn credit_is_neither_lost_nor_overdrawn(
            steps in proptest::collection::vec((0u8..4, 1u64..600), 1..400),
        ) {
            let windows = Windows { reply: 4096, replication: 4096, request: 4096 };
            let receive = ReceiveCredit::new(&windows);
            let send = SendCredit::new();
            send.grant(CLASS, 4096, &mut Vec::new());
            let (mut sent, mut released) = (0u64, 0u64);
            let mut wire = Vec::new();
            for (step, amount) in steps {
                match step {
                    0 => if send.try_reserve(CLASS, amount as usize) { sent += amount },
                    1 => {
                        let amount = amount.min(sent - released);
                        released += amount;
                        receive.release(CLASS, amount);
                    }
                    2 => wire.extend(receive.take_grant(CLASS, amount % 2 == 0)),
                    _ => if !wire.is_empty() {
                        let at = amount as usize % wire.len();
                        send.grant(CLASS, wire.swap_remove(at), &mut Vec::new());
                    },
                }
                prop_assert!(sent <= released + 4096);
                prop_assert!(sent <= receive.announced(CLASS));
            }
            receive.release(CLASS, sent - released);
            for position in wire.into_iter().chain(receive.take_grant(CLASS, false)) {
                send.grant(CLASS, position, &mut Vec::new());
            }
            prop_assert!(send.room(CLASS) > 4096 * 3 / 4 - 1);
        }
    }
}
