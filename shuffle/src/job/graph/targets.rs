//! Where edges lead to, by where they begin.

/// Rows of targets, one after the other in one array: compressed sparse rows.
#[derive(Debug)]
pub(super) struct Targets {
    /// Where each row begins, and behind them the end.
    offsets: Vec<u64>,
    /// Numbers of the vertices that edges lead to.
    numbers: Vec<u32>,
}

impl Targets {
    /// No rows yet.
    pub(super) fn with_capacity(rows: usize, edges: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, numbers: Vec::with_capacity(edges) }
    }

    /// Adds an edge to the row that is being written.
    pub(super) fn push(&mut self, target: u32) {
        self.numbers.push(target);
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

    #[inline]
    pub(super) fn row(&self, row: usize) -> &[u32] {
        &self.numbers[self.offsets[row] as usize..self.offsets[row + 1] as usize]
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
    fn rows_are_shortened_at_their_ends() {
        let rows = [&[1, 2, 3][..], &[], &[4], &[5, 6]];
        let mut targets = Targets::with_capacity(0, 0);
        for row in rows {
            row.iter().for_each(|target| targets.push(*target));
            targets.end_row();
        }
        targets.shorten(&[1, 0, 0, 2]);
        let found: Vec<&[u32]> = (0..targets.rows()).map(|row| targets.row(row)).collect();
        assert_eq!(found, [&[1][..], &[], &[], &[5, 6]]);
        assert_eq!(targets.edges(), 3);
    }
}
