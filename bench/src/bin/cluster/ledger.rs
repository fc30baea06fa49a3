//! What was written of which key, and what of that was acknowledged: the account that reads are held against.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(crate) const KEY_BYTES: usize = 16;
pub(crate) const VALUE_BYTES: usize = 100;

/// Of each key, how often it was written. A key has one writer at a time, and any number of readers.
pub(crate) struct Ledger {
    entries: Box<[Entry]>,
}

#[derive(Default)]
struct Entry {
    /// The last write that was begun.
    issued: AtomicU32,
    /// The last write that was acknowledged.
    acknowledged: AtomicU32,
    /// A write ended with an error, so that it may come to pass at any time: nobody writes the key again.
    is_doubtful: AtomicBool,
}

/// What a read shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The last write that had been acknowledged when it began, or a later one.
    Fine,
    /// An earlier one.
    Stale,
    /// None at all.
    Absent,
    /// What nobody wrote.
    Garbled,
}

impl Ledger {
    pub(crate) fn new(keys: u32) -> Self {
        Self { entries: (0..keys).map(|_| Entry::default()).collect() }
    }

    pub(crate) fn keys(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.keys()) * (KEY_BYTES + VALUE_BYTES) as u64
    }

    /// The number of the next write of `key`, if there may be one.
    pub(crate) fn begin_write(&self, key: u32) -> Option<u32> {
        let entry = self.entry(key);
        if entry.is_doubtful.load(Ordering::Acquire) {
            return None;
        }
        Some(entry.issued.fetch_add(1, Ordering::AcqRel) + 1)
    }

    pub(crate) fn end_write(&self, key: u32, number: u32, is_acknowledged: bool) {
        let entry = self.entry(key);
        if is_acknowledged {
            entry.acknowledged.store(number, Ordering::Release);
        } else {
            entry.is_doubtful.store(true, Ordering::Release);
        }
    }

    /// The last write of `key` that was acknowledged: the least that a read that begins now has to show.
    pub(crate) fn acknowledged(&self, key: u32) -> u32 {
        self.entry(key).acknowledged.load(Ordering::Acquire)
    }

    /// What to make of `found`, which a read has shown that was to show at least the write `least`.
    pub(crate) fn judge(&self, key: u32, least: u32, found: Option<&[u8]>) -> Finding {
        let Some(found) = found else {
            return if least == 0 { Finding::Fine } else { Finding::Absent };
        };
        let Some(number) = number_in(found) else { return Finding::Garbled };
        let issued = self.entry(key).issued.load(Ordering::Acquire);
        if number > issued || value(key, number) != found {
            Finding::Garbled
        } else if number < least {
            Finding::Stale
        } else {
            Finding::Fine
        }
    }

    fn entry(&self, key: u32) -> &Entry {
        &self.entries[key as usize]
    }
}

/// `key:` and twelve digits, written without the formatting machinery.
pub(crate) fn key(number: u32) -> [u8; KEY_BYTES] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// What write `number` of `key` writes, of which no byte is like that of another write for no reason.
pub(crate) fn value(key: u32, number: u32) -> [u8; VALUE_BYTES] {
    let mut bytes = [0; VALUE_BYTES];
    let mut word = (u64::from(key) << 32) | u64::from(number);
    bytes[..8].copy_from_slice(&word.to_le_bytes());
    for chunk in bytes[8..].chunks_mut(8) {
        word = word.wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word ^= word >> 29;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    bytes
}

fn number_in(value: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*value.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(key: u32, times: u32) -> Ledger {
        let ledger = Ledger::new(key + 1);
        for _ in 0..times {
            let number = ledger.begin_write(key).unwrap();
            ledger.end_write(key, number, true);
        }
        ledger
    }

    #[test]
    fn a_read_may_show_what_was_acknowledged_before_it_or_later_writes() {
        let ledger = written(7, 3);
        let number = ledger.begin_write(7).unwrap();
        let judge = |number| ledger.judge(7, 3, Some(&value(7, number)));
        assert_eq!([judge(2), judge(3)], [Finding::Stale, Finding::Fine]);
        assert_eq!(judge(number), Finding::Fine);
        assert_eq!(judge(number + 1), Finding::Garbled);
        assert_eq!(ledger.judge(7, 3, Some(&value(6, 3))), Finding::Garbled);
        assert_eq!(ledger.judge(7, 3, None), Finding::Absent);
    }

    #[test]
    fn what_is_in_doubt_may_be_there_and_is_not_written_again() {
        let ledger = written(1, 1);
        let number = ledger.begin_write(1).unwrap();
        ledger.end_write(1, number, false);
        assert_eq!(ledger.begin_write(1), None);
        let least = ledger.acknowledged(1);
        for number in [1, 2] {
            assert_eq!(ledger.judge(1, least, Some(&value(1, number))), Finding::Fine);
        }
    }

    #[test]
    fn keys_are_numbered() {
        assert_eq!(&key(4_294_967_295), b"key:004294967295");
    }
}
