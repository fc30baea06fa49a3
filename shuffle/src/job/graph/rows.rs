//! Where edges begin, by where they lead to, or the other way round.

/// As many rows as are best [touched](Rows::touch) at once.
pub(super) const TOGETHER: usize = 64;

/// Rows of numbers, one after the other in one array: compressed sparse rows.
#[derive(Debug)]
pub(super) struct Rows<T = u32> {
    /// Where each row begins, and behind them the end.
    offsets: Vec<u64>,
    /// Of the vertices that the edges of a row lead to, or come from.
    numbers: Vec<T>,
}

impl<T: Copy + Default> Rows<T> {
    /// No rows yet.
    pub(super) fn with_capacity(rows: usize, edges: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, numbers: Vec::with_capacity(edges) }
    }

    /// Adds rows behind the last, with what each entry has in the row that it says, which is below `rows`, in the order of the entries; of each row stays as much from its beginning as `keep` says, which
    /// may put it in order. Rows without an entry are left out; `added` gets the others, in order.
    pub(super) fn append_entries(
        &mut self,
        rows: usize,
        entries: impl Iterator<Item = (u32, T)> + Clone,
        keep: impl Fn(&mut [T]) -> usize,
        mut added: impl FnMut(usize),
    ) {
        // Where the next entry of each row goes; in the end, where the next row begins.
        let mut places = vec![0_usize; rows + 1];
        entries.clone().for_each(|(row, _)| places[row as usize + 1] += 1);
        (1..=rows).for_each(|row| places[row] += places[row - 1]);
        let first = self.numbers.len();
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
            self.offsets.push((first + kept) as u64);
            added(row);
            begin = end;
        }
        self.numbers.truncate(first + kept);
    }

    /// Adds a row behind the last.
    #[inline]
    pub(super) fn push_row(&mut self, row: &[T]) {
        self.numbers.extend_from_slice(row);
        self.offsets.push(self.numbers.len() as u64);
    }

    /// How many rows have ended.
    pub(super) fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Edges of all rows.
    pub(super) fn edges(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// A row; one behind the last is empty.
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

    /// All numbers, row by row.
    pub(super) fn numbers(&self) -> &[T] {
        &self.numbers
    }
}

impl Rows {
    /// Of as many rows as there are degrees, each as long as that says: row `number` has the name of each column with that number, in the order of these.
    pub(super) fn of_columns(degrees: &[u32], names: &[u32], columns: &Rows) -> Rows {
        let mut offsets = Vec::with_capacity(degrees.len() + 1);
        offsets.push(0);
        let mut end = 0;
        for degree in degrees {
            end += u64::from(*degree);
            offsets.push(end);
        }
        // Where the next entry of each row goes.
        let mut places = offsets.clone();
        let mut numbers = vec![0; columns.numbers.len()];
        for (column, name) in names.iter().enumerate() {
            for row in columns.row(column) {
                let place = &mut places[*row as usize];
                numbers[*place as usize] = *name;
                *place += 1;
            }
        }
        Rows { offsets, numbers }
    }

    /// Takes out what is not to stay, and rows of which nothing does: `stays` is asked with the number of the row, in order. `emptied` says of each row whether that was so.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(usize, u32) -> bool) -> Vec<bool> {
        let (mut kept, mut begin, mut rows) = (0, 0, 0);
        let mut emptied = Vec::with_capacity(self.rows());
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
        emptied
    }
}

/// Puts a row in order, what occurs several times once: how many there are then.
pub(super) fn make_distinct<T: Copy + Ord>(row: &mut [T]) -> usize {
    row.sort_unstable();
    let mut kept = 0;
    for at in 0..row.len() {
        if kept == 0 || row[kept - 1] != row[at] {
            row[kept] = row[at];
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &Rows) -> Vec<&[u32]> {
        (0..rows.rows()).map(|row| rows.row(row)).collect()
    }

    #[test]
    fn entries_come_in_order_and_once_each() {
        let entries = [(2, 5), (0, 9), (2, 1), (2, 5), (0, 9), (3, 7), (2, 1), (0, 3)];
        let (mut rows, mut added) = (Rows::with_capacity(0, 0), Vec::new());
        rows.append_entries(5, entries.into_iter(), make_distinct, |row| added.push(row));
        rows.append_entries(0, std::iter::empty(), make_distinct, |row| added.push(row));
        rows.append_entries(
            2,
            [(1, 8), (1, 2)].into_iter(),
            |row| row.len(),
            |row| added.push(row),
        );
        assert_eq!((rows.rows(), rows.edges()), (4, 7));
        assert_eq!(added, [0, 2, 3, 1], "rows with an entry");
        assert_eq!(found(&rows), [&[3, 9][..], &[1, 5], &[7], &[8, 2]]);
        assert_eq!(rows.row(4), [0; 0]);
        assert_eq!(rows.numbers(), [3, 9, 1, 5, 7, 8, 2]);
    }

    #[test]
    fn what_does_not_stay_is_taken_out() {
        let mut rows = Rows::with_capacity(0, 0);
        let lists = [&[1, 2, 3][..], &[4], &[2], &[5, 6]];
        lists.iter().for_each(|list| rows.push_row(list));
        let emptied = rows.retain(|row, number| number != 2 && (row, number) != (3, 6));
        assert_eq!(emptied, [false, false, true, false]);
        assert_eq!((found(&rows), rows.edges()), (vec![&[1, 3][..], &[4], &[5]], 4));
    }
}
