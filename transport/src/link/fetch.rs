//! What a link may be able to do beside carrying bytes: one side reads the other's memory by itself.
//!
//! A sender that offers a large body says where it lies, in the words of the link, and keeps it there. The
//! receiver reads it part by part, and says when it has read all: the sender's processor has no part in
//! that. The session decides what is read when (`session/landings.rs`), and how much at once.

use std::fmt::Debug;

use crate::memory::Block;

/// Where a piece of an offered body lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// As the device of the side that offers it names it.
    pub address: u64,
    /// Without which nothing is read; good for this piece and as long as it is offered.
    pub key: u32,
    /// In bytes.
    pub len: u32,
}

impl Source {
    /// Bytes of one on the wire.
    pub const BYTES: usize = 16;

    /// The body of the frame that names it.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_le_bytes());
        bytes[12..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Reads one; nothing if these bytes are none. A link refuses what it has never offered.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let (address, rest) = bytes.split_first_chunk()?;
        let (key, len) = rest.split_first_chunk()?;
        Some(Self {
            address: u64::from_le_bytes(*address),
            key: u32::from_le_bytes(*key),
            len: u32::from_le_bytes(len.try_into().ok()?),
        })
    }
}

/// A piece of a body that the peer may read for as long as this lives, and not after.
pub(crate) trait Offer: Debug + Send {
    /// Where the peer finds it.
    fn source(&self) -> Source;
}

/// A body that is being read from the peer's memory into a block of this side. Dropping it in the middle is
/// safe: the block is given back when the link is done with it.
pub(crate) trait Fetch: Debug + Send {
    /// Bytes of the part that would be read next, a chunk at most; zero if all has been begun.
    fn next_len(&self) -> usize;

    /// Begins to read that part. If the link fails at that, so does the connection.
    fn begin_next(&mut self);

    /// How many parts have come since this was asked last, and their bytes.
    fn take_arrived(&mut self) -> (usize, usize);

    /// The block, with the body in it; nothing before all has come.
    fn into_block(self: Box<Self>) -> Option<Block>;
}
