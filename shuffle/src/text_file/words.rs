//! The words of a text, as a dataset.

use std::sync::atomic::AtomicU64;

use memchr::memchr_iter;
use weft_object::TextKey;

use super::block::{BLOCK_BYTES, bytes_that};
use super::valid::each_text;
use super::{Chunk, Cut, InputError, Share, TextFile};
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::worker::Worker;

/// See [`TextFile::words`].
#[derive(Debug)]
pub struct Words<'f> {
    pub(super) text: &'f TextFile,
    pub(super) cut: Cut,
    pub(super) share: Share,
    pub(super) file_bytes_read: &'f AtomicU64,
}

impl Dataset for Words<'_> {
    type Item = TextKey;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(TextKey) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        worker.has_read(&self.text.path);
        self.each(|word| sink(word.into()))
    }
}

impl Words<'_> {
    /// Calls `each` with the words, in the order of the file.
    pub(super) fn each<E: From<InputError>>(
        self,
        mut each: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let Words { text, cut, share, file_bytes_read } = self;
        let mut each = |lines: &str| {
            each_word(lines, &mut each)?;
            Ok(memchr_iter(b'\n', lines.as_bytes()).count() as u64)
        };
        let read = text.each_chunk(cut, share, file_bytes_read, |chunk| {
            let Chunk { bytes, begin } = chunk;
            match str::from_utf8(bytes) {
                Ok(lines) => each(lines),
                Err(_) => each_text(text, begin, bytes, &mut each),
            }
        });
        read.map(|_| ())
    }
}

/// Calls `each` with what is between white space, as [`str::split_whitespace`] has it. Words of a few letters end where no processor foresees it, so what may be white space is
/// found for a block at a time, with an instruction for many bytes.
#[inline]
fn each_word<E>(text: &str, mut each: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    let bytes = text.as_bytes();
    let mut start = 0;
    for at in (0..=bytes.len()).step_by(BLOCK_BYTES) {
        let mut candidates = match bytes[at..].first_chunk() {
            Some(block) => spaces(block),
            None => {
                // The end is white space, too, so that there is one place that gives words: it is made a part of this function.
                let mut block = [b' '; BLOCK_BYTES];
                block[..bytes.len() - at].copy_from_slice(&bytes[at..]);
                spaces(&block)
            }
        };
        while candidates != 0 {
            let end = at + candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let Some(space_bytes) = space_bytes(text, end) else { continue };
            if start < end {
                each(&text[start..end])?;
            }
            start = end + space_bytes;
        }
    }
    Ok(())
}

/// A bit for each byte with which white space may begin: one of ASCII, or the first of a character of two or three, of which some are.
#[inline]
fn spaces(block: &[u8; BLOCK_BYTES]) -> u64 {
    bytes_that(block, |byte| {
        let is_ascii = byte == b' ' || byte.wrapping_sub(b'\t') < 5;
        is_ascii | (byte == 0xc2) | (byte.wrapping_sub(0xe1) < 3)
    })
}

/// How many bytes the white space has that begins at `at`, if it is some. The end of the text is.
#[inline]
fn space_bytes(text: &str, at: usize) -> Option<usize> {
    if text.as_bytes().get(at).is_none_or(u8::is_ascii) {
        return Some(1);
    }
    let first = text[at..].chars().next().filter(|first| first.is_whitespace());
    first.map(char::len_utf8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        let starts_at = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        each_word::<()>(text, |word| {
            let start = starts_at(word);
            words.push(&text[start..start + word.len()]);
            Ok(())
        })
        .unwrap();
        words
    }

    #[test]
    fn each_character_that_is_white_space_ends_a_word_and_no_other() {
        for character in '\0'..=char::MAX {
            // Where a block ends, too.
            for before in [1, BLOCK_BYTES - 1, BLOCK_BYTES] {
                let text = format!("{}{character}b", "a".repeat(before));
                let expected = text.split_whitespace();
                assert!(words(&text).into_iter().eq(expected), "{character:?} behind {before}");
            }
        }
    }

    #[test]
    fn an_error_ends_it() {
        let mut seen = 0;
        let ended = each_word("a b c", |word| {
            seen += 1;
            if word == "b" { Err(word.len()) } else { Ok(()) }
        });
        assert_eq!((seen, ended), (2, Err(1)));
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_standard_library(text in "([ \n\u{2003}\u{a0}]{0,3}(\\PC{0,9}|[a-zé世]{1,70})){0,40}") {
            prop_assert_eq!(words(&text), text.split_whitespace().collect::<Vec<_>>());
        }
    }
}
