//! Texts as keys of records, made to be looked up in a table.

#![expect(unsafe_code, reason = "reads the bytes of words as the text that they were made of")]

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::ops::Deref;
use std::slice;

/// A text that a program has as the key of a record. Up to 23 bytes lie in the value itself, as three words: such a key is hashed and compared a word at a
/// time, and is made without a byte being written, since a word that is read right behind its single bytes waits for all of them.
#[derive(Clone)]
pub struct TextKey(Place);

#[derive(Clone)]
enum Place {
    Here(Short),
    There(Box<str>),
}

/// The bytes of a text, zeros behind them, and in the last byte their number and [`LEN`].
#[derive(Clone, Copy)]
#[repr(C)]
struct Short {
    low: u64,
    middle: u64,
    /// Never zero, so that a longer text has its place here without a word that says so.
    high: NonZeroU64,
}

/// Bytes of a text that lie in the value itself.
const SHORT_MAX: usize = size_of::<Short>() - 1;
/// Marks the number of bytes, so that the word is not zero where there are none.
const LEN: NonZeroU64 = NonZeroU64::new(0x80 << LEN_SHIFT).expect("is not zero");
const LEN_SHIFT: u32 = u64::BITS - 8;

const _: () = assert!(size_of::<TextKey>() == 24);

impl TextKey {
    /// Bytes of memory that it has beside those of the value itself, with the word that an allocator needs for each piece, and what it rounds up.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Place::Here(_) => 0,
            Place::There(text) => (text.len() + size_of::<usize>()).next_multiple_of(16),
        }
    }
}

impl From<&str> for TextKey {
    #[inline]
    fn from(text: &str) -> TextKey {
        TextKey(Short::new(text).map_or_else(|| Place::There(text.into()), Place::Here))
    }
}

impl Short {
    #[inline]
    fn new(text: &str) -> Option<Short> {
        let bytes = text.as_bytes();
        let (low, middle, high) = match bytes.len() {
            ..=8 => (word(bytes), 0, 0),
            9..=16 => (word(bytes), word(&bytes[8..]), 0),
            17..=SHORT_MAX => (word(bytes), word(&bytes[8..]), word(&bytes[16..])),
            _ => return None,
        };
        let len = (bytes.len() as u64) << LEN_SHIFT;
        Some(Short { low, middle, high: LEN | len | high })
    }

    /// Words of which the first that differ say which text comes first. Of two that differ in nothing but zeros at their ends, which are bytes of the one and none of the other, the shorter one does, as
    /// the number of bytes is the last one.
    #[inline]
    fn in_order(&self) -> [u64; 3] {
        [self.low, self.middle, self.high.get()].map(u64::swap_bytes)
    }

    #[inline]
    fn text(&self) -> &str {
        let len = (self.high.get() ^ LEN.get()) >> LEN_SHIFT;
        let first: *const Short = self;
        // SAFETY: the three words have no gaps between them and are little-endian, as `wire` makes sure, so they begin with the bytes of the text that they were made
        // of, as many as the last of them says.
        unsafe { str::from_utf8_unchecked(slice::from_raw_parts(first.cast(), len as usize)) }
    }
}

/// The first eight bytes; zeros behind them if there are fewer. Read at once, or in pieces that overlap, so that few cases are told apart.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    let len = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (len - size_of::<u32>()));
    }
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    if len == 0 { 0 } else { byte(0) | byte(len / 2) | byte(len - 1) }
}

impl Deref for TextKey {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match &self.0 {
            Place::Here(short) => short.text(),
            Place::There(text) => text,
        }
    }
}

impl Default for TextKey {
    fn default() -> TextKey {
        "".into()
    }
}

impl PartialEq for TextKey {
    #[inline]
    fn eq(&self, other: &TextKey) -> bool {
        match (&self.0, &other.0) {
            (Place::Here(one), Place::Here(other)) => {
                let low = one.low ^ other.low;
                let middle = one.middle ^ other.middle;
                low | middle | one.high.get() ^ other.high.get() == 0
            }
            (Place::There(one), Place::There(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for TextKey {}

/// In the order of their bytes.
impl Ord for TextKey {
    #[inline]
    fn cmp(&self, other: &TextKey) -> Ordering {
        match (&self.0, &other.0) {
            (Place::Here(one), Place::Here(other)) => one.in_order().cmp(&other.in_order()),
            _ => str::cmp(self, other),
        }
    }
}

impl PartialOrd for TextKey {
    fn partial_cmp(&self, other: &TextKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for TextKey {
    // A call would have the hasher lie in memory, and its state be asked for with each word.
    #[inline(always)]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Place::Here(Short { low, middle, high }) => {
                state.write_u128(u128::from(*low) | u128::from(*middle) << 64);
                state.write_u64(high.get());
            }
            Place::There(text) => text.hash(state),
        }
    }
}

impl fmt::Debug for TextKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for TextKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher as _, RandomState};

    use proptest::prelude::*;

    use super::*;

    fn texts() -> impl Strategy<Value = String> {
        // Around the lengths at which another word begins, or another place, and of texts that differ in little.
        prop_oneof!["[ab\0]{0,26}", "\\PC{0,30}", Just(String::new())]
    }

    proptest! {
        #[test]
        fn it_is_the_text_that_it_is_made_of(one in texts(), other in texts()) {
            let (key, other_key) = (TextKey::from(&*one), TextKey::from(&*other));
            prop_assert_eq!(&*key, &*one);
            prop_assert_eq!(&*key.clone(), &*one);
            prop_assert_eq!(key == other_key, one == other);
            prop_assert_eq!(key.cmp(&other_key), one.cmp(&other));
            let hasher = RandomState::new();
            prop_assert_eq!(hasher.hash_one(&key), hasher.hash_one(TextKey::from(&*one)));
            prop_assert_eq!(hasher.hash_one(&key) == hasher.hash_one(&other_key), one == other);
            prop_assert_eq!(key.heap_bytes() > one.len(), one.len() > 23);
            prop_assert!(key.heap_bytes() < one.len() + 24);
        }
    }

    #[test]
    fn texts_of_all_lengths_differ_by_each_of_their_bytes() {
        for len in 0..40 {
            let text = "x".repeat(len);
            let key = TextKey::from(&*text);
            assert_eq!(&*key, text);
            assert_ne!(key, TextKey::from(&*format!("{text}\0")));
            for at in 0..len {
                let mut changed = text.clone();
                changed.replace_range(at..=at, "y");
                let changed_key = TextKey::from(&*changed);
                assert_eq!(&*changed_key, changed);
                assert_ne!(key, changed_key);
            }
        }
        assert_eq!(TextKey::default(), TextKey::from(""));
    }
}
