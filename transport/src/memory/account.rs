//! One account for everything the limit counts: who holds how much, and what the system really
//! gave.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Memory, MemoryError};

/// What memory is used for. Reported by the account; it changes nothing about the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Segments of the store's log.
    Log,
    /// Indexes and other tables that lead to objects.
    Index,
    /// What partitions are, and know of their tables.
    Partition,
    /// Buffers that the network writes to.
    Receive,
    /// Records on their way out.
    Send,
    /// State of connections and calls.
    Session,
    /// Rings that are shared with peers on the same host.
    Link,
    /// Buffers that users have allocated.
    Buffer,
    /// What requests are worked off in.
    Scratch,
}

impl Purpose {
    /// All purposes, in the order of their declaration.
    pub const ALL: [Purpose; 9] = [
        Purpose::Log,
        Purpose::Index,
        Purpose::Partition,
        Purpose::Receive,
        Purpose::Send,
        Purpose::Session,
        Purpose::Link,
        Purpose::Buffer,
        Purpose::Scratch,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Log => "log",
            Purpose::Index => "index",
            Purpose::Partition => "partition",
            Purpose::Receive => "receive",
            Purpose::Send => "send",
            Purpose::Session => "session",
            Purpose::Link => "link",
            Purpose::Buffer => "buffer",
            Purpose::Scratch => "scratch",
        }
    }
}

/// How far into the limit who asks for memory may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Up to what is kept back.
    Common,
    /// Up to the limit, but for what is reserved for sessions.
    KeptBack,
}

/// A picture of the account, in bytes. The fields are read one after the other: while others
/// allocate, they may disagree by what was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// `allocated_bytes` never passes this.
    pub limit_bytes: u64,
    /// Blocks handed out, in whole pages, and charges.
    pub allocated_bytes: u64,
    /// Pages of the region that are backed, used now or not, and heap: what the process really takes.
    /// Never passes the limit either.
    pub resident_bytes: u64,
    /// Heap memory outside the region: charges, without what is in [`Reserve`] and not taken, and what the allocator may keep of
    /// sessions that have ended. A part of `resident_bytes`.
    pub heap_bytes: u64,
    /// A part of the limit that only [`Purpose::Session`] may take.
    pub reserved_bytes: u64,
    /// A part of the limit that only [`Memory::allocate_kept_back`] may take.
    pub kept_back_bytes: u64,
    by_purpose: [u64; Purpose::ALL.len()],
    handed_out: [u64; Purpose::ALL.len()],
}

impl Account {
    /// The part of `allocated_bytes` that is used for `purpose`.
    pub fn allocated_for(&self, purpose: Purpose) -> u64 {
        self.by_purpose[purpose as usize]
    }

    /// Bytes of all blocks that were ever handed out for `purpose`, in whole pages. Never shrinks, so that
    /// blocks which live only shortly are counted too.
    pub fn handed_out_for(&self, purpose: Purpose) -> u64 {
        self.handed_out[purpose as usize]
    }

    /// What can still be allocated, for anything but sessions and what is kept back.
    pub fn free_bytes(&self) -> u64 {
        let unused_bytes = self.reserved_bytes.saturating_sub(self.allocated_for(Purpose::Session));
        self.limit_bytes.saturating_sub(self.allocated_bytes + unused_bytes + self.kept_back_bytes)
    }

    /// The part of the limit that is not reserved.
    pub fn shared_bytes(&self) -> u64 {
        self.limit_bytes - self.reserved_bytes
    }
}

/// The account's live counters.
///
/// Relaxed everywhere: each counter is exact by itself, and none publishes memory (the extents'
/// mutex does that).
#[derive(Debug)]
pub(super) struct Ledger {
    limit_bytes: u64,
    /// Set once.
    reserved_bytes: AtomicU64,
    /// Set once.
    kept_back_bytes: AtomicU64,
    allocated_bytes: AtomicU64,
    /// What is allocated, pages that are free but resident, and heap that is kept. No less than what
    /// is resident, at any moment: a claim is made before what it is for is taken, and ends after it.
    claimed_bytes: AtomicU64,
    /// Charges, and what is kept.
    heap_bytes: AtomicU64,
    /// Charges of sessions that have ended, whose heap may still be resident.
    kept_bytes: AtomicU64,
    by_purpose: [AtomicU64; Purpose::ALL.len()],
    /// Blocks handed out so far.
    handed_out: [AtomicU64; Purpose::ALL.len()],
}

impl Ledger {
    pub(super) fn new(limit_bytes: u64) -> Ledger {
        Ledger {
            limit_bytes,
            reserved_bytes: AtomicU64::new(0),
            kept_back_bytes: AtomicU64::new(0),
            allocated_bytes: AtomicU64::new(0),
            claimed_bytes: AtomicU64::new(0),
            heap_bytes: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            by_purpose: [const { AtomicU64::new(0) }; Purpose::ALL.len()],
            handed_out: [const { AtomicU64::new(0) }; Purpose::ALL.len()],
        }
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Sets a part of the limit aside for sessions.
    pub(super) fn reserve(&self, bytes: u64) {
        self.reserved_bytes.store(bytes.min(self.limit_bytes), Ordering::Relaxed);
    }

    /// Keeps a part of the limit from all but who reaches for it.
    pub(super) fn keep_back(&self, bytes: u64) {
        self.kept_back_bytes.store(bytes.min(self.limit_bytes), Ordering::Relaxed);
    }

    /// The part of the limit that is not reserved.
    pub(super) fn shared_bytes(&self) -> u64 {
        self.limit_bytes - self.reserved_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free_within(Reach::Common)
    }

    pub(super) fn kept_back_bytes(&self) -> u64 {
        self.kept_back_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn free_or_kept_back_bytes(&self) -> u64 {
        self.free_within(Reach::KeptBack)
    }

    fn free_within(&self, reach: Reach) -> u64 {
        self.limit_for_all(reach).saturating_sub(self.allocated_bytes.load(Ordering::Relaxed))
    }

    /// The limit without what sessions may still take of their reserve. What a session takes is
    /// counted here last, and what it gives back first: there is never less left for sessions.
    fn limit_for_all(&self, reach: Reach) -> u64 {
        let reserved_bytes = self.reserved_bytes.load(Ordering::Relaxed);
        let taken_bytes = self.by_purpose[Purpose::Session as usize].load(Ordering::Relaxed);
        let kept_back_bytes = match reach {
            Reach::Common => self.kept_back_bytes.load(Ordering::Relaxed),
            Reach::KeptBack => 0,
        };
        let limit_bytes = self.limit_bytes - reserved_bytes.saturating_sub(taken_bytes);
        limit_bytes.saturating_sub(kept_back_bytes)
    }

    pub(super) fn add(
        &self,
        bytes: u64,
        purpose: Purpose,
        reach: Reach,
    ) -> Result<(), MemoryError> {
        let limit_bytes =
            if purpose == Purpose::Session { self.limit_bytes } else { self.limit_for_all(reach) };
        let room = |allocated: u64| allocated.checked_add(bytes).filter(|sum| *sum <= limit_bytes);
        match self.allocated_bytes.try_update(Ordering::Relaxed, Ordering::Relaxed, room) {
            Ok(_) => {
                self.claim(bytes);
                self.by_purpose[purpose as usize].fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(_) => Err(self.refusal(bytes)),
        }
    }

    /// Notes a block of `bytes` that an owner gets.
    pub(super) fn hand_out(&self, bytes: u64, purpose: Purpose) {
        self.handed_out[purpose as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// The answer to who asks for `bytes` that there is no room for.
    pub(super) fn refusal(&self, bytes: u64) -> MemoryError {
        MemoryError::LimitReached {
            requested_bytes: bytes,
            allocated_bytes: self.allocated_bytes.load(Ordering::Relaxed),
            limit_bytes: self.limit_bytes,
        }
    }

    pub(super) fn subtract(&self, bytes: u64, purpose: Purpose) {
        self.by_purpose[purpose as usize].fetch_sub(bytes, Ordering::Relaxed);
        self.unclaim(bytes);
        self.allocated_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are or may become resident.
    pub(super) fn claim(&self, bytes: u64) {
        self.claimed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn unclaim(&self, bytes: u64) {
        self.claimed_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether `bytes` more could be claimed within the limit.
    pub(super) fn can_claim(&self, bytes: u64) -> bool {
        self.claimed_bytes.load(Ordering::Relaxed).saturating_add(bytes) <= self.limit_bytes
    }

    /// By how much the claims pass the limit.
    pub(super) fn excess_bytes(&self) -> u64 {
        self.claimed_bytes.load(Ordering::Relaxed).saturating_sub(self.limit_bytes)
    }

    /// Counts a part of what was added as heap memory.
    pub(super) fn add_heap(&self, bytes: u64) {
        self.heap_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract_heap(&self, bytes: u64) {
        self.heap_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Keeps heap of a session that has ended: it stays claimed, and counted as heap.
    pub(super) fn keep(&self, bytes: u64) {
        self.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes up to `bytes` of the heap that is kept, which are still claimed and counted as heap.
    pub(super) fn take_kept(&self, bytes: u64) -> u64 {
        let less = |kept: u64| Some(kept.saturating_sub(bytes));
        let before = self.kept_bytes.try_update(Ordering::Relaxed, Ordering::Relaxed, less);
        bytes.min(before.expect("the update is never refused"))
    }

    /// How much of the heap that is kept goes when it is trimmed. What is trimmed is whole pages; each
    /// session that lives may hold on to as much again as it takes.
    pub(super) fn trimmable_bytes(&self) -> u64 {
        let live_bytes = self.by_purpose[Purpose::Session as usize].load(Ordering::Relaxed);
        self.kept_bytes.load(Ordering::Relaxed).saturating_sub(live_bytes)
    }

    /// The heap is read before `touched_bytes`: pages go back before a charge takes their room.
    pub(super) fn account(&self, touched_bytes: impl Fn() -> u64) -> Account {
        let heap_bytes = self.heap_bytes.load(Ordering::Relaxed);
        Account {
            limit_bytes: self.limit_bytes,
            allocated_bytes: self.allocated_bytes.load(Ordering::Relaxed),
            resident_bytes: heap_bytes + touched_bytes(),
            heap_bytes,
            reserved_bytes: self.reserved_bytes.load(Ordering::Relaxed),
            kept_back_bytes: self.kept_back_bytes.load(Ordering::Relaxed),
            by_purpose: std::array::from_fn(|i| self.by_purpose[i].load(Ordering::Relaxed)),
            handed_out: std::array::from_fn(|i| self.handed_out[i].load(Ordering::Relaxed)),
        }
    }
}

/// Heap memory counted against the limit for as long as this lives.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
    purpose: Purpose,
}

impl Charge {
    pub(super) fn new(memory: Memory, bytes: u64, purpose: Purpose) -> Result<Charge, MemoryError> {
        let mut charge = Charge { memory, bytes: 0, purpose };
        charge.resize(bytes)?;
        Ok(charge)
    }

    /// What is counted now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts `bytes` instead. Ask before growing, tell after shrinking.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`] when growing; the charge stays as it was.
    pub fn resize(&mut self, bytes: u64) -> Result<(), MemoryError> {
        let pool = &self.memory.pool;
        if bytes > self.bytes {
            pool.charge(bytes - self.bytes, self.purpose)?;
        } else {
            pool.uncharge(self.bytes - bytes, self.purpose);
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Heap memory that is counted against the limit for as long as this lives, and is taken now and then: it is there for who needs it.
#[derive(Debug)]
pub struct Reserve {
    charge: Charge,
}

impl Reserve {
    pub(super) fn new(charge: Charge) -> Reserve {
        charge.memory.pool.ledger.subtract_heap(charge.bytes);
        Reserve { charge }
    }

    /// Counts it as resident for as long as what is returned lives. For one at a time.
    pub fn take(&self) -> Taken<'_> {
        self.charge.memory.pool.ledger.add_heap(self.charge.bytes);
        Taken(self)
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // Which the charge ends.
        self.charge.memory.pool.ledger.add_heap(self.charge.bytes);
    }
}

/// A [`Reserve`] that is taken.
#[derive(Debug)]
pub struct Taken<'a>(&'a Reserve);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.charge.memory.pool.ledger.subtract_heap(self.0.charge.bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0).expect("shrinking a charge needs no room");
    }
}
