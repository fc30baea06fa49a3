//! Edges by where they lead: compressed sparse columns.

use super::rows::{Rows, TOGETHER};

/// The edges that a worker holds, of which each begins at a *source* that has a place there.
#[derive(Debug)]
pub(super) struct Columns {
    /// The numbers of all vertices that an edge here leads to, in ascending order.
    pub(super) targets: Vec<u32>,
    /// The sources of the edges to each of these.
    pub(super) sources: Rows,
}

impl Columns {
    /// Of rows with the sources of edges to vertices of which `numbers` has the numbers, in an order of its own, and once each.
    /// Numbers that occur twice are an error: it is one of them.
    pub(super) fn of(numbers: Vec<u32>, rows: &Rows) -> Result<Columns, u32> {
        let by_row = (0..).zip(numbers).map(|(row, number)| u64::from(number) << 32 | row);
        let mut by_number: Vec<u64> = by_row.collect();
        by_number.sort_unstable();
        let targets: Vec<u32> = by_number.iter().map(|both| (both >> 32) as u32).collect();
        let twice = targets.windows(2).find(|pair| pair[0] == pair[1]);
        if let Some(pair) = twice {
            return Err(pair[0]);
        }
        let mut sources = Rows::with_capacity(targets.len(), rows.numbers().len());
        let mut batch = Vec::with_capacity(TOGETHER);
        for some in by_number.chunks(TOGETHER) {
            batch.clear();
            batch.extend(some.iter().map(|both| *both as u32));
            rows.touch(&batch);
            batch.iter().for_each(|row| sources.push_row(rows.row(*row as usize)));
        }
        Ok(Columns { targets, sources })
    }

    /// The edges.
    pub(super) fn edges(&self) -> u64 {
        self.sources.edges()
    }

    /// Takes edges out that are not to stay: `stays` is asked with source and target.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(u32, u32) -> bool) {
        let targets = &self.targets;
        let emptied = self.sources.retain(|row, source| stays(source, targets[row]));
        let mut emptied = emptied.into_iter();
        self.targets.retain(|_| emptied.next() == Some(false));
    }

    /// Adds edges of which each has its target and its source, the targets in ascending order.
    pub(super) fn merge(&mut self, edges: &[(u32, u32)]) {
        if edges.is_empty() {
            return;
        }
        let mut merged = Columns {
            targets: Vec::with_capacity(self.targets.len()),
            sources: Rows::with_capacity(self.targets.len(), self.edges() as usize + edges.len()),
        };
        let mut rows = self.targets.iter().enumerate().peekable();
        let mut columns = edges.chunk_by(|one, other| one.0 == other.0).peekable();
        loop {
            let next_row = rows.peek().map(|(_, target)| **target);
            let next_column = columns.peek().map(|column| column[0].0);
            let Some(target) = next_row.into_iter().chain(next_column).min() else { break };
            let row = rows.next_if(|(_, of)| **of == target);
            let row = row.map_or(&[][..], |(row, _)| self.sources.row(row));
            let column = columns.next_if(|column| column[0].0 == target).unwrap_or(&[]);
            let added = column.iter().map(|(_, source)| *source);
            merged.targets.push(target);
            merged.sources.push_row(&row.iter().copied().chain(added).collect::<Vec<u32>>());
        }
        *self = merged;
    }

    /// The edges by where they begin, where so many begin at each source: rows with the numbers of the targets, in ascending order.
    pub(super) fn turned(&self, degrees: &[u32]) -> Rows {
        Rows::of_columns(degrees, &self.targets, &self.sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        let mut rows = Rows::with_capacity(0, 0);
        [&[12, 11][..], &[10], &[12, 10, 11]].iter().for_each(|row| rows.push_row(row));
        Columns::of(vec![70, 90, 20], &rows).unwrap()
    }

    fn found(columns: &Columns) -> Vec<(u32, Vec<u32>)> {
        let rows = (0..columns.sources.rows()).map(|row| columns.sources.row(row).to_vec());
        columns.targets.iter().copied().zip(rows).collect()
    }

    #[test]
    fn columns_come_in_the_order_of_their_targets() {
        let expected = [(20, vec![12, 10, 11]), (70, vec![12, 11]), (90, vec![10])];
        assert_eq!(found(&columns()), expected);
        let mut rows = Rows::with_capacity(0, 0);
        (0..3).for_each(|source| rows.push_row(&[source]));
        assert_eq!(Columns::of(vec![5, 4, 5], &rows).unwrap_err(), 5);
    }

    #[test]
    fn edges_go_and_come() {
        let mut columns = columns();
        columns.retain(|source, target| source != 10 && (source, target) != (11, 20));
        assert_eq!(found(&columns), [(20, vec![12]), (70, vec![12, 11])]);
        columns.merge(&[(5, 1), (5, 2), (70, 3), (99, 4)]);
        let expected = [(5, vec![1, 2]), (20, vec![12]), (70, vec![12, 11, 3]), (99, vec![4])];
        assert_eq!(found(&columns), expected);
        columns.merge(&[]);
        assert_eq!(found(&columns), expected);
    }

    #[test]
    fn columns_are_turned_into_rows() {
        let mut rows = Rows::with_capacity(0, 0);
        [&[0, 3][..], &[1], &[0, 1]].iter().for_each(|row| rows.push_row(row));
        let columns = Columns { targets: vec![4, 6, 9], sources: rows };
        let rows = columns.turned(&[2, 2, 0, 1]);
        let found: Vec<&[u32]> = (0..rows.rows()).map(|row| rows.row(row)).collect();
        assert_eq!(found, [&[4, 9][..], &[6, 9], &[], &[4]]);
    }
}
