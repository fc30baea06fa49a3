//! What a node has done, counted where it costs next to nothing.
//!
//! A batch of requests is counted in a plain [`Tally`] on the stack of the thread that executes it,
//! and added to that thread's shard once, at its end: no shared cache line is touched a request.

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use weft_protocol::Operation;

/// What is counted, beside the requests of each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A batch of requests was executed.
    Batch,
    /// A request, or an item of one, was answered with an error.
    Refused,
    /// A message was no request.
    Malformed,
    /// A message for nodes of the map came from somebody else.
    OfStranger,
    /// An item of a multi-operation was executed.
    Item,
    /// An item of a multi-get was left for the client to ask again.
    Unprocessed,
    /// A read found an object.
    Hit,
    /// A read found none.
    Miss,
    /// A value was copied into its reply, because that is cheaper.
    ValueCopied,
    /// A value was sent from the segment that it lies in.
    ValueGathered,
    /// A value was copied though it is large, because enough segments were pinned.
    PinRefused,
    /// Bytes of values that were read.
    BytesRead,
    /// Bytes of values that were written.
    BytesWritten,
    /// A mutation was asked for again, and answered as it was the first time.
    Repeated,
    /// A write found no memory and waited for segments to be emptied.
    WriteWaited,
    /// A request found too little memory to be worked off in, and waited for a turn at what is kept back for that.
    TurnTaken,
}

impl Event {
    /// Every event, in the order of their declaration.
    pub const ALL: [Event; 16] = [
        Event::Batch,
        Event::Refused,
        Event::Malformed,
        Event::OfStranger,
        Event::Item,
        Event::Unprocessed,
        Event::Hit,
        Event::Miss,
        Event::ValueCopied,
        Event::ValueGathered,
        Event::PinRefused,
        Event::BytesRead,
        Event::BytesWritten,
        Event::Repeated,
        Event::WriteWaited,
        Event::TurnTaken,
    ];
}

/// Counts of operations and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    operations: [u64; Operation::COUNT],
    events: [u64; Event::ALL.len()],
}

/// Nothing. Written out, since arrays are `Default` up to 32 elements only.
impl Default for Tally {
    #[inline]
    fn default() -> Tally {
        Tally { operations: [0; Operation::COUNT], events: [0; Event::ALL.len()] }
    }
}

impl Tally {
    /// Counts a request.
    #[inline]
    pub fn request(&mut self, operation: Operation) {
        self.operations[operation.index()] += 1;
    }

    /// Counts an event.
    #[inline]
    pub fn event(&mut self, event: Event) {
        self.add(event, 1);
    }

    /// Counts an event `count` times.
    #[inline]
    pub fn add(&mut self, event: Event, count: u64) {
        self.events[event as usize] += count;
    }

    /// Requests of an operation.
    pub fn requests(&self, operation: Operation) -> u64 {
        self.operations[operation.index()]
    }

    /// Requests of all operations.
    pub fn all_requests(&self) -> u64 {
        self.operations.iter().sum()
    }

    /// How often an event was counted.
    pub fn count(&self, event: Event) -> u64 {
        self.events[event as usize]
    }
}

/// The counts of all threads.
#[derive(Debug)]
pub struct Counters {
    shards: Box<[CachePadded<Shard>]>,
}

#[derive(Debug)]
struct Shard {
    operations: [AtomicU64; Operation::COUNT],
    events: [AtomicU64; Event::ALL.len()],
}

impl Default for Shard {
    fn default() -> Shard {
        let (operations, events) = (array::from_fn(|_| 0.into()), array::from_fn(|_| 0.into()));
        Shard { operations, events }
    }
}

/// More shards than threads that serve on most hosts; with more threads some share one.
pub(crate) const SHARDS: usize = 16;

impl Counters {
    /// All zero.
    pub fn new() -> Counters {
        Counters { shards: (0..SHARDS).map(|_| CachePadded::default()).collect() }
    }

    /// Adds what a thread has counted.
    pub fn add(&self, tally: &Tally) {
        let shard = &self.shards[shard_of_this_thread()];
        let counts = tally.operations.iter().chain(&tally.events);
        for (total, &count) in shard.operations.iter().chain(&shard.events).zip(counts) {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// The sums over all threads. Batches that are being executed are not in it yet.
    pub fn total(&self) -> Tally {
        let sum =
            |count: &dyn Fn(&Shard) -> u64| self.shards.iter().map(|shard| count(shard)).sum();
        Tally {
            operations: array::from_fn(|i| {
                sum(&|shard| shard.operations[i].load(Ordering::Relaxed))
            }),
            events: array::from_fn(|i| sum(&|shard| shard.events[i].load(Ordering::Relaxed))),
        }
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters::new()
    }
}

/// Threads take shards in turn, in the order in which they first count something.
pub(crate) fn shard_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
    }
    SHARD.with(|shard| match shard.get() {
        Some(index) => index,
        None => {
            let index = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            shard.set(Some(index));
            index
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_add_up() {
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..SHARDS + 3 {
                scope.spawn(|| {
                    let mut tally = Tally::default();
                    tally.request(Operation::Get);
                    tally.add(Event::BytesRead, 100);
                    counters.add(&tally);
                    counters.add(&tally);
                });
            }
        });
        let total = counters.total();
        let threads = SHARDS as u64 + 3;
        assert_eq!(total.requests(Operation::Get), 2 * threads);
        assert_eq!(total.requests(Operation::Put), 0);
        assert_eq!(total.count(Event::BytesRead), 200 * threads);
    }

    #[test]
    fn events_are_listed_in_the_order_they_are_counted_by() {
        for (index, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
    }
}
