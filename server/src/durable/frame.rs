//! A frame: a header of 48 bytes and a body, which says something of one partition or of the file.

use weft_protocol::{PartitionId, Version};

use crate::limits::FRAME_BODY_MAX;

/// Bytes of a frame before its body.
pub(super) const FRAME_HEADER_BYTES: usize = 48;
/// What a frame begins with, at a multiple of 8: where to look for one behind damage.
pub(super) const FRAME_MAGIC: [u8; 4] = *b"frm\x01";
/// Where the bytes start that the header's own checksum is of.
const CHECKED_AT: usize = 8;

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// The body is entries of the partition, from `first` to `last`, whole and without gaps.
    Entries = 1,
    /// The partition takes nothing of an epoch below `epoch` any more.
    Fence = 2,
    /// A snapshot of what the partition holds begins, `last` being its last entry so far. What is needed once it has ended begins here.
    SnapshotBegin = 3,
    /// The partition begins anew with a snapshot, or empty: what was before is void from here on.
    AnewBegin = 4,
    /// The body is records of the snapshot; `first` counts them from 0.
    SnapshotPiece = 5,
    /// The snapshot is complete, and has had `first` pieces.
    SnapshotEnd = 6,
    /// The node no longer holds the partition.
    Forgotten = 7,
    /// All partitions of the log as of here: the first frame of each file.
    Roster = 8,
    /// Only says how much was synced.
    Mark = 9,
    /// The log was closed in good order, with all that was ever appended.
    Close = 10,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        Some(match byte {
            1 => FrameKind::Entries,
            2 => FrameKind::Fence,
            3 => FrameKind::SnapshotBegin,
            4 => FrameKind::AnewBegin,
            5 => FrameKind::SnapshotPiece,
            6 => FrameKind::SnapshotEnd,
            7 => FrameKind::Forgotten,
            8 => FrameKind::Roster,
            9 => FrameKind::Mark,
            10 => FrameKind::Close,
            _ => return None,
        })
    }

    /// Whether it is of one partition, and not of the file.
    pub(super) fn is_of_partition(self) -> bool {
        !matches!(self, FrameKind::Roster | FrameKind::Mark | FrameKind::Close)
    }
}

/// What precedes a frame's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What it says.
    pub kind: FrameKind,
    /// Of whom; 0 in a frame that is of the file.
    pub partition: PartitionId,
    /// The fence epoch, of kinds that have one.
    pub epoch: u32,
    /// Where in this file all before was synced when this was written. Damage below is no torn write.
    pub synced: u64,
    /// The first entry's version, or a count: see the kind.
    pub first: Version,
    /// The last entry's version.
    pub last: Version,
    /// Bytes of the body.
    pub body_len: u32,
    /// CRC-32C of the body.
    pub body_checksum: u32,
}

impl FrameHeader {
    /// One without a body.
    pub(super) fn new(kind: FrameKind, partition: PartitionId) -> FrameHeader {
        let (first, last) = (Version::NONE, Version::NONE);
        let (epoch, synced, body_len, body_checksum) = (0, 0, 0, 0);
        FrameHeader { kind, partition, epoch, synced, first, last, body_len, body_checksum }
    }

    /// The header of the frame that stands at `offset` of the file whose [seed](super::Identity::seed) is `seed`.
    pub(super) fn encode(&self, seed: u32, offset: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&FRAME_MAGIC);
        bytes[8..12].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_checksum.to_le_bytes());
        bytes[16] = self.kind as u8;
        bytes[18..20].copy_from_slice(&self.partition.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.synced.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.last.0.to_le_bytes());
        let checksum = checksum(seed, offset, &bytes[CHECKED_AT..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote for the same file and offset; `None` if it is anything else. A frame that was copied from
    /// elsewhere, into a value for example, is none.
    pub(super) fn decode(bytes: &[u8], seed: u32, offset: u64) -> Option<FrameHeader> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        let found = (word(0) >> 32) as u32;
        if bytes[..4] != FRAME_MAGIC || found != checksum(seed, offset, &bytes[CHECKED_AT..]) {
            return None;
        }
        let header = FrameHeader {
            kind: FrameKind::from_byte(bytes[16])?,
            partition: PartitionId((word(2) >> 16) as u16),
            epoch: (word(2) >> 32) as u32,
            synced: word(3),
            first: Version(word(4)),
            last: Version(word(5)),
            body_len: word(1) as u32,
            body_checksum: (word(1) >> 32) as u32,
        };
        (bytes[17] == 0 && header.body_len as usize <= FRAME_BODY_MAX).then_some(header)
    }

    /// Bytes of the frame in its file, with the zeroes that fill it up.
    pub(super) fn frame_len(&self) -> usize {
        frame_len(self.body_len as usize)
    }
}

/// Bytes of a frame with a body of `len` bytes.
pub(super) const fn frame_len(len: usize) -> usize {
    (FRAME_HEADER_BYTES + len).next_multiple_of(8)
}

fn checksum(seed: u32, offset: u64, checked: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &offset.to_le_bytes()), checked)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind() -> impl Strategy<Value = FrameKind> {
        (1_u8..=10).prop_map(|byte| FrameKind::from_byte(byte).unwrap())
    }

    prop_compose! {
        fn header()(
            kind in kind(),
            partition: u16,
            epoch: u32,
            synced: u64,
            first: u64,
            last: u64,
            body_len in 0..=FRAME_BODY_MAX as u32,
            body_checksum: u32,
        ) -> FrameHeader {
            FrameHeader {
                kind,
                partition: PartitionId(partition),
                epoch,
                synced,
                first: Version(first),
                last: Version(last),
                body_len,
                body_checksum,
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_there_and_nowhere_else(
            header in header(),
            seed: u32,
            offset: u64,
            elsewhere: u64,
        ) {
            let bytes = header.encode(seed, offset);
            prop_assert_eq!(FrameHeader::decode(&bytes, seed, offset), Some(header));
            prop_assert_eq!(FrameHeader::decode(&bytes, seed ^ 1, offset), None);
            if elsewhere != offset {
                prop_assert_eq!(FrameHeader::decode(&bytes, seed, elsewhere), None);
            }
            prop_assert_eq!(FrameHeader::decode(&bytes[..47], seed, offset), None);
        }

        #[test]
        fn mutations_are_noticed(
            header in header(),
            seed: u32,
            offset: u64,
            changes in prop::collection::vec((0..FRAME_HEADER_BYTES, 1_u8..), 1..4),
        ) {
            let bytes = header.encode(seed, offset);
            let mut mutated = bytes;
            changes.iter().for_each(|(at, change)| mutated[*at] ^= change);
            if mutated != bytes {
                prop_assert_eq!(FrameHeader::decode(&mutated, seed, offset), None);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: [u8; FRAME_HEADER_BYTES], seed: u32, offset: u64) {
            if let Some(header) = FrameHeader::decode(&bytes, seed, offset) {
                prop_assert_eq!(header.encode(seed, offset), bytes);
            }
        }
    }
}
