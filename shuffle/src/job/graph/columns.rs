//! Edges by where they lead: compressed sparse columns.

use weft_object::Pair;

use super::cuts::Cuts;
use super::parts::Parts;
use super::rows::{Rows, TOGETHER};
use crate::error::JobError;
use crate::spill::Spilling;

/// The edges that a worker holds, of which each begins at a *source* that has a place there.
#[derive(Debug)]
pub(super) struct Columns {
    /// The numbers of all vertices that an edge here leads to, in ascending order.
    pub(super) targets: Vec<u32>,
    /// The sources of the edges to each of these.
    pub(super) sources: Rows,
}

/// Bytes that a column takes while columns are made, and afterwards: its number, where it begins, and meanwhile which row it was, and where that is to be.
pub(super) const COLUMN_BYTES: u64 = 12;
const COLUMN_BYTES_MADE: u64 = COLUMN_BYTES + 12;

/// In which order rows become columns: that of the numbers of their targets.
pub(super) struct ByNumber {
    /// The number of each, and which row it is, in as many bits.
    both: Vec<u64>,
}

impl ByNumber {
    /// Of rows with the sources of edges to vertices that have these numbers, once each. Those that occur twice are an error: it is one of them.
    pub(super) fn of(numbers: &[u32]) -> Result<ByNumber, u32> {
        let both = (0..).zip(numbers).map(|(row, number)| u64::from(*number) << 32 | row);
        let mut both: Vec<u64> = both.collect();
        both.sort_unstable();
        let twice = both.windows(2).find(|pair| pair[0] >> 32 == pair[1] >> 32);
        if let Some(pair) = twice {
            return Err((pair[0] >> 32) as u32);
        }
        Ok(ByNumber { both })
    }

    /// The rows, in order.
    fn rows(&self) -> impl Iterator<Item = u32> + Clone {
        self.both.iter().map(|both| *both as u32)
    }

    fn targets(&self) -> Vec<u32> {
        self.both.iter().map(|both| (both >> 32) as u32).collect()
    }
}

impl Columns {
    /// Of rows in such an order.
    ///
    /// # Errors
    /// Memory has no room for them, and nor has the disk.
    pub(super) fn of(
        by_number: &ByNumber,
        mut rows: Rows,
        spilling: &Spilling,
    ) -> Result<Columns, JobError> {
        let made_bytes = by_number.both.len() as u64 * COLUMN_BYTES_MADE;
        let _required = spilling.budget.require(made_bytes)?;
        rows.make_room()?;
        let targets = by_number.targets();
        if !rows.are_in_memory() {
            let lens = by_number.rows().map(|row| rows.len(row as usize));
            let mut places = vec![0; targets.len()];
            (0..).zip(by_number.rows()).for_each(|(column, row)| places[row as usize] = column);
            let mut by_column = Ranged::new(Cuts::of(lens), spilling)?;
            rows.for_each(0..rows.rows(), |row, sources| {
                let column = places[row];
                sources.iter().try_for_each(|source| by_column.push(column, *source))
            })?;
            drop(rows);
            let sources = by_column.into_rows(spilling)?;
            return Ok(Columns { targets, sources });
        }
        let mut sources = Rows::with_capacity(spilling, targets.len(), rows.edges() as usize);
        let mut batch = Vec::with_capacity(TOGETHER);
        for some in by_number.both.chunks(TOGETHER) {
            batch.clear();
            batch.extend(some.iter().map(|both| *both as u32));
            rows.touch(&batch);
            batch.iter().try_for_each(|row| sources.push_row(rows.row(*row as usize)))?;
        }
        drop(rows);
        Ok(Columns { targets, sources: sources.finish()? })
    }

    /// The edges.
    pub(super) fn edges(&self) -> u64 {
        self.sources.edges()
    }

    /// Takes edges out that are not to stay: `stays` is asked with source and target.
    pub(super) fn retain(
        &mut self,
        mut stays: impl FnMut(u32, u32) -> bool,
    ) -> Result<(), JobError> {
        let targets = &self.targets;
        let emptied = self.sources.retain(|row, source| stays(source, targets[row]))?;
        let mut emptied = emptied.into_iter();
        self.targets.retain(|_| emptied.next() == Some(false));
        Ok(())
    }

    /// Adds edges of which each has its target and its source, the targets in ascending order.
    pub(super) fn merge(
        &mut self,
        edges: &[(u32, u32)],
        spilling: &Spilling,
    ) -> Result<(), JobError> {
        if edges.is_empty() {
            return Ok(());
        }
        let capacity = match self.sources.are_in_memory() {
            true => self.edges() as usize + edges.len(),
            false => 0,
        };
        let mut sources = Rows::with_capacity(spilling, self.targets.len(), capacity);
        let mut targets = Vec::with_capacity(self.targets.len());
        let mut columns = edges.chunk_by(|one, other| one.0 == other.0).peekable();
        let mut both = Vec::new();
        let mut push = |target, row: &[u32], column: &[(u32, u32)]| {
            both.clear();
            both.extend_from_slice(row);
            both.extend(column.iter().map(|(_, source)| *source));
            targets.push(target);
            sources.push_row(&both)
        };
        let rows = 0..self.sources.rows();
        self.sources.for_each(rows, |row, known| {
            let target = self.targets[row];
            while let Some(column) = columns.next_if(|column| column[0].0 < target) {
                push(column[0].0, &[], column)?;
            }
            let column = columns.next_if(|column| column[0].0 == target).unwrap_or(&[]);
            push(target, known, column)
        })?;
        columns.try_for_each(|column| push(column[0].0, &[], column))?;
        *self = Columns { targets, sources: sources.finish()? };
        Ok(())
    }

    /// The edges by where they begin, where so many begin at each source, and at none behind one at which none does: rows with the numbers of the targets, in ascending order.
    pub(super) fn turned(self, degrees: &[u32], spilling: &Spilling) -> Result<Rows, JobError> {
        let cuts = Cuts::of(degrees.iter().copied().map(u64::from));
        let mut by_source = Ranged::new(cuts, spilling)?;
        self.sources.for_each(0..self.targets.len(), |column, sources| {
            let target = self.targets[column];
            sources.iter().try_for_each(|source| by_source.push(*source, target))
        })?;
        drop(self);
        by_source.into_rows(spilling)
    }
}

/// Edges in parts by ranges of the rows that they are to be in.
struct Ranged {
    cuts: Cuts,
    parts: Parts<Pair<u32, u32>>,
}

impl Ranged {
    fn new(cuts: Cuts, spilling: &Spilling) -> Result<Ranged, JobError> {
        Ok(Ranged { cuts, parts: Parts::new(spilling)? })
    }

    /// Adds what is to be in a row, behind what is there.
    #[inline(always)]
    fn push(&mut self, row: u32, number: u32) -> Result<(), JobError> {
        self.parts.push(self.cuts.part_of(row), Pair { key: row, value: number })
    }

    /// The rows that are not empty.
    fn into_rows(self, spilling: &Spilling) -> Result<Rows, JobError> {
        let Ranged { cuts, parts } = self;
        let mut rows = Rows::with_capacity(spilling, 0, 0);
        for (at, part) in parts.into_parts().enumerate() {
            let (part, range) = (part?, cuts.range(at));
            let entries = part.records().map(|entry| (entry.key - range.start, entry.value));
            rows.append_entries(range.len(), entries, |row| row.len(), |_| {})?;
        }
        rows.finish()
    }
}

#[cfg(test)]
mod tests {
    use weft_object::Types;

    use super::*;

    /// Memory with room for anything, and for nothing.
    fn spillings() -> [Spilling; 2] {
        let types = Types::new().with::<u32>().with::<Pair<u32, u32>>();
        [64 << 20, 0].map(|bytes| Spilling::with_room(bytes, types.clone()))
    }

    fn rows(lists: &[&[u32]], spilling: &Spilling) -> Rows {
        let mut rows = Rows::with_capacity(spilling, 0, 0);
        lists.iter().for_each(|list| rows.push_row(list).unwrap());
        rows.finish().unwrap()
    }

    fn columns(spilling: &Spilling) -> Columns {
        let rows = rows(&[&[12, 11], &[10], &[12, 10, 11]], spilling);
        Columns::of(&ByNumber::of(&[70, 90, 20]).unwrap(), rows, spilling).unwrap()
    }

    fn lists(rows: &Rows) -> Vec<Vec<u32>> {
        let mut lists = Vec::new();
        let gone_through = rows.for_each(0..rows.rows(), |_, row| {
            lists.push(row.to_vec());
            Ok(())
        });
        gone_through.unwrap();
        lists
    }

    fn found(columns: &Columns) -> Vec<(u32, Vec<u32>)> {
        columns.targets.iter().copied().zip(lists(&columns.sources)).collect()
    }

    #[test]
    fn columns_come_in_the_order_of_their_targets() {
        for spilling in spillings() {
            let expected = [(20, vec![12, 10, 11]), (70, vec![12, 11]), (90, vec![10])];
            assert_eq!(found(&columns(&spilling)), expected);
        }
        assert_eq!(ByNumber::of(&[5, 4, 5]).err(), Some(5));
    }

    #[test]
    fn many_columns_are_the_same_wherever_they_are() {
        let [memory, file] = spillings().map(|spilling| {
            let mut rows = Rows::with_capacity(&spilling, 0, 0);
            let row = |row: u32| (0..=row % 7 * (row % 50)).map(move |at| at * row).collect();
            let lists: Vec<Vec<u32>> = (0..5_000).map(row).collect();
            lists.iter().for_each(|list| rows.push_row(list).unwrap());
            let numbers: Vec<u32> = (0..5_000).map(|row| row * 7_919 % 10_007).collect();
            let by_number = ByNumber::of(&numbers).unwrap();
            Columns::of(&by_number, rows.finish().unwrap(), &spilling).unwrap()
        });
        assert!(memory.sources.are_in_memory() && !file.sources.are_in_memory());
        assert!(memory.targets.is_sorted() && memory.targets.len() == 5_000);
        assert!(found(&memory) == found(&file));
    }

    #[test]
    fn edges_go_and_come() {
        for spilling in spillings() {
            let mut columns = columns(&spilling);
            let retained =
                columns.retain(|source, target| source != 10 && (source, target) != (11, 20));
            retained.unwrap();
            assert_eq!(found(&columns), [(20, vec![12]), (70, vec![12, 11])]);
            columns.merge(&[(5, 1), (5, 2), (70, 3), (99, 4)], &spilling).unwrap();
            let expected = [(5, vec![1, 2]), (20, vec![12]), (70, vec![12, 11, 3]), (99, vec![4])];
            assert_eq!(found(&columns), expected);
            columns.merge(&[], &spilling).unwrap();
            assert_eq!(found(&columns), expected);
        }
    }

    #[test]
    fn columns_are_turned_into_rows() {
        for spilling in spillings() {
            let sources = rows(&[&[0, 2], &[1], &[0, 1]], &spilling);
            let columns = Columns { targets: vec![4, 6, 9], sources };
            let turned = columns.turned(&[2, 2, 1, 0], &spilling).unwrap();
            assert_eq!(lists(&turned), [&[4, 9][..], &[6, 9], &[4]]);
        }
    }
}
