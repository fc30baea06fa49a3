//! Rows or columns, cut into ranges with about as many edges each.

use std::ops::Range;

use super::parts::PARTS;

/// As many ranges as there are [parts](super::parts): what belongs to a range is put into a part, whatever order it comes in.
pub(super) struct Cuts {
    /// Where each range begins, and behind them the end.
    starts: Vec<u32>,
}

impl Cuts {
    /// Of those with so many edges each, which are no more than numbers of 32 bits.
    pub(super) fn of(lens: impl Iterator<Item = u64> + Clone) -> Cuts {
        let edges = lens.clone().sum::<u64>().max(1);
        let (mut starts, mut before, mut end) = (Vec::with_capacity(PARTS + 1), 0, 0);
        for len in lens {
            // Whoever begins beyond a part's share is of the next one.
            let part = (u128::from(before) * PARTS as u128 / u128::from(edges)) as usize;
            while starts.len() <= part.min(PARTS - 1) {
                starts.push(end);
            }
            before += len;
            end += 1;
        }
        starts.resize(PARTS + 1, end);
        Cuts { starts }
    }

    /// Which range a row is in.
    #[inline]
    pub(super) fn part_of(&self, row: u32) -> usize {
        self.starts[1..PARTS].partition_point(|start| *start <= row)
    }

    /// The rows of a range.
    pub(super) fn range(&self, part: usize) -> Range<u32> {
        self.starts[part]..self.starts[part + 1]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_row_is_in_the_range_that_it_is_said_to_be_in(
            lens in prop::collection::vec(prop_oneof![0..3_u64, 0..1000_u64], 0..2000),
        ) {
            let cuts = Cuts::of(lens.iter().copied());
            let mut rows = 0..;
            for part in 0..PARTS {
                for row in cuts.range(part) {
                    prop_assert_eq!(rows.next(), Some(row));
                    prop_assert_eq!(cuts.part_of(row), part);
                }
                // No more than a share, and what the last row has beyond it, but for rows of nothing behind all others.
                let range = cuts.range(part).start as usize..cuts.range(part).end as usize;
                let but_the_last = range.start..range.end.saturating_sub(1).max(range.start);
                let share = lens.iter().sum::<u64>() / PARTS as u64 + 1;
                let is_last = part == PARTS - 1;
                prop_assert!(is_last || lens[but_the_last].iter().sum::<u64>() <= share);
            }
            prop_assert_eq!(rows.next(), Some(lens.len() as u32));
        }
    }
}
