//! Every number of a range with the same chance.

use rand::distr::Distribution as _;

use super::Random;

/// Numbers from `low` to `high`, both included.
#[derive(Clone, Debug)]
pub(crate) struct Uniform(rand::distr::Uniform<u64>);

impl Uniform {
    /// `low` must not be above `high`.
    pub(crate) fn new(low: u64, high: u64) -> Uniform {
        let range = rand::distr::Uniform::new_inclusive(low, high);
        Uniform(range.expect("the caller gives a range that is not empty"))
    }

    pub(crate) fn sample(&self, random: &mut Random) -> u64 {
        self.0.sample(random)
    }
}
