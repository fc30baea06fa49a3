//! Small numbers in place of identifiers.

use weft_object::{Pair, Wire};

use super::bitmap::Bitmap;
use super::dictionary::Dictionary;
use super::parts::{PARTS, Part, identifier_at, part_of, place_of};
use super::rows::Rows;
use crate::budget::{Budget, Required};
use crate::error::JobError;
use crate::spill::Spilling;

/// How many times as many identifiers there could be as records have come, for tables that have a place for each that there could be.
const SPARSENESS_MAX: u64 = 8;

/// For how few identifiers nobody looks at that.
const FEW: u64 = 1 << 16;

/// Bytes of an identifier and of where its row begins.
const IDENTIFIER_BYTES: u64 = 16;

/// Bytes of an entry of a [dictionary](Dictionary) at most: a table has twice as many places as there are entries before it grows, and each has 17 bytes; and the identifier once more.
const ENTRY_BYTES: u64 = 48;

/// What vertices are named by.
pub(super) trait Identifier: Wire + Ord + Default + Into<u64> {}

impl Identifier for u32 {}
impl Identifier for Wide {}

/// An identifier of 64 bits: its halves, the higher one first, so that it takes twelve bytes with a number beside it.
#[derive(Wire, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(super) struct Wide {
    high: u32,
    low: u32,
}

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
    /// For index and identifiers, and where rows begin.
    pub(super) required: Vec<Required>,
}

/// The largest identifier, if identifiers with such a one are dense when `count` numbers of them came.
pub(super) fn last_of_dense(largest: u64, count: usize) -> Option<u32> {
    let limit = (count as u64).saturating_mul(SPARSENESS_MAX).max(FEW);
    u32::try_from(largest).ok().filter(|last| u64::from(*last) < limit)
}

impl From<u64> for Wide {
    #[inline(always)]
    fn from(identifier: u64) -> Wide {
        Wide { high: (identifier >> 32) as u32, low: identifier as u32 }
    }
}

impl From<Wide> for u64 {
    #[inline(always)]
    fn from(Wide { high, low }: Wide) -> u64 {
        u64::from(high) << 32 | u64::from(low)
    }
}

impl<V: Wire + Default> Grouped<V> {
    /// Of all parts, in order, where no identifier is larger than `last` if they are dense; `keep` says how many of a row stay, which it may put in order.
    ///
    /// # Errors
    /// There are more identifiers than indices; or memory has no room for them, or the disk none for the rows.
    pub(super) fn of<I: Identifier>(
        parts: impl Iterator<Item = Result<Part<Pair<I, V>>, JobError>>,
        last: Option<u32>,
        mut keep: impl FnMut(&mut [V]) -> usize,
        spilling: &Spilling,
    ) -> Result<Grouped<V>, JobError> {
        let mut rows = Rows::with_capacity(spilling, 0, 0);
        let (budget, mut required) = (&spilling.budget, Vec::new());
        let Some(last) = last else {
            let (mut dictionary, mut entries) = (Dictionary::default(), Vec::new());
            for part in parts {
                let part = part?;
                let first = dictionary.identifiers().len();
                entries.clear();
                for Pair { key, value } in part.records() {
                    entries.push((dictionary.number(key.into())? - first as u32, value));
                }
                let _entries = budget.require(size_of_val(&entries[..]) as u64)?;
                let count = dictionary.identifiers().len() - first;
                required.push(budget.require(count as u64 * (IDENTIFIER_BYTES + ENTRY_BYTES))?);
                rows.append_entries(count, entries.iter().copied(), &mut keep, |_| {})?;
            }
            let identifiers = dictionary.identifiers().to_vec();
            let (index, rows) = (Index::Sparse(dictionary), rows.finish()?);
            return Ok(Grouped { index, identifiers, rows, required });
        };
        required.push(DenseIndex::require(last, budget)?);
        let (mut index, mut identifiers) = (DenseIndex::up_to(last), Vec::new());
        for (at, part) in parts.enumerate() {
            let (part, before) = (part?, identifiers.len());
            let entries = part.records().map(|Pair { key, value }| {
                let identifier: u64 = key.into();
                (place_of(identifier) as u32, value)
            });
            rows.append_entries(index.places as usize, entries, &mut keep, |place| {
                index.insert(at, place as u32);
                identifiers.push(identifier_at(at, place as u64));
            })?;
            let count = identifiers.len() - before;
            required.push(budget.require(count as u64 * IDENTIFIER_BYTES)?);
        }
        Ok(Grouped { index: index.count(), identifiers, rows: rows.finish()?, required })
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

    /// What it takes.
    fn require(last: u32, budget: &Budget) -> Result<Required, JobError> {
        let places = place_of(last.into()) + 1;
        budget.require(Bitmap::bytes_of(places * PARTS as u64))
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
