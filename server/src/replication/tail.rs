//! Entries that somebody may still lack, in the bytes in which they are sent.
//!
//! Entries are put one after the other into buffers of some hundred kilobytes, as a message carries them. So what is sent is a slice
//! of a buffer, whether for the first time or again, and an entry costs one copy, a few bytes for where it begins, and no
//! allocation of its own: buffers are used anew when everybody has what was in them.

use std::collections::VecDeque;

use weft_protocol::Version;
use weft_protocol::replication::{Entries, Entry};

use weft_protocol::limits::ENTRIES_MAX;

/// A buffer of more is not kept when it has become empty: a partition that is idle is small.
const KEPT_BYTES: usize = 64 << 10;

/// The entries behind `base`, up to the last one.
#[derive(Debug)]
pub(super) struct Tail {
    chunks: VecDeque<Chunk>,
    /// The version before the first entry of the first chunk.
    base: Version,
    last: Version,
    bytes: usize,
    chunk_bytes: usize,
    spare: Option<Chunk>,
}

#[derive(Debug, Default)]
struct Chunk {
    /// The sequence of the first entry.
    first: u64,
    /// Where each entry begins.
    starts: Vec<u32>,
    bytes: Vec<u8>,
}

impl Chunk {
    fn count(&self) -> usize {
        self.starts.len()
    }

    fn last(&self) -> u64 {
        self.first + self.count() as u64 - 1
    }

    fn start(&self, index: usize) -> usize {
        self.starts.get(index).map_or(self.bytes.len(), |start| *start as usize)
    }

    fn run(&self, from: usize, to: usize) -> Entries<'_> {
        let bytes = &self.bytes[self.start(from)..self.start(to)];
        Entries::written((to - from) as u32, bytes)
    }

    fn version(&self, index: usize) -> Option<Version> {
        self.run(index, index + 1).iter().next().map(|entry| entry.version)
    }
}

impl Tail {
    pub(super) fn new(base: Version, chunk_bytes: usize) -> Self {
        Self { chunks: VecDeque::new(), base, last: base, bytes: 0, chunk_bytes, spare: None }
    }

    /// The version before the first entry that is kept.
    pub(super) fn base(&self) -> Version {
        self.base
    }

    /// The version of the last entry, kept or not.
    pub(super) fn last(&self) -> Version {
        self.last
    }

    /// Bytes of what is kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the next entry.
    pub(super) fn push(&mut self, entry: Entry<'_>) {
        debug_assert_eq!(entry.version.sequence(), self.last.sequence() + 1);
        let len = Entry::encoded_len(entry.bytes.len());
        let is_full = self.chunks.back().is_none_or(|chunk| {
            chunk.bytes.len() + len > self.chunk_bytes || chunk.count() == ENTRIES_MAX
        });
        if is_full {
            let mut chunk = self.spare.take().unwrap_or_default();
            chunk.first = entry.version.sequence();
            self.chunks.push_back(chunk);
        }
        let chunk = self.chunks.back_mut().expect("one was pushed if there was none");
        chunk.starts.push(chunk.bytes.len() as u32);
        entry.push_to(&mut chunk.bytes);
        self.bytes += len;
        self.last = entry.version;
    }

    /// The version of an entry, if it or the one behind it is kept.
    pub(super) fn version_at(&self, sequence: u64) -> Option<Version> {
        if sequence == self.last.sequence() {
            return Some(self.last);
        }
        if sequence == self.base.sequence() {
            return Some(self.base);
        }
        let chunk = self.chunk_of(sequence)?;
        chunk.version((sequence - chunk.first) as usize)
    }

    /// The entries behind `after`, as many as lie in one buffer, with the version before the first; nothing if `after` is not known.
    pub(super) fn behind(&self, after: u64) -> Option<(Version, Entries<'_>)> {
        let previous = self.version_at(after)?;
        let Some(chunk) = self.chunk_of(after + 1) else { return Some((previous, Entries::NONE)) };
        Some((previous, chunk.run((after + 1 - chunk.first) as usize, chunk.count())))
    }

    /// The entries from `first` to `last`.
    pub(super) fn range(&self, first: u64, last: u64) -> impl Iterator<Item = Entry<'_>> {
        let from = self.chunks.partition_point(|chunk| chunk.last() < first);
        let chunks = self.chunks.range(from..).take_while(move |chunk| chunk.first <= last);
        chunks.flat_map(move |chunk| {
            let from = first.saturating_sub(chunk.first) as usize;
            let to = ((last - chunk.first) as usize + 1).min(chunk.count());
            chunk.run(from, to).iter()
        })
    }

    /// Nobody lacks what is at or below `sequence`. Whole buffers go.
    pub(super) fn trim(&mut self, sequence: u64) {
        while let Some(mut chunk) = self.chunks.pop_front_if(|chunk| chunk.last() <= sequence) {
            self.base = chunk.version(chunk.count() - 1).unwrap_or(self.base);
            self.bytes -= chunk.bytes.len();
            if self.spare.is_none() && chunk.bytes.capacity() <= KEPT_BYTES {
                chunk.bytes.clear();
                chunk.starts.clear();
                self.spare = Some(chunk);
            }
        }
    }

    /// Forgets all, as if everything up to `base` had been taken.
    pub(super) fn reset(&mut self, base: Version) {
        *self = Self::new(base, self.chunk_bytes);
    }

    /// What a correct replica never does: drops entries that it has.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(super) fn truncate(&mut self, sequence: u64) {
        let kept: Vec<_> = self
            .range(self.base.sequence() + 1, sequence)
            .map(|entry| (entry.version, entry.bytes.to_vec()))
            .collect();
        self.reset(self.base);
        for (version, bytes) in kept {
            self.push(Entry { version, bytes: &bytes });
        }
    }

    fn chunk_of(&self, sequence: u64) -> Option<&Chunk> {
        let index = self.chunks.partition_point(|chunk| chunk.last() < sequence);
        self.chunks.get(index).filter(|chunk| chunk.first <= sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(entries: u64, chunk_bytes: usize) -> Tail {
        let mut tail = Tail::new(Version::new(1, 100), chunk_bytes);
        for sequence in 101..=100 + entries {
            tail.push(Entry { version: Version::new(1, sequence), bytes: &sequence.to_le_bytes() });
        }
        tail
    }

    #[test]
    fn entries_come_out_as_they_went_in_however_they_are_cut() {
        let tail = filled(50, 100);
        for after in 100..=150 {
            let mut next = after;
            while let Some((previous, run)) = tail.behind(next)
                && !run.is_empty()
            {
                assert_eq!(previous, Version::new(1, next));
                for entry in run {
                    next += 1;
                    assert_eq!(entry.version.sequence(), next);
                    assert_eq!(entry.bytes, next.to_le_bytes());
                }
            }
            assert_eq!(next, 150);
        }
        assert!(tail.behind(99).is_none() && tail.behind(151).is_none());
        let range: Vec<_> = tail.range(103, 131).map(|entry| entry.version.sequence()).collect();
        assert_eq!(range, (103..=131).collect::<Vec<_>>());
    }

    #[test]
    fn what_nobody_lacks_goes_a_buffer_at_a_time() {
        let mut tail = filled(50, 100);
        tail.trim(120);
        assert!(tail.base().sequence() <= 120 && tail.base().sequence() > 110);
        let base = tail.base().sequence();
        assert_eq!(tail.version_at(base), Some(Version::new(1, base)));
        assert_eq!(tail.range(base + 1, 150).count() as u64, 150 - base);
        tail.trim(150);
        assert_eq!((tail.base(), tail.last()), (Version::new(1, 150), Version::new(1, 150)));
        assert_eq!(tail.bytes(), 0);
        tail.push(Entry { version: Version::new(2, 151), bytes: b"x" });
        assert_eq!(tail.behind(150).map(|(_, run)| run.count()), Some(1));
    }

    #[test]
    fn an_entry_longer_than_a_buffer_has_one_of_its_own() {
        let mut tail = filled(2, 100);
        let long = vec![7; 1000];
        tail.push(Entry { version: Version::new(1, 103), bytes: &long });
        tail.push(Entry { version: Version::new(1, 104), bytes: b"y" });
        let (_, run) = tail.behind(102).expect("it is kept");
        assert_eq!(
            (run.count(), run.iter().next().map(|entry| entry.bytes.len())),
            (1, Some(1000))
        );
    }
}
