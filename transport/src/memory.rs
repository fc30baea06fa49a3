//! Registered memory: the only memory that objects and frames live in.
//!
//! One region is mapped once, from a memfd, with address space for the whole limit and not a page
//! behind it: an idle node is small, and a device can register the region without objects ever
//! moving. A freed extent keeps its pages, and resident memory is reused before new memory is
//! touched. Pages that nobody holds go back to the system only when something else needs their room
//! under the limit (`pool.rs`), and never while a device has registered the region (`region.rs`).
//!
//! The ways to hold memory follow who may write:
//!
//! | type | writes | reads |
//! |---|---|---|
//! | [`Block`] | its one owner | its owner |
//! | [`Shared`] | nobody | every holder |
//! | [`Appender`] | its owner, behind the committed prefix | its owner, and holders of shared parts of the prefix |
//! | `Filling` | its owner, behind what is filled | holders of shared parts of what is filled |
//!
//! One limit counts all of it, and through [`Memory::charge`] also the heap memory that belongs to
//! it (an index). Heap of sessions that have ended counts on until it is used again or the allocator has
//! been told to give it back (`heap.rs`), since it keeps what it can use. What will be written next is backed by huge pages, if somebody takes the
//! time for that (`ahead.rs`). A pool for every size was considered: the blocks are few and
//! large (segments, receive buffers), so that a mutex and two trees are far from any hot path.

mod account;
mod ahead;
mod appender;
mod block;
mod error;
mod extents;
mod filling;
mod heap;
#[cfg_attr(miri, path = "memory/pages/allocated.rs")]
mod pages;
mod poison;
mod pool;
mod region;
mod shared;

use std::sync::Arc;

use self::account::Reach;
pub use self::account::{Account, Charge, Purpose, Reserve, Taken};
pub use self::appender::Appender;
pub use self::block::Block;
pub(crate) use self::block::Extent;
pub use self::error::MemoryError;
pub(crate) use self::filling::Filling;
pub use self::shared::Shared;

use self::extents::Run;
use self::pool::Pool;

/// Bytes of a page: the unit in which memory is handed out and counted.
pub const PAGE_BYTES: usize = 4096;

/// How much memory there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Everything that is handed out and charged together stays at or below this, and so does
    /// everything that is resident. Counted in whole pages; a part of a page at the end is never
    /// handed out.
    pub limit_bytes: u64,
}

/// A handle to one region of registered memory and its account; clones share both.
#[derive(Clone, Debug)]
pub struct Memory {
    pool: Arc<Pool>,
}

impl Memory {
    /// Reserves address space for four times the limit and touches none of it.
    ///
    /// # Errors
    /// [`MemoryError::Reserve`] if the system refuses the file or the mapping, as it does when an
    /// address space limit (`ulimit -v`) is below that.
    pub fn new(config: MemoryConfig) -> Result<Memory, MemoryError> {
        Ok(Memory { pool: Arc::new(Pool::new(config)?) })
    }

    /// Hands out at least `len` bytes, in whole pages and at least one, with unspecified contents:
    /// zeroes, or what the last owner left.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`] when the limit has no room for it, [`MemoryError::Fragmented`]
    /// when it has, but not in one piece.
    pub fn allocate(&self, len: usize, purpose: Purpose) -> Result<Block, MemoryError> {
        self.take(len, purpose, Reach::Common)
    }

    /// Hands out memory as [`allocate`](Self::allocate) does, also from what is [kept back](Self::keep_back).
    ///
    /// # Errors
    /// Those of `allocate`.
    pub fn allocate_kept_back(&self, len: usize, purpose: Purpose) -> Result<Block, MemoryError> {
        self.take(len, purpose, Reach::KeptBack)
    }

    fn take(&self, len: usize, purpose: Purpose, reach: Reach) -> Result<Block, MemoryError> {
        let pages = len.div_ceil(PAGE_BYTES).max(1);
        let run = self.pool.take(pages, purpose, reach)?;
        Ok(Block::new(Extent::new(self.clone(), run, purpose)))
    }

    /// Counts heap memory that the caller holds outside the region, for as long as the charge
    /// lives.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`]; the caller must not allocate then.
    pub fn charge(&self, bytes: u64, purpose: Purpose) -> Result<Charge, MemoryError> {
        Charge::new(self.clone(), bytes, purpose)
    }

    /// Counts heap memory that the caller will hold now and then, for as long as the reserve lives: nobody can be refused it. Not for
    /// [`Purpose::Session`], whose heap is counted on when it has ended.
    ///
    /// # Errors
    /// Those of [`charge`](Self::charge).
    pub fn reserve(&self, bytes: u64, purpose: Purpose) -> Result<Reserve, MemoryError> {
        Ok(Reserve::new(self.charge(bytes, purpose)?))
    }

    /// Sets `bytes` of the limit aside for [`Purpose::Session`], in place of what was set aside before:
    /// whatever others take, a session finds room as long as sessions take no more than that.
    pub fn reserve_for_sessions(&self, bytes: u64) {
        self.pool.ledger.reserve(bytes);
    }

    /// Keeps `bytes` of the limit, in place of what was kept back before, for who asks with
    /// [`allocate_kept_back`](Self::allocate_kept_back): a cleaner, which needs memory to make memory free. What is
    /// given back while less than that is left fills it up first.
    pub fn keep_back(&self, bytes: u64) {
        self.pool.ledger.keep_back(bytes);
    }

    /// Has huge pages stand ready for what will be handed out next, as long as it grows: one at a time, which takes a millisecond or
    /// several. What is ready is resident, and goes back to the system when this has been called some 20 times without growth. Returns whether
    /// there was something to do. For a thread that has nothing better to do; who never calls it has small pages. Of a limit below 224 MiB, and where the system has no
    /// such call (before Linux 6.1) or is told to `deny` it, there are none.
    pub fn get_ahead(&self) -> bool {
        self.pool.get_ahead()
    }

    /// What is used now, and for what.
    pub fn account(&self) -> Account {
        let touched_bytes = || self.pool.region.touched_pages() * PAGE_BYTES as u64;
        self.pool.ledger.account(touched_bytes)
    }

    /// What can still be allocated, for anything but sessions, in bytes. Cheaper than the whole [`account`](Self::account).
    pub fn free_bytes(&self) -> u64 {
        self.pool.ledger.free_bytes()
    }

    /// The same for who asks with [`allocate_kept_back`](Self::allocate_kept_back).
    pub fn free_or_kept_back_bytes(&self) -> u64 {
        self.pool.ledger.free_or_kept_back_bytes()
    }

    /// Whether a part of what is kept back is in use.
    pub fn is_reaching_kept_back(&self) -> bool {
        let kept_bytes = self.pool.ledger.kept_back_bytes();
        self.free_or_kept_back_bytes() < kept_bytes
    }

    /// Whether less is free than `share`, a part of what is not reserved, leaves.
    pub(crate) fn is_short(&self, share: u64) -> bool {
        self.free_bytes() < self.pool.ledger.shared_bytes() / share
    }

    /// Whether `share`, a part of what is not reserved, would still be free without `bytes`.
    pub fn can_spare(&self, bytes: u64, share: u64) -> bool {
        let kept_bytes = self.pool.ledger.shared_bytes() / share;
        self.free_bytes() >= bytes.saturating_add(kept_bytes)
    }

    /// Whether `bytes` are no more than `share`, a part of what is not reserved.
    pub(crate) fn could_hold(&self, bytes: u64, share: u64) -> bool {
        bytes <= self.pool.ledger.shared_bytes() / share
    }

    fn release(&self, run: Run, purpose: Purpose) {
        self.pool.release(run, purpose);
    }
}

#[cfg(test)]
mod tests;
