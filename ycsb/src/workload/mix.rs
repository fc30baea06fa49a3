//! The proportions of the operations.

use rand::RngExt as _;

use crate::generator::Random;
use crate::properties::{Properties, UsageError};

/// What a requester does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// The transactions of a run, each with the share of those up to and with it.
#[derive(Clone, Debug)]
pub(crate) struct Mix(Vec<(f64, Transaction)>);

impl Mix {
    pub(crate) fn from_properties(properties: &Properties) -> Result<Mix, UsageError> {
        let proportions = [
            (properties.number("readproportion")?, Transaction::Read),
            (properties.number("updateproportion")?, Transaction::Update),
            (properties.number("insertproportion")?, Transaction::Insert),
            (properties.number("scanproportion")?, Transaction::Scan),
            (properties.number("readmodifywriteproportion")?, Transaction::ReadModifyWrite),
        ];
        Mix::new(&proportions).ok_or_else(|| UsageError::Conflict {
            what: "all proportions of operations are 0".to_owned(),
            advice: "set readproportion, updateproportion, insertproportion, \
                     scanproportion or readmodifywriteproportion above 0",
        })
    }

    /// Proportions need not add up to 1: what counts is how they relate. `None` if none is above 0.
    fn new(proportions: &[(f64, Transaction)]) -> Option<Mix> {
        let sum: f64 = proportions.iter().map(|&(proportion, _)| proportion).sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return None;
        }
        let mut up_to = 0.0;
        let occurring = proportions.iter().filter(|&&(proportion, _)| proportion > 0.0);
        let shares = occurring.map(|&(proportion, transaction)| {
            up_to += proportion / sum;
            (up_to, transaction)
        });
        Some(Mix(shares.collect()))
    }

    pub(crate) fn choose(&self, random: &mut Random) -> Transaction {
        let (last, others) = self.0.split_last().expect("a mix has at least one transaction");
        if others.is_empty() {
            return last.1;
        }
        let drawn: f64 = random.random();
        others.iter().find(|(up_to, _)| drawn < *up_to).unwrap_or(last).1
    }

    /// The share of `transaction` among all.
    pub(crate) fn share(&self, transaction: Transaction) -> f64 {
        let mut before = 0.0;
        for &(up_to, candidate) in &self.0 {
            if candidate == transaction {
                return up_to - before;
            }
            before = up_to;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn transactions_come_in_their_proportions() {
        let proportions = [
            (5.0, Transaction::Read),
            (0.0, Transaction::Update),
            (3.0, Transaction::Insert),
            (2.0, Transaction::ReadModifyWrite),
        ];
        let mix = Mix::new(&proportions).unwrap();
        let mut random = Random::seed_from_u64(4);
        let mut counts = [0; 5];
        (0..100_000).for_each(|_| counts[mix.choose(&mut random) as usize] += 1);
        for (proportion, transaction) in proportions {
            let drawn = f64::from(counts[transaction as usize]) / 100_000.0;
            assert!((drawn - proportion / 10.0).abs() < 0.01, "{transaction:?}: {drawn}");
            assert!((mix.share(transaction) - proportion / 10.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_mix_needs_an_transaction() {
        assert!(Mix::new(&[(0.0, Transaction::Read)]).is_none());
        assert!(Mix::new(&[(f64::INFINITY, Transaction::Read)]).is_none());
    }
}
