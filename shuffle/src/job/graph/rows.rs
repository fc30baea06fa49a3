//! Where edges lead to, by where they begin, or the other way round.

/// Rows of numbers, one after the other in one array: compressed sparse rows.
#[derive(Debug)]
pub(super) struct Rows {
    /// Where each row begins, and behind them the end.
    offsets: Vec<u64>,
    /// Of the vertices that the edges of a row lead to, or come from.
    numbers: Vec<u32>,
}

impl Rows {
    /// No rows yet.
    pub(super) fn with_capacity(rows: usize, edges: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, numbers: Vec::with_capacity(edges) }
    }

    /// As many rows, with the second number of each entry in the row that the first one says, in ascending order, once each.
    pub(super) fn of_entries(rows: usize, entries: Vec<[u32; 2]>) -> Self {
        // Where the next entry of each row goes; in the end, where the next row begins.
        let mut places = vec![0_u64; rows + 1];
        entries.iter().for_each(|[row, _]| places[*row as usize + 1] += 1);
        (1..=rows).for_each(|row| places[row] += places[row - 1]);
        let mut numbers = vec![0; entries.len()];
        for [row, number] in &entries {
            let place = &mut places[*row as usize];
            numbers[*place as usize] = *number;
            *place += 1;
        }
        drop(entries);
        let mut offsets = vec![0];
        let (mut begin, mut kept) = (0, 0);
        for end in places.into_iter().take(rows).map(|end| end as usize) {
            numbers[begin..end].sort_unstable();
            let row_begin = kept;
            for at in begin..end {
                if kept == row_begin || numbers[kept - 1] != numbers[at] {
                    numbers[kept] = numbers[at];
                    kept += 1;
                }
            }
            offsets.push(kept as u64);
            begin = end;
        }
        numbers.truncate(kept);
        Self { offsets, numbers }
    }

    /// Adds rows behind the last.
    pub(super) fn append(&mut self, rows: &Rows) {
        let end = self.edges();
        self.offsets.extend(rows.offsets[1..].iter().map(|offset| end + offset));
        self.numbers.extend_from_slice(&rows.numbers);
    }

    /// Adds an edge to the row that is being written.
    pub(super) fn push(&mut self, number: u32) {
        self.numbers.push(number);
    }

    /// Ends the row that is being written.
    pub(super) fn end_row(&mut self) {
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
    pub(super) fn row(&self, row: usize) -> &[u32] {
        let [begin, end] = [row, row + 1].map(|at| self.offsets.get(at));
        match (begin, end) {
            (Some(begin), Some(end)) => &self.numbers[*begin as usize..*end as usize],
            _ => &[],
        }
    }

    /// The rows turned around, for numbers below `end`: those that are in any row, in order, and a row for each with the numbers of rows that it is in.
    pub(super) fn turned(&self, end: usize) -> (Vec<u32>, Rows) {
        // Where the next entry of each number goes.
        let mut places = vec![0_u64; end];
        self.numbers.iter().for_each(|number| places[*number as usize] += 1);
        let (mut present, mut offsets, mut entries) = (Vec::new(), vec![0], 0);
        for (number, place) in (0..).zip(&mut places) {
            let count = std::mem::replace(place, entries);
            if count > 0 {
                entries += count;
                present.push(number);
                offsets.push(entries);
            }
        }
        let mut numbers = vec![0; self.numbers.len()];
        for row in 0..self.rows() {
            for number in self.row(row) {
                let place = &mut places[*number as usize];
                numbers[*place as usize] = row as u32;
                *place += 1;
            }
        }
        (present, Rows { offsets, numbers })
    }

    /// Shortens every row to as many edges as `kept` has for it.
    pub(super) fn shorten(&mut self, kept: &[usize]) {
        let mut end = 0;
        for (row, kept) in kept.iter().enumerate() {
            let begin = self.offsets[row] as usize;
            self.numbers.copy_within(begin..begin + kept, end);
            self.offsets[row] = end as u64;
            end += kept;
        }
        self.offsets[kept.len()] = end as u64;
        self.numbers.truncate(end);
        self.numbers.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_and_once_each() {
        let entries = [[2, 5], [0, 9], [2, 1], [2, 5], [0, 9], [3, 7], [2, 1], [0, 3]];
        let rows = Rows::of_entries(5, entries.to_vec());
        assert_eq!((rows.rows(), rows.edges()), (5, 5));
        let found: Vec<&[u32]> = (0..6).map(|row| rows.row(row)).collect();
        assert_eq!(found, [&[3, 9][..], &[], &[1, 5], &[7], &[], &[]]);
        assert_eq!(Rows::of_entries(0, Vec::new()).rows(), 0);
    }

    #[test]
    fn rows_are_turned_around() {
        let mut rows = Rows::with_capacity(0, 0);
        for row in [&[5, 1][..], &[], &[1, 2, 5], &[1]] {
            row.iter().for_each(|number| rows.push(*number));
            rows.end_row();
        }
        let (present, turned) = rows.turned(7);
        assert_eq!(present, [1, 2, 5]);
        let found: Vec<&[u32]> = (0..turned.rows()).map(|row| turned.row(row)).collect();
        assert_eq!(found, [&[0, 2, 3][..], &[2], &[0, 2]]);
        let (present, turned) = Rows::with_capacity(0, 0).turned(3);
        assert_eq!((present.len(), turned.rows()), (0, 0));
    }

    #[test]
    fn rows_are_shortened_at_their_ends() {
        let lists = [&[1, 2, 3][..], &[], &[4], &[5, 6]];
        let mut rows = Rows::with_capacity(0, 0);
        for row in lists {
            row.iter().for_each(|target| rows.push(*target));
            rows.end_row();
        }
        rows.shorten(&[1, 0, 0, 2]);
        let found: Vec<&[u32]> = (0..rows.rows()).map(|row| rows.row(row)).collect();
        assert_eq!(found, [&[1][..], &[], &[], &[5, 6]]);
        assert_eq!(rows.edges(), 3);
    }
}
