//! Requests that came while replies had no room, kept until there is.
//!
//! They are copied, so that little does not hold on to whole receive buffers, into registered
//! memory, so that the limit counts them; large ones have a block of their own already. The peer's window bounds them: what it costs is not given
//! back before the handler has taken them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use crate::connection::{Core, Untaken};
use crate::frame::{HEADER_BYTES, Header, padded};
use crate::handler::Source;
use crate::limits::DEFER_BYTES;
use crate::memory::{Block, Memory, MemoryError, Purpose, Shared};
use crate::session::inbound::FrameRef;

use super::Command;

/// Frames that the handler is offered at once.
const RUN_MAX: usize = 256;

/// Whole frames, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    chunks: VecDeque<Chunk>,
}

#[derive(Debug)]
enum Chunk {
    Copied(Copied),
    Whole(FrameRef, Shared, Option<Untaken>),
}

/// A block of copies.
#[derive(Debug)]
struct Copied {
    block: Block,
    /// End of the frames that the handler has taken.
    taken: usize,
    /// End of the frames that are here.
    filled: usize,
}

/// Wakes a reactor for the sake of what a connection has set aside.
struct Again(Weak<Core>);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        if let Some(core) = self.0.upgrade() {
            Arc::clone(&core.reactor).submit(Command::Retry(core));
        }
    }
}

/// Has what was set aside on `core` tried again.
pub(crate) fn again(core: &Arc<Core>) -> Waker {
    Waker::from(Arc::new(Again(Arc::downgrade(core))))
}

impl Deferred {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Copies `frames`, which lie in `buffer`, to the end.
    ///
    /// # Errors
    /// When there is no memory for one of them; those before it have been copied.
    pub(super) fn push(
        &mut self,
        frames: &[FrameRef],
        buffer: &Shared,
        memory: &Memory,
    ) -> Result<(), MemoryError> {
        for frame in frames {
            let start = frame.body.start - HEADER_BYTES;
            let bytes = &buffer[start..start + HEADER_BYTES + padded(frame.body.len())];
            let chunk = self.room_for(bytes.len(), memory)?;
            let end = chunk.filled + bytes.len();
            chunk.block.mark_touched(end);
            chunk.block[chunk.filled..end].copy_from_slice(bytes);
            chunk.filled = end;
        }
        Ok(())
    }

    /// Adds a request or message that is large, or has a streamed body behind it, to the end. It has `block`
    /// to itself.
    pub(super) fn push_whole(&mut self, frame: FrameRef, block: Shared, body: Option<Untaken>) {
        self.chunks.push_back(Chunk::Whole(frame, block, body));
    }

    /// What is streamed behind the frames that waited longest, if that is something.
    pub(super) fn front_body(&self) -> Option<&Untaken> {
        match self.chunks.front()? {
            Chunk::Whole(_, _, body) => body.as_ref(),
            Chunk::Copied(_) => None,
        }
    }

    /// The frames that waited longest: as many as one run of the handler gets, found in the bytes
    /// that are returned. Nothing if none waits.
    pub(super) fn front(&self, frames: &mut Vec<FrameRef>) -> Option<Source<'_>> {
        frames.clear();
        let chunk = match self.chunks.front()? {
            Chunk::Whole(frame, block, _) => {
                frames.push(frame.clone());
                return Some(Source::Buffer(block));
            }
            Chunk::Copied(chunk) => chunk,
        };
        let bytes = &chunk.block[..chunk.filled];
        let mut at = chunk.taken;
        while frames.len() < RUN_MAX
            && let Some(header) = bytes[at..].first_chunk()
        {
            let header = Header::decode(header).expect("it was decoded when it came");
            let start = at + HEADER_BYTES;
            let Header { kind, class, id, len, .. } = header;
            frames.push(FrameRef { kind, class, id, body: start..start + len as usize });
            at += header.frame_len();
        }
        Some(Source::Copy(bytes))
    }

    /// Lets go of `frames`, the first ones that [`front`](Self::front) has found.
    pub(super) fn drop_front(&mut self, frames: &[FrameRef]) {
        let Some(last) = frames.last() else { return };
        let is_done = match self.chunks.front_mut().expect("the frames are in it") {
            Chunk::Whole(..) => true,
            Chunk::Copied(chunk) => {
                chunk.taken = last.body.start + padded(last.body.len());
                chunk.taken == chunk.filled
            }
        };
        if is_done {
            self.chunks.pop_front();
        }
    }

    /// A chunk at the end with room for `len` bytes.
    fn room_for(&mut self, len: usize, memory: &Memory) -> Result<&mut Copied, MemoryError> {
        let has_room = match self.chunks.back() {
            Some(Chunk::Copied(chunk)) => chunk.block.len() - chunk.filled >= len,
            _ => false,
        };
        if !has_room {
            let block = memory.allocate(len.max(DEFER_BYTES), Purpose::Receive)?;
            self.chunks.push_back(Chunk::Copied(Copied { block, taken: 0, filled: 0 }));
        }
        match self.chunks.back_mut() {
            Some(Chunk::Copied(chunk)) => Ok(chunk),
            _ => unreachable!("there is one with room"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Class, Kind};
    use crate::memory::MemoryConfig;

    /// A buffer with a frame of each length, and where they lie in it.
    fn received(memory: &Memory, lens: &[usize]) -> (Shared, Vec<FrameRef>) {
        let (kind, class) = (Kind::Request, Class::Request);
        let (mut bytes, mut frames) = (Vec::new(), Vec::new());
        for (id, &len) in lens.iter().enumerate() {
            let id = id as u64;
            bytes.extend(Header { len: len as u32, kind, class, more: false, id }.encode());
            frames.push(FrameRef { kind, class, id, body: bytes.len()..bytes.len() + len });
            bytes.resize(bytes.len() + padded(len), id as u8);
        }
        let mut block = memory.allocate(bytes.len(), Purpose::Receive).unwrap();
        block[..bytes.len()].copy_from_slice(&bytes);
        (block.freeze(), frames)
    }

    #[test]
    fn what_waits_comes_back_in_order_and_is_counted_meanwhile() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 4 << 20 }).unwrap();
        let lens: Vec<usize> =
            (0..2000).map(|i| if i % 400 == 0 { 90_000 } else { i % 50 }).collect();
        let (buffer, sent) = received(&memory, &lens);
        let before = memory.account().allocated_bytes;
        let mut deferred = Deferred::default();
        deferred.push(&sent, &buffer, &memory).unwrap();
        let total: usize = sent.iter().map(|frame| frame.cost() as usize).sum();
        let counted = memory.account().allocated_bytes - before;
        assert!(counted >= total as u64 && counted <= 2 * total as u64, "{counted} for {total}");

        let (mut frames, mut next) = (Vec::new(), 0);
        while let Some(source) = deferred.front(&mut frames) {
            let bytes = source.bytes();
            let taken = frames.len().min(7);
            for frame in &frames[..taken] {
                assert_eq!((frame.id, frame.body.len()), (next as u64, lens[next]));
                assert!(bytes[frame.body.clone()].iter().all(|byte| *byte == next as u8));
                next += 1;
            }
            deferred.drop_front(&frames[..taken]);
        }
        assert_eq!(next, lens.len());
        assert_eq!(memory.account().allocated_bytes, before);
    }

    #[test]
    fn what_has_no_memory_is_refused() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let (buffer, frames) = received(&memory, &[900_000]);
        assert!(Deferred::default().push(&frames, &buffer, &memory).is_err());
    }
}
