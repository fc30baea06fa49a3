//! The zipfian distribution: rank `k` of `n` is asked for in proportion to `1 / (k + 1)^theta`.
//!
//! Sampling is the closed form of Gray et al., "Quickly Generating Billion-Record Synthetic
//! Databases" (SIGMOD 1994), as YCSB has it: exact for the first two ranks, an approximation of
//! the inverse for the rest, one power a sample. It needs `zeta(n, theta)`, the sum that normalizes
//! the weights. YCSB adds it up term by term, minutes for 10^10 items; here the tail of the sum is
//! the Euler-Maclaurin formula, a few operations for any `n`, right to about 12 digits.

use rand::RngExt as _;

use super::Random;

/// Ranks from 0, the most popular, to `items - 1`.
#[derive(Clone, Debug)]
pub(crate) struct Zipfian {
    /// The number of items when this was made. `eta` stays with it when the range grows, as
    /// upstream's does, so that both draw the same ranks.
    items: u64,
    /// The number of items that `zeta` sums over now.
    counted: u64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    /// `0.5^theta`: the weight of rank 1, where that of rank 0 is 1.
    second: f64,
}

impl Zipfian {
    /// YCSB's `ZIPFIAN_CONSTANT`.
    pub(crate) const DEFAULT_THETA: f64 = 0.99;

    /// `theta` is positive and not 1.
    pub(crate) fn new(items: u64, theta: f64) -> Zipfian {
        Zipfian::with_zeta(items, theta, zeta(items, theta))
    }

    /// As [`Zipfian::new`], for a `zeta` that is already known.
    pub(crate) fn with_zeta(items: u64, theta: f64, zeta: f64) -> Zipfian {
        let second = 0.5_f64.powf(theta);
        Zipfian {
            items,
            counted: items,
            theta,
            alpha: 1.0 / (1.0 - theta),
            zeta,
            eta: eta(items, theta, zeta, second),
            second,
        }
    }

    /// Widens the range to `items`; a smaller number than before changes nothing.
    pub(crate) fn grow(&mut self, items: u64) {
        if items > self.counted {
            self.counted = items;
            self.zeta = zeta(items, self.theta);
            self.eta = eta(self.items, self.theta, self.zeta, self.second);
        }
    }

    pub(crate) fn sample(&self, random: &mut Random) -> u64 {
        self.rank(random.random())
    }

    /// The rank at `u`, `0 <= u < 1`, of the cumulated distribution.
    pub(crate) fn rank(&self, u: f64) -> u64 {
        let weight = u * self.zeta;
        if weight < 1.0 {
            return 0;
        }
        if weight < 1.0 + self.second {
            return 1;
        }
        let position = (self.eta * u - self.eta + 1.0).powf(self.alpha);
        // Rounding may carry a `u` next to 1 past the end.
        ((self.counted as f64 * position) as u64).min(self.counted - 1)
    }
}

fn eta(items: u64, theta: f64, zeta: f64, second: f64) -> f64 {
    (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - (1.0 + second) / zeta)
}

/// The sum of `1 / k^theta` for `k` from 1 to `n`; `theta` is positive and not 1.
pub(crate) fn zeta(n: u64, theta: f64) -> f64 {
    /// Terms added one by one, until the error of the formula for the rest is below rounding.
    const HEAD: u64 = 32;

    let head: f64 = (1..=n.min(HEAD)).map(|k| (k as f64).powf(-theta)).sum();
    if n <= HEAD {
        return head;
    }
    let (first, last) = (HEAD as f64, n as f64);
    let at_first = first.powf(-theta);
    let at_last = last.powf(-theta);
    let integral = (last * at_last - first * at_first) / (1.0 - theta);
    let ends = (at_last - at_first) / 2.0;
    let slope = theta / 12.0 * (at_first / first - at_last / last);
    let third = theta * (theta + 1.0) * (theta + 2.0) / 720.0
        * (at_first / first.powi(3) - at_last / last.powi(3));
    head + integral + ends + slope - third
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right-hand side was added up term by term, exactly rounded, in another language.
    #[test]
    fn zeta_agrees_with_the_plain_sum() {
        for (n, theta, sum) in [
            (1, 0.99, 1.0),
            (2, 0.99, 1.503_477_775_028_359_4),
            (16, 0.99, 3.419_667_047_327_584),
            (17, 0.99, 3.480_181_006_489_181),
            (1_000, 0.99, 7.728_953_217_284_738),
            (1_000_000, 0.99, 15.391_849_746_036_804),
            (1_000_000, 0.5, 1_998.540_145_491_148_7),
            (1_000_000, 1.2, 5.276_103_800_485_516),
            (100_000, 0.8, 45.562_511_584_037_765),
        ] {
            let error = (zeta(n, theta) - sum).abs() / sum;
            assert!(error < 1e-11, "zeta({n}, {theta}) is off by {error:e}");
        }
    }

    /// Rank by rank what a transcription of upstream's class in another language gives.
    #[test]
    fn ranks_agree_with_upstream() {
        let thousand = Zipfian::new(1_000, 0.99);
        let million = Zipfian::new(1_000_000, 0.99);
        let flat = Zipfian::new(1_000_000, 0.5);
        let steep = Zipfian::new(1_000_000, 1.2);
        for (u, expected) in [
            (0.0, [0, 0, 0, 0]),
            (0.05, [0, 0, 2_553, 0]),
            (0.13, [1, 3, 17_027, 0]),
            (0.2, [2, 9, 40_179, 1]),
            (0.3, [4, 44, 90_235, 2]),
            (0.5, [22, 860, 250_280, 11]),
            (0.75, [151, 31_220, 562_710, 218]),
            (0.9, [471, 253_526, 810_100, 6_267]),
            (0.99, [927, 872_507, 980_111, 444_981]),
            (0.999_999, [999, 999_986, 999_998, 999_912]),
        ] {
            let ranks = [&thousand, &million, &flat, &steep].map(|zipfian| zipfian.rank(u));
            assert_eq!(ranks, expected, "at u = {u}");
        }
    }

    #[test]
    fn tiny_ranges_stay_inside() {
        for items in 1..5 {
            let zipfian = Zipfian::new(items, 0.99);
            for step in 0..1_000 {
                assert!(zipfian.rank(f64::from(step) / 1_000.0) < items);
            }
            assert!(zipfian.rank(1.0 - f64::EPSILON / 2.0) < items);
        }
    }

    #[test]
    fn growing_reaches_the_new_items_and_shrinking_is_ignored() {
        let mut zipfian = Zipfian::new(1_000, 0.99);
        zipfian.grow(2_000);
        assert_eq!(zipfian.rank(1.0 - f64::EPSILON), 1_999);
        zipfian.grow(10);
        assert_eq!(zipfian.rank(1.0 - f64::EPSILON), 1_999);
        assert_eq!(zipfian.rank(0.0), 0);
    }
}
