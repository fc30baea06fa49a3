//! What the two ends of a stream tell each other over TCP before they meet on the device.

use super::flow::{RECEIVES_MAX, RECEIVES_MIN, RING_BYTES_MAX, RING_BYTES_MIN, UNIT};
use super::introduction::Address;

/// Bytes of an invitation.
pub(crate) const INVITATION_BYTES: usize = 64;

/// How an invitation begins.
pub(in crate::link) const MAGIC: [u8; 8] = *b"WEFTRING";

const VERSION: u8 = 1;

/// One end of a stream, as the other has to know it: where to reach it, and the ring that it may write into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) struct Invitation {
    pub(in crate::link) address: Address,
    /// Receives that it has posted.
    pub(in crate::link) receives: u32,
    /// Where its ring lies, as its device names it.
    pub(in crate::link) ring_address: u64,
    /// The key by which it is written.
    pub(in crate::link) ring_key: u32,
    pub(in crate::link) ring_bytes: u32,
}

impl Invitation {
    pub(in crate::link) fn encode(&self) -> [u8; INVITATION_BYTES] {
        let mut bytes = [0; INVITATION_BYTES];
        let Address { pair, packet, lid, gid, mtu } = self.address;
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = VERSION;
        bytes[10] = mtu as u8;
        bytes[12..14].copy_from_slice(&lid.to_le_bytes());
        bytes[14..16].copy_from_slice(&(self.receives as u16).to_le_bytes());
        bytes[16..20].copy_from_slice(&pair.to_le_bytes());
        bytes[20..24].copy_from_slice(&packet.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.ring_bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.ring_key.to_le_bytes());
        bytes[32..48].copy_from_slice(&gid);
        bytes[48..56].copy_from_slice(&self.ring_address.to_le_bytes());
        bytes
    }

    /// Nothing if it is none, or says what cannot be.
    pub(in crate::link) fn decode(bytes: &[u8; INVITATION_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were taken"))
        };
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if bytes[..8] != MAGIC || bytes[8] != VERSION {
            return None;
        }
        let gid = bytes[32..48].try_into().expect("16 bytes were taken");
        let address =
            Address { pair: word(16), packet: word(20), lid: half(12), gid, mtu: bytes[10].into() };
        let ring_address = bytes[48..56].try_into().expect("8 bytes were taken");
        let invitation = Self {
            address,
            receives: u32::from(half(14)).min(RECEIVES_MAX),
            ring_address: u64::from_le_bytes(ring_address),
            ring_key: word(28),
            ring_bytes: word(24),
        };
        let Self { receives, ring_address, ring_bytes, .. } = invitation;
        let is_possible = (1..=5).contains(&address.mtu)
            && address.pair < 1 << 24
            && address.packet < 1 << 24
            && receives >= RECEIVES_MIN
            && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes)
            && u64::from(ring_bytes).is_multiple_of(UNIT)
            && ring_address.checked_add(ring_bytes.into()).is_some();
        is_possible.then_some(invitation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Invitation = Invitation {
        address: Address { pair: 17, packet: 0xab_cdef, lid: 3, gid: [7; 16], mtu: 3 },
        receives: 64,
        ring_address: 0x7fff_1234_5678,
        ring_key: 0xfeed_beef,
        ring_bytes: 256 << 10,
    };

    #[test]
    fn an_invitation_is_read_as_it_was_written() {
        assert_eq!(Invitation::decode(&GOOD.encode()), Some(GOOD));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let address = GOOD.address;
        let refused = [
            Invitation { address: Address { mtu: 0, ..address }, ..GOOD },
            Invitation { address: Address { mtu: 6, ..address }, ..GOOD },
            Invitation { address: Address { pair: 1 << 24, ..address }, ..GOOD },
            Invitation { address: Address { packet: 1 << 24, ..address }, ..GOOD },
            Invitation { receives: RECEIVES_MIN - 1, ..GOOD },
            Invitation { ring_bytes: RING_BYTES_MIN - 64, ..GOOD },
            Invitation { ring_bytes: RING_BYTES_MAX + 64, ..GOOD },
            Invitation { ring_bytes: (256 << 10) + 1, ..GOOD },
            Invitation { ring_address: u64::MAX - 1000, ..GOOD },
        ];
        for invitation in refused {
            assert_eq!(Invitation::decode(&invitation.encode()), None, "{invitation:?}");
        }
        let mut other = GOOD.encode();
        other[8] = 2;
        assert_eq!(Invitation::decode(&other), None);
        assert_eq!(Invitation::decode(&[0; INVITATION_BYTES]), None);
    }
}
