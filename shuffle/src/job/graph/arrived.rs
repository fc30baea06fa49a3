//! What has come of the edges that begin at a worker's vertices.
//!
//! Edges are put into [parts](super::parts) by where they begin as they come, and each part into rows in the end, of which nothing is there twice: so it is known how many edges begin
//! at each vertex, and with it the order of the vertices. In that order edges are put into parts once more, by where they lead, and each part into rows. No step looks
//! for anything, edge by edge, in more memory than a cache has room for.

use super::Edge;
use super::dictionary::too_many;
use super::index::{Grouped, Identifier, Index, Wide, last_of_dense};
use super::numbering::Numbering;
use super::parts::{Parts, part_of};
use super::rows::{Rows, TOGETHER, make_distinct};
use crate::error::JobError;
use crate::exchange::SizedEdge;

/// Edges, as they have come, by their sources.
#[derive(Default)]
pub(super) struct Arrived {
    /// Those of two numbers of 32 bits, as those of most inputs are.
    narrow: Parts<(u32, u32)>,
    /// The largest of these numbers.
    largest: u32,
    /// All others.
    wide: Parts<(Wide, Wide)>,
}

/// What edges that have come are made of.
pub(super) struct Numbered {
    /// Vertices at which edges begin.
    pub(super) sources: Index,
    /// Their order.
    pub(super) numbering: Numbering,
    /// Identifiers of what edges lead to.
    pub(super) ends: Vec<u64>,
    /// For each of these, the places of the sources, once each, and in ascending order.
    pub(super) rows: Rows,
}

impl Arrived {
    /// Takes one more.
    #[inline(always)]
    pub(super) fn add(&mut self, edge: SizedEdge) {
        match edge {
            SizedEdge::Narrow([source, target]) => {
                self.largest = self.largest.max(source).max(target);
                self.narrow.push(part_of(source.into()), (source, target));
            }
            SizedEdge::Wide(Edge { key, value }) => {
                self.wide.push(part_of(key), (key.into(), value.into()));
            }
        }
    }

    /// Puts them in order.
    ///
    /// # Errors
    /// There are more vertices than numbers.
    pub(super) fn finish(self) -> Result<Numbered, JobError> {
        let Arrived { narrow, largest, wide } = self;
        if wide.is_empty() {
            let last = last_of_dense(largest.into(), narrow.len());
            return numbered(narrow.into_parts(), last);
        }
        let widened =
            |(source, target): (u32, u32)| (u64::from(source).into(), u64::from(target).into());
        let parts = narrow.into_parts().zip(wide.into_parts()).map(|(narrow, mut wide)| {
            wide.push(narrow.into_iter().flatten().map(widened).collect());
            wide
        });
        numbered(parts, None)
    }
}

/// Of the pieces of all parts, where no identifier is larger than `last` if they are dense.
fn numbered<I: Identifier>(
    parts: impl Iterator<Item = Vec<Vec<(I, I)>>>,
    last: Option<u32>,
) -> Result<Numbered, JobError> {
    let Grouped { index: sources, identifiers, rows } = Grouped::of(parts, last, make_distinct)?;
    let numbering = Numbering::by_degree(&identifiers, |vertex| rows.row(vertex).len() as u32);
    drop(identifiers);
    let mut by_target = Parts::default();
    let mut place = 0;
    for vertices in numbering.order().chunks(TOGETHER) {
        rows.touch(vertices);
        for vertex in vertices {
            for target in rows.row(*vertex as usize) {
                by_target.push(part_of((*target).into()), (*target, place));
            }
            place += 1;
        }
    }
    drop(rows);
    // They come in the order of their sources, and none twice.
    let ends = Grouped::of(by_target.into_parts(), last, |row: &mut [u32]| row.len())?;
    let Grouped { identifiers: ends, rows, .. } = ends;
    match u32::try_from(ends.len()) {
        Ok(_) => Ok(Numbered { sources, numbering, ends, rows }),
        Err(_) => Err(too_many(ends.len() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::parts::PIECE_LEN;
    use super::*;

    /// Whether edges with identifiers that `name` makes of numbers up to 3000 come to their targets once each, and whether indices are dense.
    fn are_numbered(name: impl Fn(u64) -> u64) -> bool {
        let mut expected: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut arrived = Arrived::default();
        let mut state = 1_u64;
        // Many of them several times, and more than a piece of one source.
        for step in 0..8 * PIECE_LEN as u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let source = if step % 4 == 0 { 7 } else { (state >> 40) % 301 };
            let (key, value) = (name(source), name((state >> 33) % 3001));
            arrived.add(SizedEdge::of(Edge { key, value }));
            expected.entry(value).or_default().insert(key);
        }
        let Numbered { sources, numbering, ends, rows } = arrived.finish().unwrap();
        let (identifiers, degrees) = (numbering.identifiers(), numbering.degrees());
        assert_eq!((rows.rows(), ends.len()), (expected.len(), expected.len()));
        for (row, end) in ends.iter().enumerate() {
            let found = rows.row(row);
            assert!(found.is_sorted_by(|one, other| one < other));
            let found: BTreeSet<u64> = found.iter().map(|at| identifiers[*at as usize]).collect();
            assert_eq!(found, expected[end]);
        }
        assert_eq!(degrees.len(), identifiers.len());
        for (index, source) in identifiers.iter().enumerate() {
            let degree = expected.values().filter(|sources| sources.contains(source)).count();
            assert_eq!(degrees[index] as usize, degree);
            let place = sources.get(*source).map(|at| numbering.places()[at as usize]);
            assert_eq!(place, Some(index as u32));
        }
        matches!(sources, Index::Dense { .. })
    }

    #[test]
    fn edges_come_to_their_targets_once_each_whatever_identifiers_are() {
        assert!(are_numbered(|number| number), "all that there are");
        assert!(are_numbered(|number| number * 80), "some of them");
        assert!(!are_numbered(|number| number << 20), "few, of 32 bits");
        assert!(!are_numbered(|number| number << (number % 50)), "of all sizes");
        assert!(!are_numbered(|number| u64::MAX - number), "the largest");
        assert!(!are_numbered(|number| if number == 7 { u64::MAX } else { number }), "but for one");
    }

    #[test]
    fn identifiers_are_dense_up_to_a_multiple_of_their_number() {
        let limit = |count| {
            let is_dense = |last: &u64| last_of_dense(*last, count).is_some();
            (0..40).map(|bit| 1 << bit).filter(is_dense).max()
        };
        assert_eq!(
            [0, 1, 8192, 8193, 1 << 20].map(limit),
            [15, 15, 15, 16, 22].map(|bit| Some(1 << bit))
        );
        assert_eq!(last_of_dense(u32::MAX.into(), usize::MAX), Some(u32::MAX));
        assert_eq!(last_of_dense(1 << 32, usize::MAX), None);
    }

    #[test]
    fn no_edges_are_made_into_no_rows() {
        let Numbered { sources, numbering, ends, rows } = Arrived::default().finish().unwrap();
        assert_eq!((numbering.order().len(), ends.len(), rows.rows()), (0, 0, 0));
        assert_eq!(sources.get(0), None);
    }
}
