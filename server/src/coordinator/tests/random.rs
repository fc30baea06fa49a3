//! Draws that a seed decides.

/// Steele, Lea and Flood's splittable generator: small, and the same everywhere.
#[derive(Debug, Clone)]
pub(in crate::coordinator) struct Random(pub(in crate::coordinator) u64);

impl Random {
    pub(in crate::coordinator) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(in crate::coordinator) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(in crate::coordinator) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
