//! Counts how often each word of a text is in it.

use weft_object::{Pair, Text, TextKey, Types};

use crate::dataset::Dataset;

/// A word, and how often it is there.
pub type Count = Pair<TextKey, u64>;

/// The types of records that [`count`] exchanges, and what a job of it gathers.
pub fn types(types: Types) -> Types {
    types.with::<Pair<Text, u64>>().with::<u64>()
}

/// One count for each word, in no order.
pub fn count(words: impl Dataset<Item = TextKey>) -> impl Dataset<Item = Count> {
    words.map(|key| Pair { key, value: 1 }).reduce_by_key(|one, other| one + other)
}
