//! The keys that are met the most, of a stream that has more keys than there are counters: Space-Saving, by Metwally, Agrawal and El
//! Abbadi, "Efficient computation of frequent and top-k elements in data streams" (ICDT 2005).
//!
//! Every key that comes is counted. One without a counter takes that of the key with the smallest count, with the count: it may have
//! been met as often before, and that it has been is its error. So for a stream of weight `n` and `m` counters
//!
//! - no key was met more often than its count says, nor less often than its count without its error;
//! - no error is above `n / m`, the smallest count of `m` that add up to `n` at most;
//! - each key with more than `n / m` has a counter.
//!
//! Halving all counts halves the stream, so all of this holds of a stream whose past counts the less the longer ago it is. Counts
//! are floating-point numbers, of which halves are exact. What has faded away gives its counter free, to within [`FADED`] a counter.
//!
//! The paper's stream-summary finds the counter to take in one step, through lists of counters with the same count. For as few as there are
//! here, checksums and counts are looked through instead, which are a kilobyte and a half together.

use arrayvec::ArrayVec;
use weft_protocol::TableId;
use weft_protocol::limits::HOT_KEY_BYTES_MAX;

use super::Access;

/// A count below this is none.
const FADED: f64 = 1.0 / 64.0;

/// A key as it is counted: by what is kept of it, its length, and a checksum of all of it. Long keys that share all of these are
/// counted as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted<'k> {
    table: TableId,
    kept: &'k [u8],
    len: u16,
    checksum: u32,
}

impl<'k> Counted<'k> {
    /// Of `table`, `key` of at most [`KEY_MAX`](weft_protocol::limits::KEY_MAX) bytes.
    pub(super) fn new(table: TableId, key: &'k [u8]) -> Counted<'k> {
        Counted {
            table,
            kept: &key[..key.len().min(HOT_KEY_BYTES_MAX)],
            len: key.len() as u16,
            checksum: crc32c::crc32c(key),
        }
    }
}

/// What is known of a key that has a counter.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    pub(super) table: TableId,
    /// The key, or its beginning.
    pub(super) kept: ArrayVec<u8, HOT_KEY_BYTES_MAX>,
    /// Of the whole key, in bytes.
    pub(super) len: u16,
    /// CRC-32C of the whole key.
    pub(super) checksum: u32,
    /// How often it was met to be read, and to be written, since it has the counter.
    pub(super) reads: f64,
    pub(super) writes: f64,
    /// How often it may have been met before.
    pub(super) error: f64,
}

impl Counter {
    /// How often the key was met since it has the counter.
    pub(super) fn seen(&self) -> f64 {
        self.reads + self.writes
    }
}

/// The counters, as many as there may be from the start on.
#[derive(Debug)]
pub(super) struct SpaceSaving {
    capacity: usize,
    counters: Vec<Counter>,
    /// What is looked through, apart from the keys: at the position of each counter its checksum …
    checksums: Vec<u32>,
    /// … and its count: no less than how often the key was met.
    counts: Vec<f64>,
    /// Of the whole stream.
    total: f64,
    /// No key without a counter was met more often.
    uncounted_max: f64,
}

impl SpaceSaving {
    /// Without a key.
    pub(super) fn new(capacity: usize) -> SpaceSaving {
        SpaceSaving {
            capacity,
            counters: Vec::with_capacity(capacity),
            checksums: Vec::with_capacity(capacity),
            counts: Vec::with_capacity(capacity),
            total: 0.0,
            uncounted_max: 0.0,
        }
    }

    /// Bytes of heap memory for so many counters.
    pub(super) const fn bytes(capacity: usize) -> usize {
        capacity * (size_of::<Counter>() + size_of::<u32>() + size_of::<f64>())
    }

    /// Counts a key.
    pub(super) fn count(&mut self, key: Counted<'_>, access: Access) {
        self.total += 1.0;
        let position = self.position_of(key).unwrap_or_else(|| self.admit(key));
        self.counts[position] += 1.0;
        let counter = &mut self.counters[position];
        match access {
            Access::Read => counter.reads += 1.0,
            Access::Write => counter.writes += 1.0,
        }
    }

    /// Has everything so far count half.
    pub(super) fn halve(&mut self) {
        self.total /= 2.0;
        self.uncounted_max /= 2.0;
        for (count, counter) in self.counts.iter_mut().zip(&mut self.counters) {
            *count /= 2.0;
            counter.reads /= 2.0;
            counter.writes /= 2.0;
            counter.error /= 2.0;
        }
        for position in (0..self.counts.len()).rev() {
            if self.counts[position] < FADED {
                self.uncounted_max = self.uncounted_max.max(self.counts[position]);
                self.free(position);
            }
        }
    }

    /// Forgets the keys of tables that are not to be kept. They stay a part of the stream.
    pub(super) fn keep_tables(&mut self, is_kept: impl Fn(TableId) -> bool) {
        for position in (0..self.counts.len()).rev() {
            if !is_kept(self.counters[position].table) {
                self.free(position);
            }
        }
    }

    /// The counters of the `most` keys of such tables that were seen the most, these first.
    pub(super) fn hottest(&self, most: usize, is_there: impl Fn(TableId) -> bool) -> Vec<Counter> {
        let mut hottest: Vec<_> =
            self.counters.iter().filter(|counter| is_there(counter.table)).collect();
        hottest.sort_unstable_by(|a, b| {
            // By name where they are as hot, so that the order is always the same.
            let names = || (a.table, &a.kept, a.checksum).cmp(&(b.table, &b.kept, b.checksum));
            b.seen().total_cmp(&a.seen()).then(a.error.total_cmp(&b.error)).then_with(names)
        });
        hottest.truncate(most);
        hottest.into_iter().cloned().collect()
    }

    /// How often any key was met.
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    fn position_of(&self, key: Counted<'_>) -> Option<usize> {
        let is_it = |counter: &Counter| {
            counter.table == key.table && counter.len == key.len && counter.kept[..] == *key.kept
        };
        let alike = self.checksums.iter().enumerate().filter(|(_, sum)| **sum == key.checksum);
        alike.map(|(position, _)| position).find(|&position| is_it(&self.counters[position]))
    }

    /// Gives a counter to a key that has none.
    fn admit(&mut self, key: Counted<'_>) -> usize {
        if self.counters.len() == self.capacity {
            let smallest = self.smallest();
            self.uncounted_max = self.counts[smallest];
            self.free(smallest);
        }
        let kept = ArrayVec::try_from(key.kept).expect("no more than that is kept");
        self.counters.push(Counter {
            table: key.table,
            kept,
            len: key.len,
            checksum: key.checksum,
            reads: 0.0,
            writes: 0.0,
            error: self.uncounted_max,
        });
        self.checksums.push(key.checksum);
        self.counts.push(self.uncounted_max);
        self.counts.len() - 1
    }

    /// The position of the smallest count, of one counter at least.
    fn smallest(&self) -> usize {
        let mut smallest = 0;
        for (position, count) in self.counts.iter().enumerate() {
            if *count < self.counts[smallest] {
                smallest = position;
            }
        }
        smallest
    }

    fn free(&mut self, position: usize) {
        self.counters.swap_remove(position);
        self.checksums.swap_remove(position);
        self.counts.swap_remove(position);
    }
}

#[cfg(test)]
mod tests;
