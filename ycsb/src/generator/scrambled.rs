//! Zipfian requests whose popular records lie scattered over the whole key space, as YCSB's
//! `ScrambledZipfianGenerator`: a rank is drawn among 10^10 items and hashed onto the records.

use super::{Random, Zipfian};
use crate::fnv::fnv64;

/// The largest rank drawn; upstream counts it in, so there are `RANK_MAX + 1` items.
const RANK_MAX: u64 = 10_000_000_000;

/// `zeta(10^10, 0.99)`, as upstream has it: results compare only if both use the same figure.
const DEFAULT_ZETA: f64 = 26.469_028_201_783_02;

/// Numbers from `low` on, `count` of them.
#[derive(Clone, Debug)]
pub(crate) struct Scrambled {
    low: u64,
    count: u64,
    ranks: Zipfian,
}

impl Scrambled {
    /// `count` must not be 0.
    pub(crate) fn new(low: u64, count: u64, theta: f64) -> Scrambled {
        assert!(count > 0, "a key space has at least one key");
        let ranks = if theta == Zipfian::DEFAULT_THETA {
            Zipfian::with_zeta(RANK_MAX + 1, theta, DEFAULT_ZETA)
        } else {
            Zipfian::new(RANK_MAX + 1, theta)
        };
        Scrambled { low, count, ranks }
    }

    pub(crate) fn sample(&self, random: &mut Random) -> u64 {
        self.scatter(self.ranks.sample(random))
    }

    fn scatter(&self, rank: u64) -> u64 {
        self.low + fnv64(rank) % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::super::zipfian::zeta;
    use super::*;

    /// Upstream's constant was added up over 10^10 terms, with what rounding that costs.
    #[test]
    fn the_constant_is_the_zeta_of_the_items() {
        let error = (zeta(RANK_MAX, Zipfian::DEFAULT_THETA) - DEFAULT_ZETA).abs();
        assert!(error < 1e-7, "off by {error:e}");
    }

    #[test]
    fn ranks_agree_with_upstream() {
        let scrambled = Scrambled::new(0, 1_000, 0.99);
        for (u, rank) in [
            (0.01, 0),
            (0.05, 1),
            (0.13, 13),
            (0.2, 83),
            (0.3, 1_038),
            (0.5, 134_552),
            (0.75, 42_924_421),
            (0.9, 1_170_869_537),
        ] {
            assert_eq!(scrambled.ranks.rank(u), rank, "at u = {u}");
        }
    }

    #[test]
    fn popular_records_are_scattered() {
        let scrambled = Scrambled::new(500, 1_000, 0.99);
        assert_eq!(scrambled.scatter(0), 500 + 6_284_781_860_667_377_211 % 1_000);
        assert_eq!(scrambled.scatter(1), 500 + 8_517_097_267_634_966_620 % 1_000);
    }
}
