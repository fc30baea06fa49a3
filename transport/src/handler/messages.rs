//! Messages and calls that are kept beyond the handler, all that arrived together at once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::responder::RESPONDER_COST;
use super::{Batch, Responder, Source};
use crate::connection::{Core, Peer};
use crate::frame::{Class, Kind};
use crate::limits::RETAINED_SHARE;
use crate::memory::{MemoryError, Purpose, Shared};
use crate::session::outbound::Unannounced;

/// Messages of one batch, and calls if it was asked for them, in the order in which they came. Their credit goes back
/// when they are dropped, so whatever waits of them is bounded by the peer's window.
#[derive(Debug)]
pub struct RetainedMessages {
    /// A receive buffer, or copies of the bodies.
    bytes: Shared,
    bodies: Vec<Range<usize>>,
    /// Which of them were sent in the class of replication, in ascending order.
    replication: Vec<u32>,
    /// What replies to those that are calls, and which they are.
    responders: Vec<(u32, Responder)>,
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

    /// Which of them were sent [for replication](crate::Connection::for_replication), in ascending order.
    pub fn replication(&self) -> &[u32] {
        &self.replication
    }

    /// What replies to those that are calls, each with the index of the call, in ascending order; the first time.
    pub fn take_responders(&mut self) -> Vec<(u32, Responder)> {
        std::mem::take(&mut self.responders)
    }

    /// Ends the connection that they came by: its handler has panicked.
    pub(super) fn forsake(&self) {
        self.core.forsake();
    }

    /// Whether a handler has panicked with something that came by the same connection.
    pub(super) fn is_forsaken(&self) -> bool {
        self.core.is_forsaken()
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
        self.retain(frames.iter().take_while(|frame| frame.kind == Kind::Message).count())
    }

    /// As [`retain_messages`](Self::retain_messages), with all that is left, calls too. What is streamed
    /// [behind](super::Incoming::take_body) one is given up.
    ///
    /// # Errors
    /// When there is no memory for the copies; then all is still in the batch.
    pub fn retain_all(&mut self) -> Result<Option<RetainedMessages>, MemoryError> {
        self.retain(self.remaining())
    }

    fn retain(&mut self, count: usize) -> Result<Option<RetainedMessages>, MemoryError> {
        let frames = &self.frames[self.taken..][..count];
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
        let (mut replication, mut responders) = (Vec::new(), Vec::new());
        for (index, frame) in (0..).zip(frames) {
            let class = frame.class as usize;
            costs[class] += frame.cost();
            let retained = &self.held.retained[class];
            retained.set(retained.get() + frame.cost());
            if frame.class == Class::Replication {
                replication.push(index);
            }
            if frame.kind == Kind::Request {
                costs[class] -= RESPONDER_COST;
                responders.push((index, Responder::new(core, frame.id, frame.class)));
            }
        }
        self.taken += count;
        let core = Arc::clone(core);
        Ok(Some(RetainedMessages { bytes, bodies, replication, responders, core, costs, kept }))
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
