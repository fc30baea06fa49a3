//! Where edges begin, by where they lead to, or the other way round.
//!
//! Rows that memory has no room for lie in a file, in the order in which they are gone through: what is known of each vertex stays in memory, and edges are read again in each
//! round, one after the other (semi-external, as X-Stream, SOSP 2013, and FlashGraph, FAST 2015; GraphChi, OSDI 2012, reads both in shards).

mod written;

use std::ops::Range;

use weft_object::Wire;

use self::written::Written;
use super::pieces::MAPPED_BYTES;
use crate::budget::Taken;
use crate::error::JobError;
use crate::spill::Spilling;

/// As many rows as are best [touched](Rows::touch) at once.
pub(super) const TOGETHER: usize = 64;

/// Bytes of numbers that are taken from the budget at once.
const STEP_BYTES: usize = 1 << 20;

/// Rows of numbers, one after the other in one array: compressed sparse rows.
#[derive(Debug)]
pub(super) struct Rows<T = u32> {
    spilling: Spilling,
    /// Where each row begins, and behind them the end.
    offsets: Vec<u64>,
    /// Of the vertices that the edges of a row lead to, or come from: all of them, or those that are not written yet.
    numbers: Vec<T>,
    taken: Vec<Taken>,
    /// For how many numbers memory was taken, or how many are written at once.
    room: usize,
    /// Once memory had no room for them.
    written: Option<Written<T>>,
}

impl<T: Wire + Default> Rows<T> {
    /// No rows yet, but places for so many, which take memory when they are used.
    pub(super) fn with_capacity(spilling: &Spilling, rows: usize, edges: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let numbers = Vec::with_capacity(edges.max(MAPPED_BYTES / size_of::<T>()));
        let spilling = spilling.clone();
        Self { spilling, offsets, numbers, taken: Vec::new(), room: 0, written: None }
    }

    /// Adds rows behind the last, with what each entry has in the row that it says, which is below `rows`, in the order of the entries; of each row stays as much from its beginning as `keep` says, which
    /// may put it in order. Rows without an entry are left out; `added` gets the others, in order.
    ///
    /// # Errors
    /// Memory has no room for it, and nor has the disk.
    pub(super) fn append_entries(
        &mut self,
        rows: usize,
        entries: impl Iterator<Item = (u32, T)> + Clone,
        mut keep: impl FnMut(&mut [T]) -> usize,
        mut added: impl FnMut(usize),
    ) -> Result<(), JobError> {
        // Where the next entry of each row goes; in the end, where the next row begins.
        let mut places = vec![0_usize; rows + 1];
        entries.clone().for_each(|(row, _)| places[row as usize + 1] += 1);
        (1..=rows).for_each(|row| places[row] += places[row - 1]);
        let part_bytes = size_of_val(&places[..]) + places[rows] * size_of::<T>();
        let _growing = self.spilling.budget.take_anyway(part_bytes as u64);
        let first = self.numbers.len();
        let first_offset = self.edges();
        self.numbers.resize(first + places[rows], T::default());
        let numbers = &mut self.numbers[first..];
        entries.for_each(|(row, number)| {
            let place = &mut places[row as usize];
            numbers[*place] = number;
            *place += 1;
        });
        let (mut begin, mut kept) = (0, 0);
        for (row, end) in places.into_iter().take(rows).enumerate() {
            if begin == end {
                continue;
            }
            let stay = keep(&mut numbers[begin..end]);
            if kept < begin {
                numbers.copy_within(begin..begin + stay, kept);
            }
            kept += stay;
            self.offsets.push(first_offset + kept as u64);
            added(row);
            begin = end;
        }
        self.numbers.truncate(first + kept);
        self.settle()
    }

    /// Adds a row behind the last.
    #[inline]
    pub(super) fn push_row(&mut self, row: &[T]) -> Result<(), JobError> {
        self.numbers.extend_from_slice(row);
        self.end_row()
    }

    /// Ends a row, of which the numbers are there.
    #[inline]
    fn end_row(&mut self) -> Result<(), JobError> {
        let written = self.written.as_ref().map_or(0, Written::len);
        self.offsets.push(written + self.numbers.len() as u64);
        if self.numbers.len() > self.room { self.settle() } else { Ok(()) }
    }

    /// Takes memory for what was added, or writes it.
    #[cold]
    fn settle(&mut self) -> Result<(), JobError> {
        if self.numbers.len() <= self.room {
            return Ok(());
        }
        if let Some(written) = &mut self.written {
            written.append(&self.numbers)?;
            self.numbers.clear();
            self.numbers.shrink_to(self.room);
            return Ok(());
        }
        while self.numbers.len() > self.room {
            let Some(taken) = self.spilling.budget.take(STEP_BYTES as u64) else {
                return self.write();
            };
            self.taken.push(taken);
            self.room += STEP_BYTES / size_of::<T>();
        }
        Ok(())
    }

    /// Has all numbers in a file, and memory free of them.
    fn write(&mut self) -> Result<(), JobError> {
        let mut written = Written::new(&self.spilling);
        written.append(&self.numbers)?;
        self.room = Written::<T>::LEN;
        self.numbers = Vec::with_capacity(self.room);
        self.taken = vec![self.spilling.budget.take_anyway(STEP_BYTES as u64)];
        self.written = Some(written);
        Ok(())
    }

    /// Makes room for what does not fit beside it. To be asked when there are all rows, or before any more are added.
    pub(super) fn make_room(&mut self) -> Result<(), JobError> {
        if self.written.is_none() && self.spilling.budget.is_exceeded() {
            self.write()?;
        }
        Ok(())
    }

    /// The same when no more rows come.
    pub(super) fn finish(mut self) -> Result<Self, JobError> {
        self.make_room()?;
        if let Some(written) = &mut self.written {
            written.append(&self.numbers)?;
            (self.numbers, self.taken) = (Vec::new(), Vec::new());
        }
        Ok(self)
    }

    /// How many rows have ended.
    pub(super) fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Edges of all rows.
    pub(super) fn edges(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// How many numbers a row has.
    #[inline]
    pub(super) fn len(&self, row: usize) -> u64 {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// Whether memory has all of them, so that any row can be [looked at](Self::row).
    pub(super) fn are_in_memory(&self) -> bool {
        self.written.is_none()
    }

    /// A row of those in memory; one behind the last is empty.
    #[inline]
    pub(super) fn row(&self, row: usize) -> &[T] {
        let [begin, end] = [row, row + 1].map(|at| self.offsets.get(at));
        match (begin, end) {
            (Some(begin), Some(end)) => &self.numbers[*begin as usize..*end as usize],
            _ => &[],
        }
    }

    /// Reads the beginnings of some rows, in a loop that does nothing else, so that the processor has all of them on their way.
    pub(super) fn touch(&self, rows: &[u32]) {
        for row in rows {
            std::hint::black_box(self.row(*row as usize).first().copied());
        }
    }

    /// Goes through some rows in order, wherever they are.
    ///
    /// # Errors
    /// What `each` fails with, or a file that cannot be read, or is not as it was written.
    #[inline(always)]
    pub(super) fn for_each(
        &self,
        mut rows: Range<usize>,
        mut each: impl FnMut(usize, &[T]) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        match &self.written {
            None => rows.try_for_each(|row| each(row, self.row(row))),
            Some(written) => written.for_each(&self.offsets, rows, &mut each),
        }
    }
}

impl Rows {
    /// Takes out what is not to stay, and rows of which nothing does: `stays` is asked with the number of the row, in order. `emptied` says of each row whether that was so.
    pub(super) fn retain(
        &mut self,
        mut stays: impl FnMut(usize, u32) -> bool,
    ) -> Result<Vec<bool>, JobError> {
        let mut emptied = Vec::with_capacity(self.rows());
        if let Some(written) = &self.written {
            let mut kept = Rows::with_capacity(&self.spilling, 0, 0);
            written.for_each(&self.offsets, 0..self.rows(), &mut |row, numbers: &[u32]| {
                let before = kept.numbers.len();
                let staying = numbers.iter().copied().filter(|number| stays(row, *number));
                kept.numbers.extend(staying);
                let is_empty = kept.numbers.len() == before;
                emptied.push(is_empty);
                if is_empty { Ok(()) } else { kept.end_row() }
            })?;
            *self = kept.finish()?;
            return Ok(emptied);
        }
        let (mut kept, mut begin, mut rows) = (0, 0, 0);
        for row in 0..self.rows() {
            let end = self.offsets[row + 1] as usize;
            let row_begin = kept;
            for at in begin..end {
                if stays(row, self.numbers[at]) {
                    self.numbers[kept] = self.numbers[at];
                    kept += 1;
                }
            }
            begin = end;
            emptied.push(kept == row_begin);
            if kept > row_begin {
                rows += 1;
                self.offsets[rows] = kept as u64;
            }
        }
        self.numbers.truncate(kept);
        self.numbers.shrink_to_fit();
        self.offsets.truncate(rows + 1);
        Ok(emptied)
    }
}

/// Puts a row in order, what occurs several times once: how many there are then.
pub(super) fn make_distinct<T: Copy + Ord>(row: &mut [T]) -> usize {
    row.sort_unstable();
    without_repeats(row, |_| {})
}

/// Leaves once what occurs several times in a row that is in order, and tells `repeated` of each time more: how many there are then.
pub(super) fn without_repeats<T: Copy + Ord>(row: &mut [T], mut repeated: impl FnMut(T)) -> usize {
    let mut kept = 0;
    for at in 0..row.len() {
        if kept == 0 || row[kept - 1] != row[at] {
            row[kept] = row[at];
            kept += 1;
        } else {
            repeated(row[at]);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use weft_object::Types;

    use super::*;

    /// Memory with room for anything, and for nothing.
    fn spillings() -> [Spilling; 2] {
        [64 << 20, 0].map(|bytes| Spilling::with_room(bytes, Types::new().with::<u32>()))
    }

    fn rows_of(spilling: &Spilling, lists: &[&[u32]]) -> Rows {
        let mut rows = Rows::with_capacity(spilling, 0, 0);
        lists.iter().for_each(|list| rows.push_row(list).unwrap());
        rows.finish().unwrap()
    }

    fn found(rows: &Rows, range: Range<usize>) -> Vec<Vec<u32>> {
        let mut found = Vec::new();
        let first = range.start;
        let gone_through = rows.for_each(range, |row, numbers| {
            assert_eq!(row, first + found.len());
            found.push(numbers.to_vec());
            Ok(())
        });
        gone_through.unwrap();
        found
    }

    #[test]
    fn entries_come_in_order_and_once_each() {
        for spilling in spillings() {
            let entries = [(2, 5), (0, 9), (2, 1), (2, 5), (0, 9), (3, 7), (2, 1), (0, 3)];
            let (mut rows, mut added) = (Rows::with_capacity(&spilling, 0, 0), Vec::new());
            let mut append = |rows: &mut Rows, count, entries: &[(u32, u32)], distinct: bool| {
                let keep = |row: &mut [u32]| if distinct { make_distinct(row) } else { row.len() };
                let entries = entries.iter().copied();
                rows.append_entries(count, entries, keep, |row| added.push(row)).unwrap();
            };
            append(&mut rows, 5, &entries, true);
            append(&mut rows, 0, &[], true);
            append(&mut rows, 2, &[(1, 8), (1, 2)], false);
            let rows = rows.finish().unwrap();
            assert_eq!((rows.rows(), rows.edges()), (4, 7));
            assert_eq!(added, [0, 2, 3, 1], "rows with an entry");
            assert_eq!(found(&rows, 0..4), [&[3, 9][..], &[1, 5], &[7], &[8, 2]]);
            assert_eq!([0, 1, 2, 3].map(|row| rows.len(row)), [2, 2, 1, 2]);
            assert_eq!(rows.are_in_memory(), spilling.bytes_spilled() == 0);
            if rows.are_in_memory() {
                assert_eq!((rows.row(3), rows.row(4)), (&[8, 2][..], &[][..]));
            }
        }
    }

    #[test]
    fn what_does_not_stay_is_taken_out() {
        for spilling in spillings() {
            let mut rows = rows_of(&spilling, &[&[1, 2, 3], &[4], &[2], &[5, 6]]);
            let emptied = rows.retain(|row, number| number != 2 && (row, number) != (3, 6));
            assert_eq!(emptied.unwrap(), [false, false, true, false]);
            assert_eq!(found(&rows, 0..3), [&[1, 3][..], &[4], &[5]]);
            assert_eq!(rows.edges(), 4);
        }
    }

    #[test]
    fn rows_are_the_same_wherever_they_are() {
        // Some longer than what is written at once, and read.
        let lens = [0, 1, 300_000, 3, 70_000, 0, 65_536, 5];
        let lists: Vec<Vec<u32>> =
            (0..).zip(lens).map(|(row, len)| (0..len).map(|at| at ^ row << 20).collect()).collect();
        let [memory, file] = spillings().map(|spilling| {
            let lists: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
            rows_of(&spilling, &lists)
        });
        assert!(memory.are_in_memory() && !file.are_in_memory());
        for begin in 0..=lens.len() {
            for end in begin..=lens.len() {
                assert_eq!(found(&memory, begin..end), lists[begin..end]);
                assert!(found(&file, begin..end) == lists[begin..end], "{begin}..{end}");
            }
        }
    }

    #[test]
    fn rows_go_to_a_file_when_others_need_the_memory() {
        let [spilling, _] = spillings();
        let mut rows = rows_of(&spilling, &[&[1, 2], &[3]]);
        rows.make_room().unwrap();
        assert!(rows.are_in_memory());
        let others = spilling.budget.take_anyway(64 << 20);
        rows.make_room().unwrap();
        assert!(!rows.are_in_memory());
        drop(others);
        let rows = rows.finish().unwrap();
        assert_eq!(found(&rows, 0..2), [&[1, 2][..], &[3]]);
    }

    #[test]
    fn rows_that_were_damaged_in_their_file_are_an_error() {
        let [_, spilling] = spillings();
        let rows = rows_of(&spilling, &[&[1, 2], &[3; 100_000]]);
        rows.written.as_ref().unwrap().damage(300_000);
        let read = |range: Range<usize>| rows.for_each(range, |_, _| Ok(()));
        read(0..1).unwrap();
        let error = read(0..2).unwrap_err();
        assert!(matches!(error, JobError::Spill { .. }), "{error}");
    }
}
