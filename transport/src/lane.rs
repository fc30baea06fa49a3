//! A lane: one thread's queue of outgoing records to one connection.
//!
//! DXNet gathers what many threads commit while the last send runs, through one ring with reserve
//! and commit; a thread that is preempted between the two holds up all that come after it. A lane
//! has a single producer, so that nobody's record waits behind another's unfinished one, and order
//! is kept a thread. The sender gathers the lanes ([`Outbound`](crate::session::outbound::Outbound)).
//!
//! A lane is a chain of rings in registered memory: small at first, replaced by a larger one when
//! it is full, given back when it stays nearly empty. It has no bound of its own: what is
//! committed and not yet sent is bounded by the window of its class.

mod ring;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits::RING_MIN;
use crate::memory::{Memory, MemoryError, Shared};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ring::Ring;

/// A ring that is replaced by the smallest one after this many records that found it empty.
const SHRINK_AFTER: u32 = 4096;

/// What producer and consumer of a lane share.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Which lane of its connection it is.
    pub(crate) index: u32,
    /// Records whose first byte the sender has taken end at or before this position.
    taken: AtomicU64,
    /// The producer is gone, and will commit nothing more.
    closed: AtomicBool,
    /// Bodies that are gathered from where they lie, with the position at which each goes.
    tails: Mutex<VecDeque<(u64, Shared)>>,
    /// How many tails have ever been attached; lets the consumer skip the lock.
    attached: AtomicU64,
}

impl Lane {
    /// Whether a record that began at `position` has been taken, even in part.
    pub(crate) fn has_taken(&self, position: u64) -> bool {
        self.taken.load(Ordering::SeqCst) > position
    }

    /// Lets go of the bodies that were to be gathered: nobody sends them any more.
    pub(crate) fn discard_tails(&self) {
        self.tails.lock().clear();
    }
}

/// How far a lane had been written when something that does not go by it was left for sending, which is to
/// follow what came before.
#[derive(Debug)]
pub(crate) struct Mark {
    lane: Arc<Lane>,
    position: u64,
}

impl Mark {
    /// Whether the sender has taken all records before it.
    pub(crate) fn is_reached(&self) -> bool {
        self.lane.taken.load(Ordering::SeqCst) >= self.position
    }
}

/// The producing end: writes records, in order.
#[derive(Debug)]
pub(crate) struct Producer {
    lane: Arc<Lane>,
    ring: Arc<Ring>,
    memory: Memory,
    /// End of what has been written, over all rings of the lane.
    position: u64,
    /// `position` at the start of the current ring.
    base: u64,
    found_empty: u32,
}

/// The consuming end: hands out what is committed, in order.
#[derive(Debug)]
pub(crate) struct Consumer {
    lane: Arc<Lane>,
    ring: Arc<Ring>,
    base: u64,
    taken: u64,
    tails_taken: u64,
}

/// A run of committed bytes, or a body that lies elsewhere.
#[derive(Debug)]
pub(crate) enum Piece {
    /// `len` bytes of `ring` from `position`, a position in that ring.
    Bytes { ring: Arc<Ring>, position: u64, len: usize },
    /// A body to be gathered from where it lies.
    Tail(Shared),
}

impl Piece {
    /// The bytes that are still to be sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes { ring, position, len } => ring.committed_bytes(*position, *len),
            Self::Tail(shared) => shared,
        }
    }

    /// Lets go of the first `count` bytes, which have been sent.
    pub(crate) fn advance(&mut self, count: usize) {
        match self {
            Self::Bytes { ring, position, len } => {
                *position += count as u64;
                *len -= count;
                ring.release(*position);
            }
            Self::Tail(shared) => *shared = shared.slice(count..shared.len()),
        }
    }
}

/// A new lane, with nothing in it.
pub(crate) fn lane(index: u32, memory: &Memory) -> Result<(Producer, Consumer), MemoryError> {
    let lane = Arc::new(Lane {
        index,
        taken: AtomicU64::new(0),
        closed: AtomicBool::new(false),
        tails: Mutex::new(VecDeque::new()),
        attached: AtomicU64::new(0),
    });
    let ring = Arc::new(Ring::new(memory, RING_MIN)?);
    let producer = Producer {
        lane: Arc::clone(&lane),
        ring: Arc::clone(&ring),
        memory: memory.clone(),
        position: 0,
        base: 0,
        found_empty: 0,
    };
    Ok((producer, Consumer { lane, ring, base: 0, taken: 0, tails_taken: 0 }))
}

impl Producer {
    /// Writes a record of `len` bytes and commits it. With a `tail`, the
    /// record's last `after` bytes follow the tail. Returns the position where the record begins.
    ///
    /// # Errors
    /// No memory for a larger ring; nothing has been written.
    #[inline]
    pub(crate) fn record(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tail: Option<(Shared, usize)>,
    ) -> Result<u64, MemoryError> {
        let start = self.position;
        let offset = match self.ring.reserve(start - self.base, len) {
            Some(offset) => offset,
            None => self.replace_ring(len)?,
        };
        fill(self.ring.reserved_bytes(offset, len));
        self.position = self.base + offset + len as u64;
        if let Some((shared, after)) = tail {
            self.lane.tails.lock().push_back((self.position - after as u64, shared));
            self.lane.attached.fetch_add(1, Ordering::Release);
        }
        self.ring.commit(self.position - self.base);
        Ok(start)
    }

    /// The lane's shared half.
    #[inline]
    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// Where the lane ends now, unless all of it has been taken.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let mark = Mark { lane: Arc::clone(&self.lane), position: self.position };
        (!mark.is_reached()).then_some(mark)
    }

    /// Bytes that are committed and not yet sent, tails not counted.
    #[inline]
    pub(crate) fn backlog(&self) -> u64 {
        (self.position - self.base) - self.ring.released()
    }

    /// Goes on in a new ring that has room for a record of `len` bytes.
    #[cold]
    fn replace_ring(&mut self, len: usize) -> Result<u64, MemoryError> {
        let capacity = (self.ring.capacity() * 4).max((len * 2).next_power_of_two()).max(RING_MIN);
        self.switch_ring(capacity)?;
        Ok(self.ring.reserve(0, len).expect("a new ring holds twice the record"))
    }

    /// Gives a large ring back that has long been nearly empty.
    #[inline]
    pub(crate) fn shrink_if_idle(&mut self) {
        if self.ring.capacity() <= 16 * RING_MIN || self.backlog() > 0 {
            self.found_empty = 0;
            return;
        }
        self.found_empty += 1;
        if self.found_empty >= SHRINK_AFTER {
            self.found_empty = 0;
            // Without memory for the small ring, the large one stays.
            let _ = self.switch_ring(RING_MIN);
        }
    }

    fn switch_ring(&mut self, capacity: usize) -> Result<(), MemoryError> {
        let next = Arc::new(Ring::new(&self.memory, capacity)?);
        self.ring.set_next(Arc::clone(&next));
        self.ring = next;
        self.base = self.position;
        Ok(())
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.lane.closed.store(true, Ordering::SeqCst);
    }
}

impl Consumer {
    /// Which lane of its connection it is.
    pub(crate) fn index(&self) -> u32 {
        self.lane.index
    }

    /// Hands what is committed to `give`, whole records only, stopping after about `limit` bytes.
    /// Returns how many bytes that was.
    pub(crate) fn take(&mut self, limit: usize, mut give: impl FnMut(Piece)) -> usize {
        let mut moved = 0;
        while moved < limit {
            // The next ring is looked for first: when it is there, this one gets nothing more.
            let next = self.ring.next();
            if let Some((position, len)) = self.ring.next_run(self.taken - self.base) {
                moved += self.take_run(position, len, &mut give);
            } else if let Some(next) = next {
                self.ring = next;
                self.base = self.taken;
            } else {
                break;
            }
        }
        // The sender's count of what it has taken follows, and is a full fence.
        self.lane.taken.store(self.taken, Ordering::Release);
        moved
    }

    /// Moves a run of `len` bytes, and the tails that belong into it.
    fn take_run(&mut self, mut position: u64, len: usize, give: &mut impl FnMut(Piece)) -> usize {
        let mut moved = 0;
        let end = position + len as u64;
        loop {
            let tail = self.next_tail(self.base + end);
            let until = tail.as_ref().map_or(end, |(at, _)| at - self.base);
            let len = (until - position) as usize;
            if len > 0 {
                give(Piece::Bytes { ring: Arc::clone(&self.ring), position, len });
                moved += len;
            }
            position = until;
            let Some((_, shared)) = tail else { break };
            self.tails_taken += 1;
            self.lane.tails.lock().pop_front();
            moved += shared.len();
            give(Piece::Tail(shared));
        }
        self.taken = self.base + end;
        moved
    }

    /// Whether the producer is gone and everything has been taken.
    pub(crate) fn is_finished(&self) -> bool {
        self.lane.closed.load(Ordering::SeqCst)
            && self.ring.next().is_none()
            && self.ring.next_run(self.taken - self.base).is_none()
    }

    /// The first tail that goes at or before `end`.
    fn next_tail(&self, end: u64) -> Option<(u64, Shared)> {
        if self.lane.attached.load(Ordering::Acquire) == self.tails_taken {
            return None;
        }
        self.lane.tails.lock().front().filter(|(at, _)| *at <= end).cloned()
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, feature = "loom"))]
mod models;
