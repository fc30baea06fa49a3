//! Small numbers in place of identifiers.

use super::bitmap::Bitmap;
use super::dictionary::Dictionary;
use super::parts::{PARTS, identifier_at, part_of, place_of};
use super::rows::Rows;
use crate::error::JobError;

/// How many times as many identifiers there could be as records have come, for tables that have a place for each that there could be.
const SPARSENESS_MAX: u64 = 8;

/// For how few identifiers nobody looks at that.
const FEW: u64 = 1 << 16;

/// What vertices are named by.
pub(super) trait Identifier: Copy + Ord + Default + Into<u64> {}

impl Identifier for u32 {}
impl Identifier for Wide {}

/// An identifier of 64 bits: its halves, the higher one first, so that it takes twelve bytes with a number beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wide([u32; 2]);

/// Gives identifiers an *index*, from 0 without holes, in the order of their [parts](super::parts).
#[derive(Debug)]
pub(super) enum Index {
    /// Of identifiers that leave few numbers out, as most inputs have them: a bit for each place of each part.
    Dense { places: u32, bitmap: Bitmap },
    /// Of any others, in the order in which they came within a part.
    Sparse(Dictionary),
}

/// Records by an identifier.
pub(super) struct Grouped<V> {
    pub(super) index: Index,
    /// The identifiers, by index.
    pub(super) identifiers: Vec<u64>,
    /// For each, what came with it.
    pub(super) rows: Rows<V>,
}

/// The largest identifier, if identifiers with such a one are dense when `count` numbers of them came.
pub(super) fn last_of_dense(largest: u64, count: usize) -> Option<u32> {
    let limit = (count as u64).saturating_mul(SPARSENESS_MAX).max(FEW);
    u32::try_from(largest).ok().filter(|last| u64::from(*last) < limit)
}

impl From<u64> for Wide {
    #[inline(always)]
    fn from(identifier: u64) -> Wide {
        Wide([(identifier >> 32) as u32, identifier as u32])
    }
}

impl From<Wide> for u64 {
    #[inline(always)]
    fn from(Wide([high, low]): Wide) -> u64 {
        u64::from(high) << 32 | u64::from(low)
    }
}

impl<V: Copy + Default> Grouped<V> {
    /// Of the pieces of all parts, in order, where no identifier is larger than `last` if they are dense; `keep` says how many of a row stay, which it may put in order.
    ///
    /// # Errors
    /// There are more identifiers than indices.
    pub(super) fn of<I: Identifier>(
        parts: impl Iterator<Item = Vec<Vec<(I, V)>>>,
        last: Option<u32>,
        keep: impl Fn(&mut [V]) -> usize,
    ) -> Result<Grouped<V>, JobError> {
        let mut rows = Rows::with_capacity(0, 0);
        let Some(last) = last else {
            let (mut dictionary, mut entries) = (Dictionary::default(), Vec::new());
            for pieces in parts {
                let first = dictionary.identifiers().len();
                entries.clear();
                for (identifier, value) in pieces.into_iter().flatten() {
                    entries.push((dictionary.number(identifier.into())? - first as u32, value));
                }
                let count = dictionary.identifiers().len() - first;
                rows.append_entries(count, entries.iter().copied(), &keep, |_| {});
            }
            let identifiers = dictionary.identifiers().to_vec();
            return Ok(Grouped { index: Index::Sparse(dictionary), identifiers, rows });
        };
        let (mut index, mut identifiers) = (DenseIndex::up_to(last), Vec::new());
        for (part, pieces) in parts.enumerate() {
            let entries = pieces.iter().flatten();
            let entries = entries.map(|(identifier, value)| {
                let identifier: u64 = (*identifier).into();
                (place_of(identifier) as u32, *value)
            });
            rows.append_entries(index.places as usize, entries, &keep, |place| {
                index.insert(part, place as u32);
                identifiers.push(identifier_at(part, place as u64));
            });
        }
        Ok(Grouped { index: index.count(), identifiers, rows })
    }
}

/// A dense index that is being made.
struct DenseIndex {
    places: u32,
    bitmap: Bitmap,
}

impl DenseIndex {
    fn up_to(last: u32) -> DenseIndex {
        let places = place_of(last.into()) as u32 + 1;
        DenseIndex { places, bitmap: Bitmap::up_to(places * (PARTS as u32 - 1) + (places - 1)) }
    }

    fn insert(&mut self, part: usize, place: u32) {
        self.bitmap.insert(part as u32 * self.places + place);
    }

    fn count(self) -> Index {
        let DenseIndex { places, mut bitmap } = self;
        bitmap.count();
        Index::Dense { places, bitmap }
    }
}

impl Index {
    /// Of identifiers that may occur several times, and are some of `count` that came.
    ///
    /// # Errors
    /// There are more than indices.
    pub(super) fn of(identifiers: &[u64], count: usize) -> Result<Index, JobError> {
        let largest = identifiers.iter().copied().max().unwrap_or(0);
        let Some(last) = last_of_dense(largest, count) else {
            let mut dictionary = Dictionary::default();
            identifiers
                .iter()
                .try_for_each(|identifier| dictionary.number(*identifier).map(drop))?;
            return Ok(Index::Sparse(dictionary));
        };
        let mut index = DenseIndex::up_to(last);
        for identifier in identifiers {
            index.insert(part_of(*identifier), place_of(*identifier) as u32);
        }
        Ok(index.count())
    }

    /// The index of an identifier, if it has one.
    #[inline]
    pub(super) fn get(&self, identifier: u64) -> Option<u32> {
        match self {
            Index::Dense { places, bitmap } => {
                let place = place_of(identifier);
                let is_there = place < u64::from(*places);
                is_there
                    .then(|| part_of(identifier) as u32 * places + place as u32)
                    .and_then(|bit| bitmap.rank(bit))
            }
            Index::Sparse(dictionary) => dictionary.get(identifier),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_identifier_has_an_index_of_its_own(
            identifiers in prop::collection::vec(0..1000_u64, 0..100),
            shift in 0..54_u32,
        ) {
            let mut identifiers: Vec<u64> =
                identifiers.into_iter().map(|number| number << shift).collect();
            let index = Index::of(&identifiers, identifiers.len()).unwrap();
            identifiers.sort_unstable();
            identifiers.dedup();
            let mut found: Vec<Option<u32>> =
                identifiers.iter().map(|identifier| index.get(*identifier)).collect();
            found.sort_unstable();
            prop_assert!(found.into_iter().eq((0..identifiers.len() as u32).map(Some)));
            for other in identifiers.iter().map(|identifier| identifier + 1) {
                prop_assert_eq!(index.get(other).is_some(), identifiers.contains(&other));
            }
            prop_assert_eq!(index.get(u64::MAX), None);
        }
    }
}
