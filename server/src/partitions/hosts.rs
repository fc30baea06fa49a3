//! The partitions that a node has room for: a list that only grows, so that whoever holds one needs no leave to find it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use weft_protocol::Slot;
use weft_transport::{Charge, Memory, MemoryError, Purpose};

use super::Hosted;
use crate::limits::HOSTED_MAX;

/// Hosts that are allocated together.
const CHUNK: usize = 64;

/// Where a partition is held.
#[derive(Debug)]
pub(super) struct Host {
    /// Its first and its last slot.
    pub(super) slots: (Slot, Slot),
    pub(super) hosted: Mutex<Hosted>,
}

type Place = OnceLock<CachePadded<Host>>;

/// The hosts, by position.
#[derive(Debug)]
pub(super) struct Hosts {
    chunks: Box<[OnceLock<Box<[Place]>>]>,
    len: AtomicUsize,
    /// For the chunks there are; whoever holds it adds.
    charge: Mutex<Charge>,
}

impl Hosts {
    /// None; charged to `memory`.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`].
    pub(super) fn new(memory: &Memory) -> Result<Hosts, MemoryError> {
        let chunks: Box<[OnceLock<Box<[Place]>>]> =
            (0..HOSTED_MAX.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        let charge = memory.charge(size_of_val(&*chunks) as u64, Purpose::Partition)?;
        Ok(Hosts { chunks, len: AtomicUsize::new(0), charge: Mutex::new(charge) })
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The one at `position`, below [`len`](Self::len).
    #[inline]
    pub(super) fn get(&self, position: u16) -> &Host {
        let position = usize::from(position);
        let chunk = self.chunks[position / CHUNK].get();
        let host = chunk.and_then(|chunk| chunk[position % CHUNK].get());
        host.expect("positions lead to hosts that were added")
    }

    /// All that there are.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Host> {
        (0..self.len() as u16).map(|position| self.get(position))
    }

    /// Adds one. Returns its position.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`], also when there are [`HOSTED_MAX`] already.
    pub(super) fn add(&self, slots: (Slot, Slot), hosted: Hosted) -> Result<u16, MemoryError> {
        let mut charge = self.charge.lock();
        let position = self.len();
        let chunk = &self.chunks[position / CHUNK];
        if chunk.get().is_none() {
            let bytes = charge.bytes() + (CHUNK * size_of::<Place>()) as u64;
            charge.resize(bytes)?;
        }
        let hosts = chunk.get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        let added = hosts[position % CHUNK]
            .set(CachePadded::new(Host { slots, hosted: Mutex::new(hosted) }));
        added.expect("one at a time adds behind the last");
        self.len.store(position + 1, Ordering::Release);
        Ok(position as u16)
    }
}
