//! One value a number, of a range that memory has no room for an array of: one window of the range after the other.
//!
//! What belongs to the first window is combined in an array. What belongs behind it waits, in up to 16 parts of the range, in memory and behind that in files. When the window's values have been given, each part is a range of its own, with a
//! window of its own: so numbers come in order, and a pair goes to a file once for each power of 16 by which the range is longer than a window.

use std::ops::Range;

use weft_object::{Pair, Wire};

use crate::budget::{Budget, Taken};
use crate::error::JobError;
use crate::index_table::IndexTable;
use crate::spill::Spilling;
use crate::spool::Spool;

/// Into how many parts of the range pairs are divided that wait.
const PARTS: u64 = 16;

/// The least that a window takes where the budget has nothing left.
const WINDOW_BYTES_MIN: u64 = 256 << 10;

/// Takes pairs of a range of numbers, and gives one for each number, in order.
pub(super) struct Windows<V, F> {
    spilling: Spilling,
    combine: F,
    limit_bytes: u64,
    range: Range<u64>,
    window: IndexTable<V>,
    /// For the window.
    taken: Taken,
    /// How many numbers each part has.
    part_len: u64,
    parts: Vec<Spool<Pair<u64, V>>>,
}

impl<V: Wire + Default, F: Fn(V, V) -> V + Copy> Windows<V, F> {
    /// One whose window takes at most so many bytes.
    pub(super) fn new(
        spilling: Spilling,
        limit_bytes: u64,
        range: Range<u64>,
        combine: F,
    ) -> Windows<V, F> {
        let len = range.end - range.start;
        let bytes = limit_bytes.min(IndexTable::<V>::bytes(len));
        let taken = take(&spilling.budget, bytes);
        let window_len = len.min(IndexTable::<V>::len_in(taken.bytes()));
        let behind = len - window_len;
        let part_len = behind.div_ceil(PARTS).max(window_len).max(1);
        let parts = Spool::several(&spilling, behind.div_ceil(part_len) as usize);
        let window = IndexTable::new(range.start..range.start + window_len);
        Windows { spilling, combine, limit_bytes, range, window, taken, part_len, parts }
    }

    /// Adds a value to what its number has; false if that is not in the range.
    #[inline]
    pub(super) fn add(&mut self, pair: Pair<u64, V>) -> Result<bool, JobError> {
        if self.window.add(pair.key, pair.value, self.combine) {
            return Ok(true);
        }
        let behind = pair.key.wrapping_sub(self.window.range().end) / self.part_len;
        match self.parts.get_mut(behind as usize) {
            Some(part) if self.range.contains(&pair.key) => part.push(pair).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Gives one pair for each number that has any.
    pub(super) fn finish(
        self,
        sink: &mut impl FnMut(Pair<u64, V>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let Windows { spilling, combine, limit_bytes, range, window, taken, part_len, parts } =
            self;
        let mut start = window.range().end;
        window.entries(window.range()).try_for_each(&mut *sink)?;
        drop((window, taken));
        for part in parts {
            let end = range.end.min(start.saturating_add(part_len));
            if !part.is_empty() {
                let mut windows = Windows::new(spilling.clone(), limit_bytes, start..end, combine);
                part.drain(|pair| windows.add(pair).map(drop))?;
                windows.finish(sink)?;
            }
            start = end;
        }
        Ok(())
    }
}

/// So many bytes, or what is left of them when they are halved often enough.
fn take(budget: &Budget, mut bytes: u64) -> Taken {
    while bytes > WINDOW_BYTES_MIN {
        if let Some(taken) = budget.take(bytes) {
            return taken;
        }
        bytes /= 2;
    }
    budget.take_anyway(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weft_object::Types;
    use weft_transport::{Memory, MemoryConfig};

    use super::*;

    /// A value of which a window of the least size has room for a thousand.
    type Long = [u64; 32];

    fn sum(one: Long, other: Long) -> Long {
        std::array::from_fn(|at| one[at] + other[at])
    }

    /// Sums up as many values of numbers of the range, in no order, where a window may take so many bytes. Returns how many bytes were spilled.
    fn check(range: Range<u64>, pairs: u64, limit_bytes: u64, budget_bytes: u64) -> u64 {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let budget = Budget::new(memory.clone(), memory.account().resident_bytes + budget_bytes);
        let types = Types::new().with::<Pair<u64, Long>>();
        let spilling = Spilling::new("/tmp".into(), memory, types, budget);
        let mut windows = Windows::new(spilling.clone(), limit_bytes, range.clone(), sum);
        let mut expected = BTreeMap::new();
        for number in 0..pairs {
            let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (range.end - range.start);
            let (key, mut value) = (range.start + key, [0; 32]);
            value[31] = number + 1;
            assert!(windows.add(Pair { key, value }).unwrap());
            *expected.entry(key).or_insert(0) += number + 1;
        }
        for key in [range.start.wrapping_sub(1), range.end, range.end + 1, u64::MAX] {
            assert!(!windows.add(Pair { key, value: [0; 32] }).unwrap(), "{key}");
        }
        let mut expected = expected.into_iter();
        let mut sink = |Pair { key, value }: Pair<u64, Long>| {
            assert_eq!(expected.next(), Some((key, value[31])));
            Ok(())
        };
        windows.finish(&mut sink).unwrap();
        assert_eq!(expected.next(), None);
        spilling.bytes_spilled()
    }

    #[test]
    fn numbers_come_in_order_with_their_values_whether_a_window_has_all_or_not() {
        let limit_bytes = 256 << 10;
        for (range, pairs) in
            [(7..7_u64, 0), (7..8, 3), (100..900, 2_000), (5..3_000, 5_000), (5..20_000, 20_000)]
        {
            let is_one_window = range.end - range.start < 1_000;
            let spilled = check(range, pairs, limit_bytes, 0);
            assert!(!is_one_window || spilled == 0, "{spilled}");
        }
        // A part is longer than a window: it is divided again.
        let spilled = check(5..300_000, 400_000, limit_bytes, 0);
        assert!(spilled > 400_000 * 264 * 5 / 4, "{spilled}: many pairs more than once");
        let spilled = check(5..300_000, 400_000, limit_bytes, 1 << 30);
        assert_eq!(spilled, 0, "what waits has room");
    }

    #[test]
    fn a_range_of_all_numbers_there_are_is_no_longer_than_what_is_in_it() {
        check(0..u64::MAX - 1, 100, 256 << 10, 0);
    }
}
