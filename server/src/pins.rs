//! How much of the log replies may keep from being reused.
//!
//! A value that is sent from where it lies pins its whole segment until the peer has taken it, and
//! a peer may take nothing. So pins are charged by whole segment, live or not, and past a quarter
//! of the store's memory values are copied instead.
//!
//! Nobody tells when a pin is dropped, and nobody walks a list of pins: the segments are counted by
//! a survey, and as many values as fit the rest of the allowance, with a segment each, are sent
//! from the log before the next one. So a survey costs each of them some tens of nanoseconds,
//! however large the store is, and the allowance is never overdrawn by more than [`SLACK`] segments
//! a thread.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use weft_transport::Purpose;
use weft_transport::limits::MESSAGE_MAX;

use crate::memory::NodeMemory;
use crate::partitions::Partitions;

/// The part of the store's memory that may be pinned.
const PINNED_SHARE: u64 = 4;
/// The part of the network's memory, without what is reserved, that copies of large values leave
/// free.
const COPIES_SHARE: u64 = 2;
/// Values that are looked at between two surveys at least.
const SLACK: u64 = 8;
/// The largest segment that several values share: what holds a message, or what segments grow to.
const SEGMENT_BYTES: u64 = MESSAGE_MAX as u64;

/// The account of pinned segments.
#[derive(Debug)]
pub(crate) struct Pins {
    memory: NodeMemory,
    limit_bytes: u64,
    /// How many large values may be looked at before the next survey.
    allowance: AtomicI64,
    /// Bytes of pinned segments at the last survey.
    pinned_bytes: AtomicU64,
}

impl Pins {
    /// Nothing is pinned.
    pub(crate) fn new(memory: NodeMemory) -> Pins {
        let limit_bytes = memory.store.account().limit_bytes / PINNED_SHARE;
        Pins {
            memory,
            limit_bytes,
            allowance: AtomicI64::new(allowance(limit_bytes)),
            pinned_bytes: AtomicU64::new(0),
        }
    }

    /// Whether one more value, of `len` bytes, is to be sent from the log.
    pub(crate) fn admit(&self, len: usize) -> bool {
        // A long value has a segment of its own, of its length.
        let segments = 1 + len as u64 / SEGMENT_BYTES;
        self.allowance.fetch_sub(segments.cast_signed(), Ordering::Relaxed);
        if self.pinned_bytes.load(Ordering::Relaxed) <= self.limit_bytes {
            return true;
        }
        let network = self.memory.network.account();
        // What requests are worked off in is nobody's to leave free.
        let shared_bytes =
            network.shared_bytes().saturating_sub(network.allocated_for(Purpose::Scratch));
        network.free_bytes() < len as u64 + shared_bytes / COPIES_SHARE
    }

    /// Whether it is time for a [`survey`](Self::survey).
    #[inline]
    pub(crate) fn is_survey_due(&self) -> bool {
        self.allowance.load(Ordering::Relaxed) <= 0
    }

    /// Counts the bytes of segments that replies keep: those that hold objects, and those that hold
    /// none any more and would be free otherwise. The caller may hold no partition's lock.
    #[cold]
    pub(crate) fn survey(&self, partitions: &Partitions) -> u64 {
        let stats = partitions.stats();
        // The log's memory beyond the partitions' own segments is what only pins keep. Segments
        // that come and go meanwhile make it wrong by as much as they hold.
        let log_bytes = self.memory.store.account().allocated_for(Purpose::Log);
        let pinned_bytes = stats.pinned_bytes + log_bytes.saturating_sub(stats.log_bytes);
        self.pinned_bytes.store(pinned_bytes, Ordering::Relaxed);
        self.allowance
            .store(allowance(self.limit_bytes.saturating_sub(pinned_bytes)), Ordering::Relaxed);
        pinned_bytes
    }
}

fn allowance(bytes: u64) -> i64 {
    (bytes / SEGMENT_BYTES + SLACK).cast_signed()
}
