//! One-way messages that are kept beyond the handler, all that arrived together at once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Batch, Source};
use crate::connection::{Core, Peer};
use crate::frame::{Class, Kind};
use crate::limits::RETAINED_SHARE;
use crate::memory::{MemoryError, Purpose, Shared};
use crate::session::outbound::Unannounced;

/// One-way messages of one batch, in the order in which they came. Their credit goes back when they are
/// dropped, so whatever waits of them is bounded by the peer's window.
#[derive(Debug)]
pub struct RetainedMessages {
    /// A receive buffer, or copies of the bodies.
    bytes: Shared,
    bodies: Vec<Range<usize>>,
    core: Arc<Core>,
    /// Credit that they hold back, a class.
    costs: [u64; 3],
    /// Memory that they keep, in bytes.
    kept: u64,
}

impl RetainedMessages {
    /// How many there are; never none.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// The body of one of them.
    ///
    /// # Panics
    /// If there are not as many.
    #[inline]
    pub fn body(&self, index: usize) -> &[u8] {
        &self.bytes[self.bodies[index].clone()]
    }

    /// Who sent them.
    pub fn peer(&self) -> &Peer {
        self.core.peer()
    }
}

impl Batch<'_> {
    /// Takes the messages that come before the next request, and keeps them beyond the handler: by
    /// holding on to the buffer that they were received into, if they are half of that at least and not
    /// too much is held already, else by copying them. What they keep counts as retained. Nothing, if a
    /// request is next or the batch is done.
    ///
    /// # Errors
    /// When there is no memory for the copies; then the messages are still in the batch.
    pub fn retain_messages(&mut self) -> Result<Option<RetainedMessages>, MemoryError> {
        let frames = &self.frames[self.taken..];
        let count = frames.iter().take_while(|frame| frame.kind == Kind::Message).count();
        let frames = &frames[..count];
        if frames.is_empty() {
            return Ok(None);
        }
        let core = self.held.core;
        let len: usize = frames.iter().map(|frame| frame.body.len()).sum();
        let retained_bytes = &core.reactor.common.retained_bytes;
        let mut bodies = Vec::with_capacity(count);
        let (bytes, kept) = match self.held.source {
            Source::Buffer(buffer)
                if len * 2 >= buffer.block_len()
                    && retained_bytes.load(Ordering::Relaxed) + buffer.block_len() as u64
                        <= core.memory.account().limit_bytes / RETAINED_SHARE =>
            {
                bodies.extend(frames.iter().map(|frame| frame.body.clone()));
                (buffer.clone(), buffer.block_len() as u64)
            }
            source => {
                let mut block = core.memory.allocate(len.max(1), Purpose::Receive)?;
                block.mark_touched(len);
                let mut end = 0;
                for frame in frames {
                    let start = end;
                    end += frame.body.len();
                    block[start..end].copy_from_slice(&source.bytes()[frame.body.clone()]);
                    bodies.push(start..end);
                }
                let kept = block.len() as u64;
                (block.freeze(), kept)
            }
        };
        retained_bytes.fetch_add(kept, Ordering::Relaxed);
        let mut costs = [0; 3];
        for frame in frames {
            costs[frame.class as usize] += frame.cost();
        }
        for (retained, cost) in self.held.retained.iter().zip(costs) {
            retained.set(retained.get() + cost);
        }
        self.taken += count;
        Ok(Some(RetainedMessages { bytes, bodies, core: Arc::clone(core), costs, kept }))
    }
}

impl Drop for RetainedMessages {
    fn drop(&mut self) {
        self.core.reactor.common.retained_bytes.fetch_sub(self.kept, Ordering::Relaxed);
        let credit = &self.core.session.receive_credit;
        let due = Class::ALL.map(|class| {
            let cost = self.costs[class as usize];
            cost > 0 && credit.release(class, cost)
        });
        if due.contains(&true) {
            self.core.send_soon(Unannounced::NONE);
        }
    }
}
