//! What has come of the edges that begin at a worker's vertices.
//!
//! To find the number of an identifier is to look for it in a table that no cache has room for, twice for each edge, and waiting for memory would be half of what loading takes. So edges are
//! put in order first, roughly: by which part of a dictionary has their target, and then by which has their source. Each part fits into a core's cache while all that asks for it
//! is gone through, as in the radix joins of databases (Manegold, Boncz, Kersten, VLDB 2000). That a row's edges come together on the way saves another sort.

use super::Edge;
use super::dictionary::{Dictionary, part_of};
use super::parts::Parts;
use super::rows::Rows;
use crate::error::JobError;

/// Edges, as they have come.
#[derive(Default)]
pub(super) struct Arrived {
    by_target: Parts,
}

/// What edges that have come are made of.
pub(super) struct Numbered {
    /// Vertices at which edges begin.
    pub(super) sources: Dictionary,
    /// Identifiers of what edges lead to.
    pub(super) ends: Vec<u64>,
    /// For each source, which ends, in ascending order and once each.
    pub(super) rows: Rows,
}

impl Arrived {
    /// Takes one more.
    #[inline]
    pub(super) fn add(&mut self, edge: Edge) {
        self.by_target.push(part_of(edge.value), edge);
    }

    /// Gives numbers to sources and targets.
    ///
    /// # Errors
    /// There are more vertices than numbers.
    pub(super) fn finish(self) -> Result<Numbered, JobError> {
        let (mut ends, mut by_source) = (Dictionary::default(), Parts::default());
        let mut numbers = Vec::new();
        for part in self.by_target.into_parts() {
            part.each_batch(|edges| {
                numbers.clear();
                // Look-ups in a row, so that the processor has several on their way.
                for edge in edges {
                    numbers.push(ends.number(edge.value)?);
                }
                for (edge, number) in edges.iter().zip(&numbers) {
                    let edge = Edge { key: edge.key, value: u64::from(*number) };
                    by_source.push(part_of(edge.key), edge);
                }
                Ok::<_, JobError>(())
            })?;
        }
        let ends = ends.into_identifiers();

        let (mut sources, mut rows) = (Dictionary::default(), Rows::with_capacity(0, 0));
        for part in by_source.into_parts() {
            let first = sources.identifiers().len();
            let mut entries = Vec::with_capacity(part.len());
            part.each_batch(|edges| {
                for edge in edges {
                    let source = sources.number(edge.key)?;
                    entries.push([source - first as u32, edge.value as u32]);
                }
                Ok::<_, JobError>(())
            })?;
            rows.append(&Rows::of_entries(sources.identifiers().len() - first, entries));
        }
        Ok(Numbered { sources, ends, rows })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::dictionary::PARTS;
    use super::super::parts::PIECE_LEN;
    use super::*;

    #[test]
    fn edges_come_to_their_sources_once_each() {
        let mut expected: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut arrived = Arrived::default();
        let mut state = 1_u64;
        // More than a piece for each part, some of them several times, and identifiers of all sizes: few of 32 bits and more.
        for _ in 0..2 * PARTS * PIECE_LEN {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let name = |number: u64| (number % 3000) << (number % 50);
            let (key, value) = (name(state >> 40), name(state >> 33));
            arrived.add(Edge { key, value });
            expected.entry(key).or_default().insert(value);
        }
        let Numbered { sources, ends, rows } = arrived.finish().unwrap();
        assert_eq!((rows.rows(), sources.identifiers().len()), (expected.len(), expected.len()));
        for (row, source) in sources.identifiers().iter().enumerate() {
            let found = rows.row(row);
            assert!(found.is_sorted_by(|one, other| one < other));
            let found: BTreeSet<u64> = found.iter().map(|end| ends[*end as usize]).collect();
            assert_eq!(found, expected[source]);
            assert_eq!(sources.get(*source), Some(row as u32));
        }
    }
}
