//! The name of a record: `user` and its hashed number, or its padded number.

use crate::fnv::fnv64;

/// How numbers become names (`insertorder`, `zeropadding`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyFormat {
    /// Names follow the numbers, instead of scattering them by a hash.
    pub(crate) ordered: bool,
    /// Digits at least, filled up with zeros on the left.
    pub(crate) zero_padding: usize,
}

impl KeyFormat {
    /// Writes the name of record `number` into `name`, which it empties first.
    pub(crate) fn write(self, number: u64, name: &mut Vec<u8>) {
        let number = if self.ordered { number } else { fnv64(number) };
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        name.clear();
        name.extend_from_slice(b"user");
        name.resize(name.len() + self.zero_padding.saturating_sub(digits.len()), b'0');
        name.extend_from_slice(digits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ordered: bool, zero_padding: usize, number: u64, expected: &str) {
        let mut name = b"left over".to_vec();
        KeyFormat { ordered, zero_padding }.write(number, &mut name);
        assert_eq!(String::from_utf8_lossy(&name), expected);
    }

    #[test]
    fn names_agree_with_upstream() {
        check(false, 1, 0, "user6284781860667377211");
        check(false, 1, 1, "user8517097267634966620");
        check(false, 22, 2, "user0001820151046732198393");
        check(true, 1, 0, "user0");
        check(true, 12, 999_999, "user000000999999");
        check(true, 3, 12_345, "user12345");
    }
}
