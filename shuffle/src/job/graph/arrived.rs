//! What has come of the edges that begin at a worker's vertices.
//!
//! Edges are put into [parts](super::parts) by where they begin as they come, and each part into rows in the end: so it is known how many edges begin
//! at each vertex, and with it the order of the vertices. In that order edges are put into parts once more, by where they lead, and each part into rows, in which those that are there
//! several times are neighbours: nothing is sorted for that. No step looks for anything, edge by edge, in more memory than a cache has room for.

use weft_object::{Pair, Types};

use super::Edge;
use super::dictionary::too_many;
use super::index::{Grouped, Identifier, Index, Wide, last_of_dense};
use super::numbering::Numbering;
use super::parts::{Part, Parts, part_of};
use super::rows::{Rows, TOGETHER, make_distinct, without_repeats};
use crate::budget::Required;
use crate::error::JobError;
use crate::exchange::SizedEdge;
use crate::spill::Spilling;

/// Edges, as they have come, by their sources.
pub(super) struct Arrived {
    spilling: Spilling,
    /// Those of two numbers of 32 bits, as those of most inputs are.
    narrow: Parts<Pair<u32, u32>>,
    /// The largest of these numbers.
    largest: u32,
    /// All others, if there are any.
    wide: Option<Parts<Pair<Wide, Wide>>>,
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
    /// For sources and their order, and for the ends.
    pub(super) required: Vec<Required>,
}

impl Arrived {
    /// The types of records that files may have of them.
    pub(super) fn types(types: Types) -> Types {
        let types = types.with::<u32>().with::<Pair<u32, u32>>();
        types.with::<Wide>().with::<Pair<Wide, Wide>>().with::<Pair<Wide, u32>>()
    }

    /// None yet.
    ///
    /// # Errors
    /// There is too little memory to begin.
    pub(super) fn new(spilling: &Spilling) -> Result<Arrived, JobError> {
        let narrow = Parts::new(spilling)?;
        Ok(Arrived { spilling: spilling.clone(), narrow, largest: 0, wide: None })
    }

    /// Takes one more.
    #[inline(always)]
    pub(super) fn add(&mut self, edge: SizedEdge) -> Result<(), JobError> {
        match edge {
            SizedEdge::Narrow([source, target]) => {
                self.largest = self.largest.max(source).max(target);
                let edge = Pair { key: source, value: target };
                self.narrow.push(part_of(source.into()), edge)
            }
            SizedEdge::Wide(Edge { key, value }) => {
                let edge = Pair { key: key.into(), value: value.into() };
                match &mut self.wide {
                    Some(wide) => wide.push(part_of(key), edge),
                    None => self.add_first_wide(part_of(key), edge),
                }
            }
        }
    }

    #[cold]
    fn add_first_wide(&mut self, part: usize, edge: Pair<Wide, Wide>) -> Result<(), JobError> {
        let wide = Parts::new(&self.spilling)?;
        self.wide.insert(wide).push(part, edge)
    }

    /// Puts them in order.
    ///
    /// # Errors
    /// There are more vertices than numbers; or memory has no room for what is known of each, or the disk none for the edges.
    pub(super) fn finish(self) -> Result<Numbered, JobError> {
        let Arrived { spilling, narrow, largest, wide } = self;
        let Some(wide) = wide else {
            let last = last_of_dense(largest.into(), narrow.len());
            return numbered(narrow.into_parts(), last, &spilling);
        };
        let widened = |Pair { key, value }: Pair<u32, u32>| Pair {
            key: Wide::from(u64::from(key)),
            value: Wide::from(u64::from(value)),
        };
        let parts = narrow.into_parts().zip(wide.into_parts()).map(|(narrow, wide)| {
            let (narrow, mut wide) = (narrow?, wide?);
            wide.append(narrow.records().map(widened), &spilling.budget)?;
            Ok(wide)
        });
        numbered(parts, None, &spilling)
    }
}

/// How many edges of a vertex are looked at for those that are there several times before they are put into the order of the vertices: of any number, a degree would be too large.
const LONG_ROW: usize = if cfg!(test) { 1 << 12 } else { 1 << 24 };

/// Of all parts, where no identifier is larger than `last` if they are dense.
fn numbered<I: Identifier>(
    parts: impl Iterator<Item = Result<Part<Pair<I, I>>, JobError>>,
    last: Option<u32>,
    spilling: &Spilling,
) -> Result<Numbered, JobError> {
    let keep = |row: &mut [I]| if row.len() < LONG_ROW { row.len() } else { make_distinct(row) };
    let grouped = Grouped::of(parts, last, keep, spilling)?;
    let Grouped { index: sources, identifiers, mut rows, mut required } = grouped;
    let (kept, sorting) = Numbering::require(identifiers.len(), &spilling.budget)?;
    required.push(kept);
    rows.make_room()?;
    let mut numbering = Numbering::by_degree(&identifiers, |vertex| rows.len(vertex) as u32);
    drop((identifiers, sorting));

    let mut by_target = Parts::new(spilling)?;
    let are_in_order = rows.are_in_memory();
    if are_in_order {
        let mut place = 0;
        for vertices in numbering.order().chunks(TOGETHER) {
            rows.touch(vertices);
            for vertex in vertices {
                for target in rows.row(*vertex as usize) {
                    let entry = Pair { key: *target, value: place };
                    by_target.push(part_of((*target).into()), entry)?;
                }
                place += 1;
            }
        }
    } else {
        rows.for_each(0..rows.rows(), |vertex, targets| {
            let place = numbering.places()[vertex];
            targets.iter().try_for_each(|target| {
                let entry = Pair { key: *target, value: place };
                by_target.push(part_of((*target).into()), entry)
            })
        })?;
    }
    drop(rows);
    let keep = |row: &mut [u32]| {
        if !are_in_order {
            row.sort_unstable();
        }
        without_repeats(row, |place| numbering.count_once_less(place))
    };
    let grouped = Grouped::of(by_target.into_parts(), last, keep, spilling)?;
    let Grouped { identifiers: ends, rows, required: of_ends, .. } = grouped;
    required.extend(of_ends);
    match u32::try_from(ends.len()) {
        Ok(_) => Ok(Numbered { sources, numbering, ends, rows, required }),
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
        let [memory, file] = [64 << 20, 0].map(|room_bytes| {
            let spilling = Spilling::with_room(room_bytes, Arrived::types(Types::new()));
            let is_dense = are_numbered_with(&name, &spilling);
            assert_eq!(spilling.bytes_spilled() > 0, room_bytes == 0);
            is_dense
        });
        assert_eq!(memory, file);
        memory
    }

    fn are_numbered_with(name: impl Fn(u64) -> u64, spilling: &Spilling) -> bool {
        let mut expected: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut arrived = Arrived::new(spilling).unwrap();
        let mut state = 1_u64;
        // Many of them several times, and more than a piece of one source.
        for step in 0..16 * PIECE_LEN as u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let source = if step % 4 == 0 { 7 } else { (state >> 40) % 301 };
            let (key, value) = (name(source), name((state >> 33) % 3001));
            arrived.add(SizedEdge::of(Edge { key, value })).unwrap();
            expected.entry(value).or_default().insert(key);
        }
        let Numbered { sources, numbering, ends, rows, .. } = arrived.finish().unwrap();
        let (identifiers, degrees) = (numbering.identifiers(), numbering.degrees());
        assert_eq!((rows.rows(), ends.len()), (expected.len(), expected.len()));
        let all_rows = rows.for_each(0..rows.rows(), |row, found| {
            assert!(found.is_sorted_by(|one, other| one < other));
            let found: BTreeSet<u64> = found.iter().map(|at| identifiers[*at as usize]).collect();
            assert_eq!(found, expected[&ends[row]]);
            Ok(())
        });
        all_rows.unwrap();
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
        let spilling = Spilling::with_room(0, Arrived::types(Types::new()));
        let Numbered { sources, numbering, ends, rows, .. } =
            Arrived::new(&spilling).unwrap().finish().unwrap();
        assert_eq!((numbering.order().len(), ends.len(), rows.rows()), (0, 0, 0));
        assert_eq!(sources.get(0), None);
    }
}
