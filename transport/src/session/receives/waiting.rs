//! Messages that nobody has posted a receive for, in the order in which they have come.
//!
//! They are copied, so that little does not hold on to whole receive buffers, into registered memory,
//! so that the limit counts them. The peer's window bounds them: what they cost is not given back before
//! somebody has them. Of a large message, only its announcement is here.

use std::collections::VecDeque;

use crate::frame::{HEADER_BYTES, Header, padded};
use crate::limits::DEFER_BYTES;
use crate::memory::{Block, Memory, MemoryError, Purpose};

/// All that waits for one connection.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    chunks: VecDeque<Chunk>,
    /// How many messages are here whole.
    whole: usize,
}

#[derive(Debug)]
enum Chunk {
    /// Whole frames.
    Copied(Copied),
    /// A transfer that has not been granted anything.
    Announced { number: u64, len: usize },
}

#[derive(Debug)]
struct Copied {
    block: Block,
    /// End of the frames that have been handed over.
    taken: usize,
    /// End of the frames that are here.
    filled: usize,
}

/// The message that has waited longest.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// It is here.
    Whole { header: Header, body: &'a [u8] },
    /// It has been announced.
    Announced { number: u64, len: usize },
}

impl Next<'_> {
    /// Bytes of the message.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole { body, .. } => body.len(),
            Self::Announced { len, .. } => *len,
        }
    }
}

impl Waiting {
    /// How many messages are here whole.
    pub(super) fn whole(&self) -> usize {
        self.whole
    }

    /// Copies a message to the end.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) fn push(
        &mut self,
        header: &Header,
        body: &[u8],
        memory: &Memory,
    ) -> Result<(), MemoryError> {
        let len = HEADER_BYTES + padded(body.len());
        let copied = self.room_for(len, memory)?;
        let (start, end) = (copied.filled, copied.filled + len);
        copied.block.mark_touched(end);
        copied.block[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
        let start = start + HEADER_BYTES;
        copied.block[start..start + body.len()].copy_from_slice(body);
        copied.filled = end;
        self.whole += 1;
        Ok(())
    }

    /// Adds a large message to the end.
    pub(super) fn push_announced(&mut self, number: u64, len: usize) {
        self.chunks.push_back(Chunk::Announced { number, len });
    }

    /// The message that has waited longest.
    pub(super) fn front(&self) -> Option<Next<'_>> {
        Some(match self.chunks.front()? {
            Chunk::Announced { number, len } => Next::Announced { number: *number, len: *len },
            Chunk::Copied(copied) => {
                let (header, body) = copied.front();
                Next::Whole { header, body }
            }
        })
    }

    /// Lets go of the message that has waited longest.
    pub(super) fn pop_front(&mut self) {
        let is_done = match self.chunks.front_mut() {
            Some(Chunk::Copied(copied)) => {
                copied.taken += copied.front().0.frame_len();
                self.whole -= 1;
                copied.taken == copied.filled
            }
            Some(Chunk::Announced { .. }) => true,
            None => false,
        };
        if is_done {
            self.chunks.pop_front();
        }
    }

    /// Transfer `number` comes no more.
    pub(super) fn forget(&mut self, number: u64) {
        let is_it =
            |chunk: &Chunk| matches!(chunk, Chunk::Announced { number: n, .. } if *n == number);
        self.chunks.retain(|chunk| !is_it(chunk));
    }

    /// No transfer comes any more.
    pub(super) fn forget_announced(&mut self) {
        self.chunks.retain(|chunk| matches!(chunk, Chunk::Copied(_)));
    }

    /// A chunk at the end with room for `len` bytes.
    fn room_for(&mut self, len: usize, memory: &Memory) -> Result<&mut Copied, MemoryError> {
        let has_room = match self.chunks.back() {
            Some(Chunk::Copied(copied)) => copied.block.len() - copied.filled >= len,
            _ => false,
        };
        if !has_room {
            let block = memory.allocate(len.max(DEFER_BYTES), Purpose::Receive)?;
            self.chunks.push_back(Chunk::Copied(Copied { block, taken: 0, filled: 0 }));
        }
        match self.chunks.back_mut() {
            Some(Chunk::Copied(copied)) => Ok(copied),
            _ => unreachable!("there is one with room"),
        }
    }
}

impl Copied {
    fn front(&self) -> (Header, &[u8]) {
        let bytes = &self.block[self.taken..self.filled];
        let header = bytes.first_chunk().map(Header::decode);
        let header = header.expect("a chunk is not empty").expect("it was decoded when it came");
        (header, &bytes[HEADER_BYTES..HEADER_BYTES + header.len as usize])
    }
}
