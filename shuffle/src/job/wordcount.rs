//! Counts how often each word of a text is in it.

mod top;

use weft_object::{Pair, Text, TextKey, Types};

pub use self::top::Top;
use crate::dataset::Dataset;
use crate::text_file::Line;

/// A word, and how often it is there.
pub type Count = Pair<TextKey, u64>;

/// The types of records that [`count`] exchanges, and what a job of it gathers.
pub fn types(types: Types) -> Types {
    types.with::<Pair<Text, u64>>().with::<u64>()
}

/// One count for each word, in no order. Words are what stands between white space as Unicode has it, as it is written.
pub fn count(lines: impl Dataset<Item = Line>) -> impl Dataset<Item = Count> {
    lines
        .flat_map_into(|line: Line, give: &mut dyn FnMut(Count) -> _| {
            line.split_whitespace().try_for_each(|word| give(Pair { key: word.into(), value: 1 }))
        })
        .reduce_by_key(|one, other| one + other)
}
