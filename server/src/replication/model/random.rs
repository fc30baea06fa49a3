//! The one source of chance of a world: splitmix64 (Steele, Lea and Flood, 2014), which is all that a model needs.

/// A seeded stream of numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// From `low` to `high`, both included.
    pub(super) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// One in `count` times.
    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }

    /// So many times in a thousand.
    pub(super) fn permille(&mut self, times: u64) -> bool {
        self.next() % 1000 < times
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        (self.next() % len as u64) as usize
    }
}
