//! What the two ends of a connection tell each other over TCP before they meet on the device.

use super::credits::{RECEIVES_MAX, RECEIVES_MIN};
use crate::secret::Secret;

/// Bytes of an introduction.
pub(in crate::link) const INTRODUCTION_BYTES: usize = 64;

/// How an introduction begins: no frame begins so, since none is so long.
pub(in crate::link) const MAGIC: [u8; 8] = *b"WEFTVRBS";

const VERSION: u8 = 1;

/// Says that a secret is shown.
const SHOWS_SECRET: u8 = 1;

/// The smallest receive that a peer may have, in bytes.
const RECEIVE_BYTES_MIN: u32 = 1024;

/// What one queue pair needs to know of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) struct Address {
    pub(in crate::link) pair: u32,
    /// The number of its first packet.
    pub(in crate::link) packet: u32,
    pub(in crate::link) lid: u16,
    pub(in crate::link) gid: [u8; 16],
    /// The largest packet, as devices number them.
    pub(in crate::link) mtu: u32,
}

/// One end, as the other has to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::link) struct Introduction {
    pub(in crate::link) address: Address,
    /// Receives that it has posted for this connection.
    pub(in crate::link) receives: u32,
    /// The longest message that each of them takes, in bytes.
    pub(in crate::link) receive_bytes: u32,
    /// Reads of memory that it has under way at most, and as many of the peer's that it answers at once.
    /// None if it does neither.
    pub(in crate::link) reads: u8,
    /// Shown by the end that connects, so that a stranger is given nothing.
    pub(in crate::link) secret: Option<Secret>,
}

impl Introduction {
    pub(in crate::link) fn encode(&self) -> [u8; INTRODUCTION_BYTES] {
        let mut bytes = [0; INTRODUCTION_BYTES];
        let Address { pair, packet, lid, gid, mtu } = self.address;
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = VERSION;
        bytes[9] = if self.secret.is_some() { SHOWS_SECRET } else { 0 };
        bytes[10] = mtu as u8;
        bytes[11] = self.reads;
        bytes[12..14].copy_from_slice(&lid.to_le_bytes());
        bytes[14..16].copy_from_slice(&(self.receives as u16).to_le_bytes());
        bytes[16..20].copy_from_slice(&pair.to_le_bytes());
        bytes[20..24].copy_from_slice(&packet.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.receive_bytes.to_le_bytes());
        bytes[32..48].copy_from_slice(&gid);
        if let Some(secret) = self.secret {
            bytes[48..].copy_from_slice(&secret.to_bytes());
        }
        bytes
    }

    /// Nothing if it is none, or says what cannot be.
    pub(in crate::link) fn decode(bytes: &[u8; INTRODUCTION_BYTES]) -> Option<Self> {
        let array =
            |at: usize| -> [u8; 4] { bytes[at..at + 4].try_into().expect("four bytes were taken") };
        let word = |at: usize| u32::from_le_bytes(array(at));
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if bytes[..8] != MAGIC || bytes[8] != VERSION {
            return None;
        }
        let gid = bytes[32..48].try_into().expect("16 bytes were taken");
        let secret = bytes[48..].try_into().expect("16 bytes were taken");
        let address =
            Address { pair: word(16), packet: word(20), lid: half(12), gid, mtu: bytes[10].into() };
        let introduction = Self {
            address,
            receives: u32::from(half(14)).min(RECEIVES_MAX),
            receive_bytes: word(24),
            reads: bytes[11],
            secret: (bytes[9] & SHOWS_SECRET != 0).then(|| Secret::from_bytes(secret)),
        };
        let is_possible = (1..=5).contains(&introduction.address.mtu)
            && introduction.receives >= RECEIVES_MIN
            && introduction.receive_bytes >= RECEIVE_BYTES_MIN
            && introduction.address.pair < 1 << 24
            && introduction.address.packet < 1 << 24;
        is_possible.then_some(introduction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction() -> Introduction {
        let address = Address { pair: 17, packet: 0xab_cdef, lid: 3, gid: [7; 16], mtu: 3 };
        let secret = Some(Secret::new(0x1234 << 100));
        Introduction { address, receives: 32, receive_bytes: 8192, reads: 4, secret }
    }

    #[test]
    fn an_introduction_is_read_as_it_was_written() {
        let introduction = introduction();
        assert_eq!(Introduction::decode(&introduction.encode()), Some(introduction.clone()));
        let without = Introduction { secret: None, ..introduction };
        assert_eq!(Introduction::decode(&without.encode()), Some(without));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = introduction();
        let with = |address: Address| Introduction { address, ..good.clone() }.encode();
        let address = good.address;
        assert_eq!(Introduction::decode(&with(Address { mtu: 0, ..address })), None);
        assert_eq!(Introduction::decode(&with(Address { mtu: 6, ..address })), None);
        assert_eq!(Introduction::decode(&with(Address { pair: 1 << 24, ..address })), None);
        let few = Introduction { receives: RECEIVES_MIN - 1, ..good.clone() };
        assert_eq!(Introduction::decode(&few.encode()), None);
        let small = Introduction { receive_bytes: 10, ..good.clone() };
        assert_eq!(Introduction::decode(&small.encode()), None);
        let mut other = good.encode();
        other[8] = 2;
        assert_eq!(Introduction::decode(&other), None);
        assert_eq!(Introduction::decode(&[0; INTRODUCTION_BYTES]), None);
    }
}
