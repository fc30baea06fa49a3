//! The first frame of a file: all partitions of the log as of there, so that nothing of one needs to be looked for in files before its base.

use weft_protocol::{PartitionId, Version};

use super::holdings::{Holdings, Position};

/// Bytes of a partition in a roster.
const ENTRY_BYTES: usize = 32;
/// The partition is not complete.
const BROKEN: u16 = 1;

/// A partition in a roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RosterEntry {
    pub(super) partition: PartitionId,
    pub(super) is_broken: bool,
    pub(super) epoch: u32,
    pub(super) last: Version,
    pub(super) base: Position,
}

/// The body of a roster, in order of the partitions.
pub(super) fn encode(holdings: &Holdings) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (partition, held) in holdings.iter() {
        let flags = if held.broken.is_some() { BROKEN } else { 0 };
        bytes.extend_from_slice(&partition.0.to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&held.epoch.to_le_bytes());
        bytes.extend_from_slice(&held.last.0.to_le_bytes());
        bytes.extend_from_slice(&held.base.file.to_le_bytes());
        bytes.extend_from_slice(&held.base.offset.to_le_bytes());
    }
    bytes
}

/// `None` if the bytes are no roster, though their checksum is right.
pub(super) fn decode(body: &[u8]) -> Option<Vec<RosterEntry>> {
    let (entries, rest) = body.as_chunks::<ENTRY_BYTES>();
    let entries: Vec<RosterEntry> = entries.iter().map(entry).collect();
    let in_order = entries.is_sorted_by(|before, after| before.partition < after.partition);
    (rest.is_empty() && in_order).then_some(entries)
}

fn entry(bytes: &[u8; ENTRY_BYTES]) -> RosterEntry {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |index: usize| u64::from_le_bytes(words[index]);
    RosterEntry {
        partition: PartitionId(word(0) as u16),
        is_broken: (word(0) >> 16) as u16 & BROKEN != 0,
        epoch: (word(0) >> 32) as u32,
        last: Version(word(1)),
        base: Position { file: word(2), offset: word(3) },
    }
}
