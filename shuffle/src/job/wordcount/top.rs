//! The most frequent words.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weft_object::{Pair, TextKey};

use super::Count;

/// Those of the words seen that are there most often, up to a number of them. Of words that are there as often, the first in the order of their bytes count
/// as more frequent.
#[derive(Debug)]
pub struct Top {
    len: usize,
    /// The least frequent of them first.
    least: BinaryHeap<Reverse<(u64, Reverse<TextKey>)>>,
}

impl Top {
    /// Of at most `len` words, none of which was seen yet.
    pub fn new(len: usize) -> Top {
        Top { len, least: BinaryHeap::new() }
    }

    /// Looks at a word, and keeps it if it is one of the most frequent so far.
    pub fn see(&mut self, count: &Count) {
        let is_full = self.least.len() >= self.len;
        let is_more = |Reverse((least, Reverse(word))): &Reverse<(u64, Reverse<TextKey>)>| {
            (count.value, Reverse(&count.key)) > (*least, Reverse(word))
        };
        if is_full && !self.least.peek().is_some_and(is_more) {
            return;
        }
        if is_full {
            self.least.pop();
        }
        self.least.push(Reverse((count.value, Reverse(count.key.clone()))));
    }

    /// The most frequent first.
    pub fn into_vec(self) -> Vec<Count> {
        let sorted = self.least.into_sorted_vec().into_iter();
        sorted.map(|Reverse((value, Reverse(key)))| Pair { key, value }).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_the_first_of_all_in_order(
            counts in prop::collection::vec(0_u64..20, 0..100),
            len in 0_usize..30,
        ) {
            let word = |at: usize| format!("word {at}");
            let mut top = Top::new(len);
            for (at, value) in counts.iter().enumerate() {
                top.see(&Pair { key: word(at).as_str().into(), value: *value });
            }
            let mut expected: Vec<(Reverse<u64>, String)> =
                counts.iter().enumerate().map(|(at, count)| (Reverse(*count), word(at))).collect();
            expected.sort_unstable();
            expected.truncate(len);
            let found = top.into_vec().into_iter();
            let found: Vec<(Reverse<u64>, String)> =
                found.map(|count| (Reverse(count.value), count.key.to_string())).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
