//! What there is most of.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weft_object::Pair;

/// Those of the keys seen that have the highest counts, up to a number of them. Of keys with the same count, lower ones go before.
#[derive(Debug)]
pub struct Top<K> {
    len: usize,
    /// The one with the lowest count first.
    least: BinaryHeap<Reverse<(u64, Reverse<K>)>>,
}

impl<K: Ord + Clone> Top<K> {
    /// Of at most `len` keys, none of which was seen yet.
    pub fn new(len: usize) -> Top<K> {
        Top { len, least: BinaryHeap::new() }
    }

    /// Looks at a key and its count, and keeps it if it is one of the highest so far.
    pub fn see(&mut self, count: &Pair<K, u64>) {
        let is_full = self.least.len() >= self.len;
        let is_more = |Reverse((least, Reverse(key))): &Reverse<(u64, Reverse<K>)>| {
            (count.value, Reverse(&count.key)) > (*least, Reverse(key))
        };
        if is_full && !self.least.peek().is_some_and(is_more) {
            return;
        }
        if is_full {
            self.least.pop();
        }
        self.least.push(Reverse((count.value, Reverse(count.key.clone()))));
    }

    /// The highest first.
    pub fn into_vec(self) -> Vec<Pair<K, u64>> {
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
                top.see(&Pair { key: word(at), value: *value });
            }
            let mut expected: Vec<(Reverse<u64>, String)> =
                counts.iter().enumerate().map(|(at, count)| (Reverse(*count), word(at))).collect();
            expected.sort_unstable();
            expected.truncate(len);
            let found = top.into_vec().into_iter();
            let found: Vec<(Reverse<u64>, String)> =
                found.map(|count| (Reverse(count.value), count.key)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
