//! The numbers of the records to insert, shared by all requesters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Hands out consecutive numbers, each once.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn starting_at(first: u64) -> Counter {
        Counter(AtomicU64::new(first))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Hands out consecutive numbers, and knows up to which one all were acknowledged: only records
/// whose insertion has ended are read.
#[derive(Debug)]
pub(crate) struct AcknowledgedCounter {
    next: Counter,
    /// Every number up to here was acknowledged.
    last: AtomicU64,
    /// Numbers acknowledged beyond a gap; at most one a requester.
    ahead: Mutex<BinaryHeap<Reverse<u64>>>,
}

impl AcknowledgedCounter {
    /// `loaded` records exist when the run begins, numbered from 0; there is at least one.
    pub(crate) fn after(loaded: u64) -> AcknowledgedCounter {
        AcknowledgedCounter {
            next: Counter::starting_at(loaded),
            last: AtomicU64::new(loaded.saturating_sub(1)),
            ahead: Mutex::new(BinaryHeap::new()),
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.next()
    }

    /// The highest number up to which all were acknowledged.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// The insertion of record `number` has ended, well or not.
    pub(crate) fn acknowledge(&self, number: u64) {
        let mut ahead = self.ahead.lock();
        ahead.push(Reverse(number));
        let mut last = self.last();
        while ahead.peek() == Some(&Reverse(last + 1)) {
            ahead.pop();
            last += 1;
        }
        self.last.store(last, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_holds_later_acknowledgements_back() {
        let counter = AcknowledgedCounter::after(10);
        assert_eq!(counter.last(), 9);
        let numbers: Vec<u64> = (0..4).map(|_| counter.next()).collect();
        assert_eq!(numbers, [10, 11, 12, 13]);
        counter.acknowledge(12);
        counter.acknowledge(11);
        assert_eq!(counter.last(), 9);
        counter.acknowledge(10);
        assert_eq!(counter.last(), 12);
        counter.acknowledge(13);
        assert_eq!(counter.last(), 13);
    }

    #[test]
    fn many_threads_leave_no_gap() {
        let counter = AcknowledgedCounter::after(1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counter.acknowledge(counter.next());
                    }
                });
            }
        });
        assert_eq!(counter.last(), 4_000);
        assert!(counter.ahead.lock().is_empty());
    }
}
