//! The requesters of one thread as one future: those that were woken are polled, the others cost
//! nothing.
//!
//! A bit a requester says who was woken, and a waker that sets a bit wakes the thread only if
//! nobody did since its last pass. That is 20 ns an operation where the queue of `FuturesUnordered`
//! takes 100, as much as all the rest of the driver.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Futures that run side by side; ends when all have.
pub(crate) struct Crowd<F> {
    members: Vec<Member<F>>,
    running: usize,
    woken: Arc<Woken>,
}

struct Member<F> {
    /// `None` once it has ended.
    future: Option<Pin<Box<F>>>,
    waker: Waker,
}

impl<F: Future<Output = ()>> Crowd<F> {
    pub(crate) fn new(futures: impl IntoIterator<Item = F>) -> Crowd<F> {
        let futures: Vec<F> = futures.into_iter().collect();
        let woken = Arc::new(Woken::all(futures.len()));
        let waker = |number| Waker::from(Arc::new(MemberWaker { number, woken: woken.clone() }));
        let member =
            |(number, future)| Member { future: Some(Box::pin(future)), waker: waker(number) };
        let members: Vec<_> = futures.into_iter().enumerate().map(member).collect();
        Crowd { running: members.len(), members, woken }
    }

    fn poll_member(&mut self, number: usize) {
        let Member { future: place, waker } = &mut self.members[number];
        let Some(future) = place else { return };
        if future.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            *place = None;
            self.running -= 1;
        }
    }
}

impl<F: Future<Output = ()>> Future for Crowd<F> {
    type Output = ();

    /// One pass over those woken; who is woken meanwhile comes in the next pass, so that the thread
    /// can see to its connections in between.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let woken = self.woken.clone();
        woken.thread.register(context.waker());
        // Before the bits are taken: a bit set after that finds the flag lowered, and wakes.
        woken.noticed.store(false, Ordering::SeqCst);
        for (index, bits) in woken.bits.iter().enumerate() {
            let mut taken = bits.swap(0, Ordering::SeqCst);
            while taken != 0 {
                self.poll_member(index * 64 + taken.trailing_zeros() as usize);
                taken &= taken - 1;
            }
        }
        if self.running == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Who was woken.
struct Woken {
    bits: Vec<AtomicU64>,
    /// Whether the thread was woken since it began its last pass.
    noticed: AtomicBool,
    thread: AtomicWaker,
}

impl Woken {
    /// `count` members, all of them woken.
    fn all(count: usize) -> Woken {
        let bits = (0..count.div_ceil(64)).map(|_| AtomicU64::new(u64::MAX)).collect::<Vec<_>>();
        if let (Some(last), rest @ 1..) = (bits.last(), count % 64) {
            last.store((1 << rest) - 1, Ordering::Relaxed);
        }
        Woken { bits, noticed: AtomicBool::new(false), thread: AtomicWaker::new() }
    }
}

struct MemberWaker {
    number: usize,
    woken: Arc<Woken>,
}

impl Wake for MemberWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Woken { bits, noticed, thread } = &*self.woken;
        bits[self.number / 64].fetch_or(1 << (self.number % 64), Ordering::SeqCst);
        if !noticed.load(Ordering::SeqCst) && !noticed.swap(true, Ordering::SeqCst) {
            thread.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;
    use crate::pace::yield_once;

    #[test]
    fn all_members_end_whatever_their_number() {
        for count in [0, 1, 63, 64, 65, 200] {
            let ended = AtomicUsize::new(0);
            let member = |number: usize| {
                let ended = &ended;
                async move {
                    for _ in 0..number % 7 {
                        yield_once().await;
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            };
            futures_executor::block_on(Crowd::new((0..count).map(member)));
            assert_eq!(ended.into_inner(), count);
        }
    }

    #[test]
    fn only_who_was_woken_is_polled() {
        let polls = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let polls = &polls;
        let member = |number: usize| async move {
            let mut left = if number == 0 { 10 } else { 0 };
            std::future::poll_fn(|context| {
                polls[number].fetch_add(1, Ordering::Relaxed);
                if left == 0 && polls[0].load(Ordering::Relaxed) == 11 {
                    return Poll::Ready(());
                }
                left = usize::saturating_sub(left, 1);
                if number == 0 {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            })
            .await;
        };
        let mut crowd = std::pin::pin!(Crowd::new((0..2).map(member)));
        let waker = Waker::noop();
        let mut context = Context::from_waker(waker);
        for _ in 0..11 {
            assert!(crowd.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(polls[0].load(Ordering::Relaxed), 11);
        assert_eq!(polls[1].load(Ordering::Relaxed), 1, "the other one slept");
    }

    /// Wake-ups from elsewhere must not be lost between two passes; if one is, this never ends.
    #[test]
    fn wakeups_of_other_threads_are_not_lost() {
        let (wake, wakers) = mpsc::channel::<Waker>();
        let waking = std::thread::spawn(move || wakers.into_iter().for_each(Waker::wake));
        let member = || {
            let wake = wake.clone();
            async move {
                for _ in 0..2_000 {
                    let mut sent = false;
                    std::future::poll_fn(|context| {
                        if sent {
                            return Poll::Ready(());
                        }
                        sent = true;
                        wake.send(context.waker().clone()).unwrap();
                        Poll::Pending
                    })
                    .await;
                }
            }
        };
        let crowd = Crowd::new((0..3).map(|_| member()));
        futures_executor::block_on(crowd);
        drop(wake);
        waking.join().unwrap();
    }
}
