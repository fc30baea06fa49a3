//! The first bytes of a file: whose it is, and where the file before it ends.

use weft_transport::NodeId;

/// Bytes of a file before its first frame.
pub(super) const FILE_HEADER_BYTES: usize = 72;
/// What a file begins with.
const MAGIC: [u8; 8] = *b"weft-log";
/// This release's format: of the files, and of the records in them.
const FORMAT: u32 = 1;

/// What is promised of a partition's entries once they are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// `disk`: they are written behind, and are complete after an orderly close only.
    Disk = 1,
    /// `fsync`: they are synced before anybody is told that they are durable.
    Fsync = 2,
}

impl Mode {
    /// What the command line and configuration call it.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Disk => "disk",
            Mode::Fsync => "fsync",
        }
    }
}

/// Whose log it is. The files of another are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's id.
    pub cluster: u128,
    /// The node's.
    pub node: NodeId,
    /// A node has a log for each.
    pub mode: Mode,
}

impl Identity {
    /// Where the checksums of a file's frames begin: with whose the file is and its number, so that no byte of another file is taken
    /// for one of this, not even where the header is damaged.
    pub(super) fn seed(&self, file: u64) -> u32 {
        let mut bytes = [0; 33];
        bytes[0..16].copy_from_slice(&self.cluster.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.node.0.to_le_bytes());
        bytes[24] = self.mode as u8;
        bytes[25..33].copy_from_slice(&file.to_le_bytes());
        crc32c::crc32c(&bytes)
    }
}

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) identity: Identity,
    /// The file's number: each is one more than the one before it.
    pub(super) file: u64,
    /// The file before that has frames; 0 if there is none. Those between are left from crashes and say nothing.
    pub(super) previous_file: u64,
    /// Where its frames end: what is behind that was torn by a crash and never acknowledged.
    pub(super) previous_end: u64,
}

/// Why a file's first bytes are no header of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// They are not what anybody wrote: torn or damaged.
    Damaged,
    /// They are intact, and of a format that this release does not know.
    Format(u32),
}

impl FileHeader {
    pub(super) fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.identity.cluster.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.identity.node.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.file.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.previous_file.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.previous_end.to_le_bytes());
        bytes[64] = self.identity.mode as u8;
        let checksum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<FileHeader, HeaderError> {
        let bytes: &[u8; FILE_HEADER_BYTES] = bytes.first_chunk().ok_or(HeaderError::Damaged)?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        let (format, found) = (word(1) as u32, (word(1) >> 32) as u32);
        if words[0] != MAGIC || found != checksum(bytes) {
            return Err(HeaderError::Damaged);
        }
        if format != FORMAT {
            return Err(HeaderError::Format(format));
        }
        let mode = match word(8) {
            1 => Mode::Disk,
            2 => Mode::Fsync,
            // Its checksum is right, so this was written by who means something by it.
            _ => return Err(HeaderError::Format(format)),
        };
        let cluster = u128::from(word(2)) | u128::from(word(3)) << 64;
        let identity = Identity { cluster, node: NodeId(word(4)), mode };
        Ok(FileHeader { identity, file: word(5), previous_file: word(6), previous_end: word(7) })
    }
}

/// Of all bytes but its own.
fn checksum(bytes: &[u8; FILE_HEADER_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FileHeader {
        let identity = Identity { cluster: 5 << 70 | 3, node: NodeId(7), mode: Mode::Fsync };
        FileHeader { identity, file: 9, previous_file: 8, previous_end: 1 << 33 }
    }

    #[test]
    fn what_was_written_is_read_and_every_flipped_bit_is_noticed() {
        let bytes = header().encode();
        assert_eq!(FileHeader::decode(&bytes), Ok(header()));
        assert_eq!(FileHeader::decode(&bytes[..71]), Err(HeaderError::Damaged));
        for bit in 0..FILE_HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHeader::decode(&flipped), Err(HeaderError::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn a_format_that_is_not_known_is_told_from_damage() {
        let mut bytes = header().encode();
        bytes[8] = 2;
        let right = checksum(&bytes);
        bytes[12..16].copy_from_slice(&right.to_le_bytes());
        assert_eq!(FileHeader::decode(&bytes), Err(HeaderError::Format(2)));
    }
}
