//! Small numbers in place of identifiers of any size.

use std::collections::HashMap;

use super::parts::{PARTS, part_of};
use crate::error::JobError;

/// Gives identifiers numbers from 0 on, as they come.
#[derive(Debug)]
pub(super) struct Dictionary {
    /// The tables of the [parts](super::parts): who asks part by part has each of them in the cache.
    numbers: Vec<HashMap<u64, u32, foldhash::fast::RandomState>>,
    identifiers: Vec<u64>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Dictionary { numbers: vec![HashMap::default(); PARTS], identifiers: Vec::new() }
    }
}

impl Dictionary {
    /// The number of an identifier: the next one, if it has none yet.
    ///
    /// # Errors
    /// There are no more.
    // A part of the loop that asks for many, so that the processor looks for several at a time.
    #[inline(always)]
    pub(super) fn number(&mut self, identifier: u64) -> Result<u32, JobError> {
        match self.numbers[part_of(identifier)].get(&identifier) {
            Some(number) => Ok(*number),
            None => self.add(identifier),
        }
    }

    #[cold]
    fn add(&mut self, identifier: u64) -> Result<u32, JobError> {
        let next = self.identifiers.len();
        let number = u32::try_from(next).map_err(|_| too_many(next as u64 + 1))?;
        self.numbers[part_of(identifier)].insert(identifier, number);
        self.identifiers.push(identifier);
        Ok(number)
    }

    /// The number of an identifier, if it has one.
    pub(super) fn get(&self, identifier: u64) -> Option<u32> {
        self.numbers[part_of(identifier)].get(&identifier).copied()
    }

    /// Those that have numbers, in the order of these.
    pub(super) fn identifiers(&self) -> &[u64] {
        &self.identifiers
    }
}

/// The error of so many vertices.
#[cold]
pub(crate) fn too_many(vertices: u64) -> JobError {
    JobError::Job(format!("{vertices} vertices, where 2^32 - 1 are the limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_in_the_order_in_which_identifiers_come() {
        let mut dictionary = Dictionary::default();
        let numbers =
            [7, u64::MAX, 7, 0, u64::MAX].map(|identifier| dictionary.number(identifier).unwrap());
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        assert_eq!(dictionary.identifiers(), [7, u64::MAX, 0]);
        assert_eq!((dictionary.get(0), dictionary.get(1)), (Some(2), None));
    }
}
