//! Large bodies by RDMA READ: offered where they lie, and read into blocks of this side.
//!
//! A body is registered for as long as it is offered, and with it the key goes out of use. So what can be
//! read by others is what is being read, and what is received into never can be.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::end::End;
use super::ffi::{Access, Buffer, Domain, Exposed, Read, reclaim, register};
use crate::limits::CHUNK_BYTES;
use crate::link::{Fetch, Offer, Source};
use crate::memory::Block;

/// Where parts go that have been read.
pub(super) type Arrivals = Arc<Mutex<Vec<Buffer>>>;

/// A body that is being read.
#[derive(Debug)]
pub(super) struct Reading {
    end: Arc<End>,
    waiting: VecDeque<Read>,
    arrivals: Arrivals,
    arrived: Vec<Buffer>,
}

impl Reading {
    /// Of what lies at `sources`, into `block`.
    ///
    /// # Errors
    /// The block, where it cannot be registered or has no room.
    pub(super) fn new(
        end: &Arc<End>,
        domain: &Arc<Domain>,
        block: Block,
        sources: &[Source],
    ) -> Result<Self, Block> {
        let total: u64 = sources.iter().map(|source| u64::from(source.len)).sum();
        let is_within = |source: &Source| source.address.checked_add(source.len.into()).is_some();
        if total > block.len() as u64 || !sources.iter().all(is_within) {
            return Err(block);
        }
        let parts: Vec<(u64, u32, usize)> = sources.iter().flat_map(parts_of).collect();
        let lens = parts.iter().map(|(_, _, len)| *len);
        let buffers = match register(domain, block, Access::Write, lens) {
            Ok(buffers) => buffers,
            Err((error, block)) => {
                tracing::debug!(%error, "a large body is not read, but sent");
                return Err(block);
            }
        };
        let reads = parts.into_iter().zip(buffers);
        let reads = reads.map(|((address, key, _), buffer)| Read { buffer, address, key });
        let (end, waiting) = (Arc::clone(end), reads.collect());
        Ok(Self { end, waiting, arrivals: Arrivals::default(), arrived: Vec::new() })
    }
}

/// Where the parts of `source` lie, with its key, and how long they are.
fn parts_of(source: &Source) -> impl Iterator<Item = (u64, u32, usize)> {
    let Source { address, key, len } = *source;
    let len = len as usize;
    (0..len)
        .step_by(CHUNK_BYTES)
        .map(move |start| (address + start as u64, key, CHUNK_BYTES.min(len - start)))
}

impl Fetch for Reading {
    fn next_len(&self) -> usize {
        self.waiting.front().map_or(0, |read| read.buffer.len())
    }

    fn begin_next(&mut self) {
        let Some(read) = self.waiting.pop_front() else { return };
        self.end.read(read, &self.arrivals);
    }

    fn take_arrived(&mut self) -> (usize, usize) {
        let mut arrivals = self.arrivals.lock();
        let bytes = arrivals.iter().map(Buffer::len).sum();
        let parts = arrivals.len();
        self.arrived.append(&mut arrivals);
        (parts, bytes)
    }

    fn into_block(self: Box<Self>) -> Option<Block> {
        let Self { waiting, arrivals, arrived, .. } = *self;
        drop(arrivals);
        if waiting.is_empty() { reclaim(arrived) } else { None }
    }
}

impl Offer for Exposed {
    fn source(&self) -> Source {
        let (address, key, len) = self.place();
        Source { address, key, len }
    }
}
