//! A set of numbers, as a bit for each that could be in it.
//!
//! A set of millions takes as many bits, and fits into the cache of a core, where a hash table of them would take a hundred times as much. How many bits are set before a
//! word is counted once, so which number of the set one is, its *rank*, takes a look at one word (Jacobson, FOCS 1989).

/// The set.
#[derive(Debug)]
pub(super) struct Bitmap {
    words: Vec<Word>,
}

/// Bits of 64 numbers, beside what is counted of those before, so that both are in the same line of the cache.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    bits: u64,
    before: u32,
}

impl Bitmap {
    /// No number yet, of those up to `last`.
    pub(super) fn up_to(last: u32) -> Bitmap {
        Bitmap { words: vec![Word::default(); last as usize / 64 + 1] }
    }

    /// What it takes for so many numbers.
    pub(super) fn bytes_of(numbers: u64) -> u64 {
        numbers.div_ceil(64) * size_of::<Word>() as u64
    }

    /// Adds a number of those that it is for. Ranks are to be counted behind it.
    #[inline(always)]
    pub(super) fn insert(&mut self, number: u32) {
        self.words[number as usize / 64].bits |= 1 << (number % 64);
    }

    /// Counts what ranks are told by.
    pub(super) fn count(&mut self) {
        let mut count = 0_u32;
        for word in &mut self.words {
            word.before = count;
            // Behind the last of all numbers of 32 bits, it may have come around.
            count = count.wrapping_add(word.bits.count_ones());
        }
    }

    /// How many numbers below this one are in the set, if this one is.
    #[inline(always)]
    pub(super) fn rank(&self, number: u32) -> Option<u32> {
        let word = self.words.get(number as usize / 64)?;
        let bit = 1 << (number % 64);
        let below = (word.bits & (bit - 1)).count_ones();
        (word.bits & bit != 0).then_some(word.before + below)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_a_sorted_set(numbers: BTreeSet<u16>, others: Vec<u32>) {
            let last = numbers.last().copied().unwrap_or(0);
            let mut bitmap = Bitmap::up_to(last.into());
            numbers.iter().for_each(|number| bitmap.insert((*number).into()));
            bitmap.count();
            for number in (0..u32::from(last) + 130).chain(others) {
                let known = u16::try_from(number).ok().filter(|number| numbers.contains(number));
                let expected = known.map(|number| numbers.range(..number).count() as u32);
                prop_assert_eq!(bitmap.rank(number), expected);
            }
        }
    }
}
