//! Text whose words are as frequent as in a natural language: the word of rank r comes up as often as 1 / r^exponent says (Zipf 1949).

use super::Bits;

/// Bytes of a chunk, less at most a word.
const CHUNK_BYTES: u64 = 1 << 20;

/// Words of a line.
const LINE_WORDS: usize = 12;

/// What a word's rank is drawn by: rejection-inversion (Hörmann and Derflinger, ACM TOMACS 1996), which needs no table and for one rank hardly more
/// than one random number.
#[derive(Clone, Copy, Debug)]
struct Ranks {
    count: f64,
    exponent: f64,
    /// The integral under the hat up to the middle behind the first rank, and behind the last one.
    first: f64,
    last: f64,
    /// So close to its rank, a point is accepted without looking at the function.
    accepted_at_once: f64,
}

/// Lines of words of lower-case letters.
#[derive(Clone, Copy, Debug)]
pub struct ZipfWords {
    bytes: u64,
    ranks: Ranks,
    seed: u64,
}

impl ZipfWords {
    /// How many words there can be.
    pub const WORDS_MAX: u32 = 1 << 30;
    /// How much more frequent frequent words can be.
    pub const EXPONENT_MAX: f64 = 10.0;

    /// Text of `bytes` bytes, less at most a word a MiB, of `words` different words.
    ///
    /// # Panics
    /// `words` is 0 or more than [`WORDS_MAX`](Self::WORDS_MAX), or `exponent` is not from 0 to [`EXPONENT_MAX`](Self::EXPONENT_MAX).
    pub fn new(bytes: u64, words: u32, exponent: f64, seed: u64) -> ZipfWords {
        assert!((1..=ZipfWords::WORDS_MAX).contains(&words), "{words} words");
        assert!((0.0..=ZipfWords::EXPONENT_MAX).contains(&exponent), "exponent {exponent}");
        ZipfWords { bytes, ranks: Ranks::new(words, exponent), seed }
    }

    pub(super) fn chunks(&self) -> u64 {
        self.bytes.div_ceil(CHUNK_BYTES)
    }

    pub(super) fn write_chunk(&self, chunk: u64, into: &mut Vec<u8>) {
        let mut bits = Bits::of_chunk(self.seed, chunk);
        let len_max = (self.bytes - chunk * CHUNK_BYTES).min(CHUNK_BYTES) as usize;
        let start = into.len();
        for count in 1.. {
            let before = into.len();
            push_word(into, self.ranks.draw(&mut bits));
            into.push(if count % LINE_WORDS == 0 { b'\n' } else { b' ' });
            if into.len() - start > len_max {
                into.truncate(before);
                break;
            }
        }
        // Whatever the last word would have been, the line ends here.
        if let Some(last) = into[start..].last_mut() {
            *last = b'\n';
        }
    }
}

impl Ranks {
    fn new(count: u32, exponent: f64) -> Ranks {
        let mut ranks = Ranks {
            count: f64::from(count),
            exponent,
            first: 0.0,
            last: 0.0,
            accepted_at_once: 0.0,
        };
        ranks.first = ranks.integral(1.5) - 1.0;
        ranks.last = ranks.integral(ranks.count + 0.5);
        ranks.accepted_at_once = 2.0 - ranks.inverse(ranks.integral(2.5) - ranks.weight(2.0));
        ranks
    }

    /// A rank from 1.
    fn draw(&self, bits: &mut Bits) -> u32 {
        loop {
            let area = self.last + bits.unit() * (self.first - self.last);
            let point = self.inverse(area);
            let rank = point.round().clamp(1.0, self.count);
            let is_close = rank - point <= self.accepted_at_once;
            if is_close || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u32;
            }
        }
    }

    fn weight(&self, point: f64) -> f64 {
        point.powf(-self.exponent)
    }

    /// The integral of the weight from 1.
    fn integral(&self, point: f64) -> f64 {
        let log = point.ln();
        log * exp_m1_ratio((1.0 - self.exponent) * log)
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding may bring it below where there is an inverse.
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        (area * ln_1p_ratio(scaled)).exp()
    }
}

/// (e^x - 1) / x, also where x is 0.
fn exp_m1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, also where x is 0.
fn ln_1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

/// The word of a rank, in the order a, b, …, z, aa, ab, …: frequent words are short.
fn push_word(into: &mut Vec<u8>, rank: u32) {
    let mut letters = [0; 7];
    let (mut left, mut at) = (rank, letters.len());
    while left > 0 {
        at -= 1;
        letters[at] = b'a' + ((left - 1) % 26) as u8;
        left = (left - 1) / 26;
    }
    into.extend_from_slice(&letters[at..]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn text(generator: ZipfWords) -> String {
        let mut text = Vec::new();
        (0..generator.chunks()).for_each(|chunk| generator.write_chunk(chunk, &mut text));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn words_are_different_and_in_the_order_of_their_ranks() {
        let words: Vec<String> = (1..=20_000)
            .map(|rank| {
                let mut word = Vec::new();
                push_word(&mut word, rank);
                String::from_utf8(word).unwrap()
            })
            .collect();
        let ordered = |word: &String| (word.len(), word.clone());
        assert!(words.is_sorted_by(|one, next| ordered(one) < ordered(next)));
        assert_eq!((&*words[0], &*words[25], &*words[26]), ("a", "z", "aa"));
        let mut last = Vec::new();
        push_word(&mut last, u32::MAX);
        assert_eq!(last.len(), 7);
    }

    #[test]
    fn words_are_as_frequent_as_their_rank_says() {
        for (count, exponent) in [(1, 1.0), (50, 0.0), (50, 0.7), (1000, 1.0), (1000, 1.3)] {
            let text = text(ZipfWords::new(3 << 20, count, exponent, 3));
            let mut found = HashMap::<&str, u32>::new();
            text.split_whitespace().for_each(|word| *found.entry(word).or_default() += 1);
            let all: u32 = found.values().sum();
            let weights: f64 = (1..=count).map(|rank| f64::from(rank).powf(-exponent)).sum();
            let mut word = Vec::new();
            for rank in 1..=count {
                word.clear();
                push_word(&mut word, rank);
                let found = found.remove(std::str::from_utf8(&word).unwrap()).unwrap_or(0);
                let expected = f64::from(all) * f64::from(rank).powf(-exponent) / weights;
                // Five standard deviations of a count.
                let apart = (f64::from(found) - expected).abs();
                assert!(
                    apart < 5.0 * expected.sqrt() + 1.0,
                    "{rank} of {count}: {found}, {expected}"
                );
            }
            assert!(found.is_empty(), "words beyond the last one: {found:?}");
        }
    }

    #[test]
    fn text_is_as_long_as_asked_for_and_ends_with_a_line() {
        for bytes in [0, 1, 2, 100, 1 << 20, (2 << 20) + 7] {
            let text = text(ZipfWords::new(bytes, 5_000, 1.0, 1));
            let chunks = bytes.div_ceil(CHUNK_BYTES);
            assert!(text.len() as u64 <= bytes && text.len() as u64 + 8 * chunks >= bytes);
            assert!(text.is_empty() || text.ends_with('\n'));
            assert!(text.lines().all(|line| line.split(' ').count() <= LINE_WORDS));
        }
        let text = |seed| text(ZipfWords::new(1000, 5_000, 1.0, seed));
        assert!(text(1) == text(1) && text(1) != text(2));
    }
}
