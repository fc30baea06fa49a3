//! What the nodes of a group know, and nobody else.

use std::fmt;
use std::hint::black_box;

/// 128 random bits that tell nodes that belong together from others that can connect to them. They
/// are shown in the hello, as they are: a link that others can read needs more than this.
///
/// To compare two takes the same time whatever they are, and they are never printed.
#[derive(Clone, Copy)]
pub struct Secret(u128);

impl Secret {
    /// Bytes that it takes in a hello.
    pub const BYTES: usize = 16;

    /// The secret of these bits, which whoever makes them up draws at random.
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        // All bits are looked at before the one question about them.
        black_box(self.0 ^ other.0) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts_and_none_is_printed() {
        let secret = Secret::new(0x0123_4567_89ab_cdef << 64 | 7);
        assert_eq!(secret, Secret::from_bytes(secret.to_bytes()));
        for bit in 0..128 {
            assert_ne!(secret, Secret::new(secret.0 ^ 1 << bit));
        }
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
