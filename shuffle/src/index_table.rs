//! Values by number: an array, and a bit for each number that has a value.

use std::ops::Range;

use weft_object::Pair;

#[derive(Debug)]
pub(crate) struct IndexTable<V> {
    start: u64,
    values: Vec<V>,
    present: Vec<u64>,
}

impl<V: Copy + Default> IndexTable<V> {
    /// Bytes that one for so many numbers takes.
    pub(crate) fn bytes(len: u64) -> u64 {
        len.saturating_mul(size_of::<V>() as u64).saturating_add(len.div_ceil(64) * 8)
    }

    /// How many numbers one has that takes at most so many bytes; 64 in any case.
    pub(crate) fn len_in(bytes: u64) -> u64 {
        (bytes / Self::bytes(64) * 64).max(64)
    }

    /// No values, for the numbers of `range`.
    pub(crate) fn new(range: Range<u64>) -> Self {
        let len = (range.end - range.start) as usize;
        let (values, present) = (vec![V::default(); len], vec![0; len.div_ceil(64)]);
        Self { start: range.start, values, present }
    }

    /// Adds a value to what `key` has; false if `key` is not in the range.
    #[inline]
    pub(crate) fn add(&mut self, key: u64, value: V, combine: impl Fn(V, V) -> V) -> bool {
        // A key below the start wraps to one far beyond the end.
        let index = key.wrapping_sub(self.start) as usize;
        let Some(known) = self.values.get_mut(index) else { return false };
        let (word, bit) = (&mut self.present[index / 64], 1 << (index % 64));
        if *word & bit != 0 {
            *known = combine(*known, value);
        } else {
            *word |= bit;
            *known = value;
        }
        true
    }

    /// The numbers that it has room for.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + self.values.len() as u64
    }

    /// The keys of `range` that have values, in order.
    pub(crate) fn entries(&self, range: Range<u64>) -> impl Iterator<Item = Pair<u64, V>> {
        let first = (range.start - self.start) as usize;
        let last = (range.end - self.start) as usize;
        (first..last).filter_map(move |index| {
            let is_present = self.present[index / 64] >> (index % 64) & 1 != 0;
            is_present.then(|| Pair { key: self.start + index as u64, value: self.values[index] })
        })
    }

    /// How many these are; 64 keys at a time.
    pub(crate) fn count(&self, range: Range<u64>) -> usize {
        let below = |end: u64| {
            let end = (end - self.start) as usize;
            let whole: u32 = self.present[..end / 64].iter().map(|word| word.count_ones()).sum();
            let rest = self.present.get(end / 64).map_or(0, |word| word & ((1 << (end % 64)) - 1));
            (whole + rest.count_ones()) as usize
        };
        below(range.end) - below(range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_range_are_counted_wherever_it_begins_and_ends() {
        let mut table = IndexTable::new(100..500);
        (100..500).step_by(3).for_each(|key| assert!(table.add(key, 1_u64, |one, _| one)));
        for range in
            [100..500, 100..100, 500..500, 101..164, 163..165, 227..228, 228..356, 300..499]
        {
            assert_eq!(
                table.count(range.clone()),
                table.entries(range.clone()).count(),
                "{range:?}"
            );
        }
        assert_eq!(IndexTable::<u64>::new(5..5).count(5..5), 0);
    }

    #[test]
    fn what_a_table_takes_is_known_before_it_is_there() {
        for len in [0, 1, 64, 65, 1_000] {
            let table = IndexTable::<u64>::new(7..7 + len);
            let bytes = (table.values.len() + table.present.len()) as u64 * 8;
            assert_eq!(IndexTable::<u64>::bytes(len), bytes);
        }
        assert_eq!(IndexTable::<u64>::bytes(u64::MAX), u64::MAX);
        for bytes in [0_u64, 519, 520, 100_000] {
            let len = IndexTable::<u64>::len_in(bytes);
            assert!(IndexTable::<u64>::bytes(len) <= bytes.max(520), "{bytes}");
            assert!(IndexTable::<u64>::bytes(len + 64) > bytes, "{bytes}");
        }
    }

    #[test]
    fn values_are_combined_and_come_in_order() {
        let mut table = IndexTable::new(100..300);
        for (key, value) in [(299, 1), (100, 2), (164, 3), (100, 4)] {
            assert!(table.add(key, value, |a, b| a + b));
        }
        let entries: Vec<_> = table.entries(100..300).map(|pair| (pair.key, pair.value)).collect();
        assert_eq!(entries, [(100, 6), (164, 3), (299, 1)]);
        assert_eq!(table.entries(101..299).count(), 1);
    }

    #[test]
    fn foreign_keys_are_refused() {
        let mut table = IndexTable::new(100..300);
        for key in [0, 99, 300, u64::MAX] {
            assert!(!table.add(key, 1, |a, b| a + b));
        }
        assert!(!IndexTable::new(5..5).add(5, 1, |a, b| a + b));
    }
}
