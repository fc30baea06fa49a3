//! Which slot a key falls into: the unit in which keys are spread over partitions.

mod crc16;

use std::fmt;

/// A slot: CRC16 of the key, or of its hash tag, modulo 16384, exactly as in Redis Cluster, so that
/// clients of that protocol route natively. The table plays no part: keys of one tag lie together
/// across tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// How many slots there are.
    pub const COUNT: u16 = 16_384;

    /// The slot of `key`.
    ///
    /// If the key has a `{`, and a `}` after it with at least one byte between, only the bytes
    /// between the first `{` and the first `}` behind it are hashed: `{user1000}.following` and
    /// `{user1000}.followers` share a slot.
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        Self(crc16::xmodem(hashed_part(key)) % Self::COUNT)
    }

    /// The slot with this number, if there is one.
    #[inline]
    pub const fn from_number(number: u16) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// The slot's number, below [`COUNT`](Self::COUNT).
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The bytes of `key` that decide its slot. Most keys have no tag, which is seen fastest by looking
/// at all bytes at once.
#[inline]
fn hashed_part(key: &[u8]) -> &[u8] {
    let tagged = key.iter().fold(false, |tagged, &byte| tagged | (byte == b'{'));
    if tagged { hash_tag(key).unwrap_or(key) } else { key }
}

/// The bytes between the first `{` and the first `}` behind it, if there are any.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let tag = &key[open + 1..];
    let close = tag.iter().position(|&byte| byte == b'}')?;
    (close > 0).then(|| &tag[..close])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are what redis-server 7.0.15 answers to `CLUSTER KEYSLOT`.
    fn check(key: &str, slot: u16) {
        assert_eq!(Slot::of(key.as_bytes()).number(), slot, "{key}");
    }

    #[test]
    fn slots_are_those_of_redis_cluster() {
        check("123456789", 0x31C3);
        check("foo", 12182);
        check("bar", 5061);
        check("hello", 866);
        check("somekey", 11058);
        check("user6284781860667377211", 10488);
        check("", 0);
    }

    #[test]
    fn a_hash_tag_decides_alone() {
        check("user1000", 3443);
        check("{user1000}.following", 3443);
        check("{user1000}.followers", 3443);
        check("foo{hash_tag}", 2515);
        // The first tag counts, up to the first brace that closes it.
        check("foo{bar}{zap}", 5061);
        check("foo}{bar}x", 5061);
        check("foo{{bar}}zap", 4015);
    }

    #[test]
    fn an_empty_or_open_tag_is_none() {
        check("foo{}{bar}", 8363);
        check("a{b", 13340);
        check("{", 4092);
        check("}", 12090);
    }

    #[test]
    fn numbers_end_at_the_count() {
        assert_eq!(Slot::from_number(16_383).map(Slot::number), Some(16_383));
        assert_eq!(Slot::from_number(16_384), None);
    }
}
