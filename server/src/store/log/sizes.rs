//! How large segments are, and which records share one.
//!
//! What a partition leaves unused is the rest of the segment that it fills, half of it on average, and what no record
//! fits into at the ends of full ones, half a record each at most. Large segments make the first much, small ones the second.

use weft_transport::{Appender, PAGE_BYTES};

use crate::store::address::Address;

/// The smallest segment. A partition with little in it takes little: segments grow with the log.
const BYTES_MIN: usize = 64 << 10;
/// The part of the log that a segment takes: what is unused of the last one is half of that on average. A node that has
/// many partitions could not fill nine tenths of its memory with much more.
const OPEN_SHARE: usize = 32;
/// The size of a segment of a large log.
const BYTES_MAX: usize = 1 << 20;
/// The part of the limit that a segment may take at most.
const SEGMENTS_MIN: u64 = 64;
/// A record that is longer than this part of a segment gets one of its own, ...
const RECORD_SHARE: usize = 8;
/// ... unless it is shorter than this: segments have whole pages, and half of one would be much of it.
const ALONE_MIN: usize = 64 << 10;
/// Of records that are shorter than this part of a segment, the end that none fits into does not count.
const SHORT_SHARE: usize = 32;
/// Of fewer, half a record at the end would be much.
const FEW_RECORDS: usize = 4;
/// A log of fewer of the largest segments has one end: the unused part of a second would be too much of
/// it.
const TWO_ENDS_SEGMENTS: usize = 32;

const _: () = assert!(BYTES_MAX <= Address::OFFSET_END);

/// Memory to keep back for a cleaner: what it moves needs no more before a segment is free.
pub(crate) fn kept_back_bytes(limit_bytes: u64) -> u64 {
    2 * Sizes::within(limit_bytes).bytes_max as u64
}

/// What the smallest segments take that `len` bytes of records are moved to, if each leaves room for `mean_len` bytes twice; or for a
/// part of it, of few records.
pub(super) fn bytes_to_move(len: usize, mean_len: usize) -> usize {
    let used = BYTES_MIN - (2 * mean_len).min(BYTES_MIN / FEW_RECORDS);
    len.div_ceil(used) * BYTES_MIN
}

/// The sizes of the segments of a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Of a large log: a power of two.
    bytes_max: usize,
}

impl Sizes {
    /// Those within `limit_bytes` of memory.
    pub(super) fn within(limit_bytes: u64) -> Sizes {
        let share = usize::try_from(limit_bytes / SEGMENTS_MIN).unwrap_or(usize::MAX);
        let power = share.max(1).ilog2();
        Sizes { bytes_max: (1 << power.min(BYTES_MAX.ilog2())).max(BYTES_MIN) }
    }

    /// What the largest segment takes.
    pub(super) fn bytes_max(self) -> usize {
        self.bytes_max
    }

    /// Whether what is moved goes to segments of its own in a log of `footprint` bytes.
    pub(super) fn has_two_ends(self, footprint: usize) -> bool {
        footprint >= TWO_ENDS_SEGMENTS * self.bytes_max
    }

    /// Whether a record of `len` bytes goes to a segment with others, in a log of `footprint` bytes.
    #[inline]
    pub(super) fn is_shared(self, footprint: usize, len: usize) -> bool {
        len <= ALONE_MIN || len <= self.suits_log(footprint) / RECORD_SHARE
    }

    /// The segments to try for, best first, that begin with a record of `len` bytes in a log of `footprint` bytes: as large as
    /// suits both, or smaller, where the limit has no room for that but for less.
    pub(super) fn for_record(self, footprint: usize, len: usize) -> impl Iterator<Item = usize> {
        self.at_most(self.suits_log(footprint).max(RECORD_SHARE * len), footprint, len)
    }

    /// The same, but no larger than has room for a few such records, and at last for the record alone.
    pub(super) fn for_few_records(
        self,
        footprint: usize,
        len: usize,
    ) -> impl Iterator<Item = usize> {
        let few =
            self.at_most((FEW_RECORDS * len).next_power_of_two().max(BYTES_MIN), footprint, len);
        few.chain(std::iter::once(Appender::block_len(len).next_multiple_of(PAGE_BYTES)))
    }

    /// About `wanted` bytes, then half of that and so on; or what a record of `len` bytes takes that lies alone.
    fn at_most(self, wanted: usize, footprint: usize, len: usize) -> impl Iterator<Item = usize> {
        let alone = Appender::block_len(len).next_multiple_of(PAGE_BYTES);
        let wanted = match self.is_shared(footprint, len) {
            true => wanted.min(self.bytes_max).max(alone),
            false => alone,
        };
        let smaller =
            move |&bytes: &usize| (bytes / 2 >= alone.max(BYTES_MIN)).then_some(bytes / 2);
        std::iter::successors(Some(wanted), smaller).map(move |bytes| {
            if len <= bytes / SHORT_SHARE { bytes } else { self.of_whole_records(bytes, len) }
        })
    }

    fn suits_log(self, footprint: usize) -> usize {
        (footprint / OPEN_SHARE).next_power_of_two().clamp(BYTES_MIN, self.bytes_max)
    }

    /// About `bytes`, so that as little as possible is left behind records of `len` bytes.
    fn of_whole_records(self, bytes: usize, len: usize) -> usize {
        let block = |count: usize| Appender::block_len(count * len).next_multiple_of(PAGE_BYTES);
        let about = bytes / len;
        let counts = (about * 2 / 3).max(1)..=about * 3 / 2;
        let counts = counts.filter(|&count| block(count) <= self.bytes_max);
        // By how much memory a record has: the blocks crosswise.
        let best = counts.min_by_key(|&count| block(count) * 1024 / count);
        best.map_or(bytes, block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn few_records_take_little() {
        let sizes = Sizes::within(48 << 20);
        let first = |len| sizes.for_few_records(12 * MIB, len).next().unwrap();
        assert_eq!(first(100), BYTES_MIN);
        assert!((4 * 33_000..8 * 33_000).contains(&first(33_000)));
        assert!((70_000..80_000).contains(&first(70_000)), "which lies alone");
    }

    fn first(sizes: Sizes, footprint: usize, len: usize) -> usize {
        sizes.for_record(footprint, len).next().unwrap()
    }

    #[test]
    fn segments_grow_with_the_log_and_the_limit() {
        let large = Sizes::within(8 << 30);
        assert_eq!(first(large, 0, 100), BYTES_MIN);
        assert_eq!(first(large, 8 * MIB, 100), 256 << 10);
        assert_eq!(first(large, 1000 * MIB, 100), BYTES_MAX);
        assert_eq!(first(Sizes::within(48 << 20), 1000 * MIB, 100), 512 << 10);
    }

    /// Whatever length they have: a twentieth, where a segment has room for enough of them to choose from.
    #[test]
    fn records_of_one_length_leave_little() {
        for sizes in [48 << 20, 224 << 20, 8 << 30].map(Sizes::within) {
            for footprint in [700 << 10, 3 * MIB, 100 * MIB] {
                for len in
                    (0..400).map(|step| 64 + step * 999 / 8 * 8).filter(|len| *len < ALONE_MIN)
                {
                    let bytes = first(sizes, footprint, len);
                    let count = (1..).take_while(|n| Appender::block_len(n * len) <= bytes).count();
                    let left = bytes - count * len;
                    assert!(left * 20 <= bytes, "{left} of {bytes} with records of {len}");
                }
            }
        }
    }

    #[test]
    fn a_record_always_fits() {
        for sizes in [4 << 20, 48 << 20, 8 << 30].map(Sizes::within) {
            for footprint in [0, 3 * MIB, 100 * MIB] {
                for len in (0..300).map(|step| 64 + step * 7_001 / 8 * 8) {
                    for bytes in sizes.for_record(footprint, len) {
                        assert!(Appender::block_len(len) <= bytes && bytes % PAGE_BYTES == 0);
                    }
                }
            }
        }
    }

    /// Where there is no room for a large segment, there may be for a small one, and always for the record alone.
    #[test]
    fn the_last_that_is_tried_is_small() {
        let sizes = Sizes::within(8 << 30);
        for len in [100, 20_000, 60_000] {
            let tried: Vec<_> = sizes.for_record(100 * MIB, len).collect();
            assert!(tried.is_sorted_by(|one, other| one >= other), "{tried:?}");
            assert!(*tried.last().unwrap() < 3 * BYTES_MIN, "{tried:?}");
        }
    }
}
