//! Memory that one side offers and the other reads, for links in tests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::CHUNK_BYTES;
use crate::link::{Fetch, Offer, Source};
use crate::memory::{Block, Shared};

/// What is offered, by its address; no two are the same.
#[derive(Debug, Default)]
pub(in crate::session) struct Offered {
    next: u64,
    bodies: BTreeMap<u64, Shared>,
}

pub(in crate::session) type Remote = Arc<Mutex<Offered>>;

#[derive(Debug)]
struct Piece {
    remote: Remote,
    source: Source,
}

pub(in crate::session) fn offer(remote: &Remote, body: &Shared) -> Box<dyn Offer> {
    let mut offered = remote.lock();
    offered.next += 1;
    let source = Source { address: offered.next, key: 7, len: body.len() as u32 };
    offered.bodies.insert(source.address, body.clone());
    Box::new(Piece { remote: Arc::clone(remote), source })
}

impl Offer for Piece {
    fn source(&self) -> Source {
        self.source
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.remote.lock().bodies.remove(&self.source.address);
    }
}

/// A part: of which piece, from where, how much.
type Part = (u64, usize, usize);

#[derive(Debug)]
struct Reading {
    remote: Remote,
    block: Block,
    filled: usize,
    waiting: VecDeque<Part>,
    begun: VecDeque<Part>,
}

pub(in crate::session) fn fetch(
    remote: &Remote,
    block: Block,
    sources: &[Source],
) -> Box<dyn Fetch> {
    let parts = sources.iter().flat_map(|source| {
        let len = source.len as usize;
        (0..len.div_ceil(CHUNK_BYTES)).map(move |index| {
            let start = index * CHUNK_BYTES;
            (source.address, start, CHUNK_BYTES.min(len - start))
        })
    });
    let waiting = parts.collect();
    let (remote, begun) = (Arc::clone(remote), VecDeque::new());
    Box::new(Reading { remote, block, filled: 0, waiting, begun })
}

impl Fetch for Reading {
    fn next_len(&self) -> usize {
        self.waiting.front().map_or(0, |(_, _, len)| *len)
    }

    fn begin_next(&mut self) {
        self.begun.push_back(self.waiting.pop_front().expect("there is one"));
    }

    /// One part each time. It has to be offered until then.
    fn take_arrived(&mut self) -> (usize, usize) {
        let Some((address, start, len)) = self.begun.pop_front() else { return (0, 0) };
        let offered = self.remote.lock();
        let body = offered.bodies.get(&address).expect("what is being read is offered");
        self.block[self.filled..self.filled + len].copy_from_slice(&body[start..start + len]);
        self.filled += len;
        (1, len)
    }

    fn into_block(self: Box<Self>) -> Option<Block> {
        (self.waiting.is_empty() && self.begun.is_empty()).then_some(self.block)
    }
}
