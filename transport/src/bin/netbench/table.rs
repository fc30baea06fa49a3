//! A table for people: columns as wide as what is in them, the first one to the left.

use std::fmt::Write as _;

/// Lines up `rows` under `header`, each line behind a line break.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let lines = || std::iter::once(&header).chain(rows);
    let width = |column: usize| {
        lines().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..header.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines() {
        text.push('\n');
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = if column == 0 {
                write!(row, "{cell:<width$}")
            } else {
                write!(row, "  {cell:>width$}")
            };
        }
        text.push_str(row.trim_end());
    }
    text
}

/// The middle value, or the mean of the two middle ones; not a number of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let Some(upper) = values.get(values.len() / 2) else { return f64::NAN };
    f64::midpoint(values[(values.len() - 1) / 2], *upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let rows =
            [vec!["a".to_owned(), "100".to_owned()], vec!["long".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["", "b"], &rows), "\n        b\na     100\nlong    1");
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median([1.0, 9.0, 3.0, 4.0]), 3.5);
        assert_eq!(median([2.0]), 2.0);
        assert!(median([]).is_nan());
    }
}
