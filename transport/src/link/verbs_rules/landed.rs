//! Reading bytes that a device may be writing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Copies bytes out of `words` from byte `offset` on, each of them once.
///
/// # Panics
/// If the words end before.
pub(in crate::link) fn load(words: &[AtomicU64], offset: usize, into: &mut [u8]) {
    let first = offset % 8;
    let mut words = words[offset / 8..].iter();
    // In the order of memory, whatever the machine's is.
    let mut next = || {
        let word = words.next().expect("no more is read than there is");
        word.load(Ordering::Relaxed).to_le().to_le_bytes()
    };
    let mut into = into;
    if first > 0 && !into.is_empty() {
        let (head, rest) = into.split_at_mut(into.len().min(8 - first));
        head.copy_from_slice(&next()[first..first + head.len()]);
        into = rest;
    }
    let (whole, tail) = into.as_chunks_mut();
    for bytes in whole {
        *bytes = next();
    }
    if !tail.is_empty() {
        tail.copy_from_slice(&next()[..tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_memory_is_read_as_it_lies() {
        let bytes: Vec<u8> = (1..=40).collect();
        let word = |bytes: &[u8; 8]| AtomicU64::new(u64::from_le_bytes(*bytes).to_le());
        let words: Vec<AtomicU64> = bytes.as_chunks().0.iter().map(word).collect();
        for start in 0..=bytes.len() {
            for end in start..=bytes.len() {
                let mut into = vec![0; end - start];
                load(&words, start, &mut into);
                assert_eq!(into, bytes[start..end], "{start}..{end}");
            }
        }
    }
}
