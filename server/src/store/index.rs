//! From a key's hash to the address of its record.
//!
//! Linear hashing (Litwin, VLDB '80) over buckets of one cache line. An entry is 8 bytes: 26 bits
//! of the hash and the record's address. The key itself is compared in the log. The index grows by
//! one bucket at a time, and since an entry carries more of its hash than chooses its bucket,
//! splitting a bucket reads nothing but the bucket.
//!
//! A bucket that overflows uses its last slot for a link to a half line of four slots, which may
//! link on. Linear hashing leaves the buckets that are yet to be split twice as full as the others,
//! so that overflow is part of the plan: the index takes a fixed number of bytes an entry
//! ([`FOUR_ENTRIES_BYTES`]) and splits whenever it is below. One lookup in ten to one in five then
//! sees a second line. Larger overflow lines cost a byte an entry more, fuller buckets more second
//! lines; extendible hashing's directory alone would take 6 bytes an entry at this size of bucket,
//! and tables that double (hashbrown, dashmap) stall for the copy.
//!
//! Removing keeps the memory for later entries.

mod chunks;
mod walk;

use std::fmt;
use std::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use weft_protocol::TableId;
use weft_transport::{Charge, Memory, MemoryError, Purpose};

use self::chunks::Chunks;
use super::address::Address;
use crate::prefetch;

/// Bytes that the index takes for four entries: it adds buckets while it is below. Eight bytes an
/// entry would be no bucket with a vacant slot.
const FOUR_ENTRIES_BYTES: usize = 47;
/// With nodes of more than this part of what the buckets take, the index may be above its bytes by a chunk of buckets.
const NODES_SHARE: usize = 4;
/// As long as it has no more entries than this: of more, a chunk is a small part of what they take.
const CROWDED_MAX: usize = 8 << 10;
/// Bits of the hash in an entry; the lowest of them choose the bucket.
const TAG_BITS: u32 = 26;
/// With more buckets an entry could no longer say which one is its own. Chains grow then.
const BUCKETS_MAX: usize = 1 << TAG_BITS;
/// Set in the entry that is a link to a node.
const LINK: u64 = 1 << Address::BITS;
const TAG_SHIFT: u32 = Address::BITS + 1;
const VACANT: u64 = 0;

const _: () = assert!(TAG_BITS + 1 + Address::BITS == u64::BITS);

/// A cache line of entries. The last may be a link.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket([u64; 8]);

/// Half a cache line of entries that did not fit their bucket. The last may be a link; a free
/// node's first is the number of the next free one, plus one.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Node([u64; 4]);

/// The part of a key's hash that an index uses. It is the same for all indexes of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u32);

/// Computes tags.
#[derive(Clone, Debug)]
pub struct Tags {
    seed: u64,
    shared_seed: SharedSeed,
}

impl Tags {
    /// Those of one seed, which is to be secret: who knows it can find keys that fall into one bucket.
    pub fn new(seed: u64) -> Tags {
        let shared_seed = SharedSeed::from_u64(seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15);
        Tags { seed, shared_seed }
    }

    /// That of a key of `table`.
    #[inline]
    pub fn of(&self, table: TableId, key: &[u8]) -> Tag {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        hasher.write(key);
        hasher.write_u16(table.0);
        Tag(hasher.finish() as u32 & ((1 << TAG_BITS) - 1))
    }
}

impl Tag {
    /// That of an entry.
    fn of(entry: u64) -> Self {
        Tag((entry >> TAG_SHIFT) as u32)
    }

    #[inline]
    fn bits(self) -> u64 {
        u64::from(self.0)
    }
}

/// A place for an entry. Valid until the next entry is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    line: Line,
    position: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Bucket(usize),
    Node(usize),
}

/// A hash index whose keys lie elsewhere.
pub(super) struct Index {
    tags: Tags,
    buckets: Chunks<Bucket>,
    /// Zero, or at least a chunk.
    bucket_count: usize,
    /// The next power of two from `bucket_count`, less one.
    mask: u64,
    nodes: Chunks<Node>,
    /// Nodes from here on were never used.
    node_count: usize,
    /// The number of the first free node, plus one; or zero.
    free_node: u64,
    entries: usize,
    charge: Charge,
    /// Entries of the bucket that is being split.
    moving: Vec<u64>,
}

impl Index {
    /// An empty index, which takes no memory, with the tags of this seed.
    pub(super) fn new(seed: u64, memory: &Memory) -> Index {
        Index {
            tags: Tags::new(seed),
            buckets: Chunks::new(Bucket([VACANT; 8])),
            bucket_count: 0,
            mask: 0,
            nodes: Chunks::new(Node([VACANT; 4])),
            node_count: 0,
            free_node: 0,
            entries: 0,
            charge: memory.charge(0, Purpose::Index).expect("charging nothing needs no room"),
            moving: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn tag(&self, table: TableId, key: &[u8]) -> Tag {
        self.tags.of(table, key)
    }

    /// What keys are hashed with.
    pub(super) fn seed(&self) -> u64 {
        self.tags.seed
    }

    pub(super) fn len(&self) -> usize {
        self.entries
    }

    /// Heap memory that the index holds, used or not; what it is charged for.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.bytes() + self.nodes.bytes()
    }

    /// The entry of which `is_key` says that it leads to the key.
    #[inline]
    pub(super) fn find(
        &self,
        tag: Tag,
        mut is_key: impl FnMut(Address) -> bool,
    ) -> Option<(Slot, Address)> {
        if self.entries == 0 {
            return None;
        }
        let bucket = self.bucket_of(tag);
        let entries = &self.buckets[bucket].0;
        for (position, &entry) in entries.iter().enumerate() {
            if let Some(address) = candidate(entry, tag)
                && is_key(address)
            {
                return Some((Slot { line: Line::Bucket(bucket), position }, address));
            }
        }
        let mut link = linked(entries);
        while let Some(node) = link {
            let entries = &self.nodes[node].0;
            for (position, &entry) in entries.iter().enumerate() {
                if let Some(address) = candidate(entry, tag)
                    && is_key(address)
                {
                    return Some((Slot { line: Line::Node(node), position }, address));
                }
            }
            link = linked(entries);
        }
        None
    }

    /// A vacant slot for an entry with this tag, made if need be.
    pub(super) fn reserve(&mut self, tag: Tag) -> Result<Slot, MemoryError> {
        if self.bucket_count == 0 {
            self.charge.resize((self.bytes() + Chunks::<Bucket>::CHUNK_BYTES) as u64)?;
            self.buckets.grow();
            self.bucket_count = self.buckets.capacity();
            self.mask = self.bucket_count as u64 - 1;
        }
        self.reserve_in(self.bucket_of(tag))
    }

    /// Enters an address into a slot that [`Index::reserve`] returned, and grows.
    #[inline]
    pub(super) fn fill(&mut self, slot: Slot, tag: Tag, address: Address) {
        let entry = &mut self.line_mut(slot.line)[slot.position];
        debug_assert_eq!(*entry, VACANT, "a reserved slot is vacant");
        *entry = tag.bits() << TAG_SHIFT | address.bits();
        self.entries += 1;
        // Two for each entry, so that a chunk that was just added is soon in use.
        for _ in 0..2 {
            if !self.may_split() {
                break;
            }
            self.split();
        }
    }

    /// Lets the entry that [`Index::find`] found lead elsewhere.
    #[inline]
    pub(super) fn replace(&mut self, slot: Slot, address: Address) {
        let entry = &mut self.line_mut(slot.line)[slot.position];
        debug_assert!(*entry != VACANT && *entry & LINK == 0, "an entry that was found is one");
        *entry = *entry >> TAG_SHIFT << TAG_SHIFT | address.bits();
    }

    /// Removes the entry that [`Index::find`] found. The last entry of the chain takes its place,
    /// and a node that is empty then is free for others.
    pub(super) fn remove(&mut self, slot: Slot) {
        let removed = self.line(slot.line)[slot.position];
        let mut line = Line::Bucket(self.bucket_of(Tag::of(removed)));
        let mut before = None;
        while let Some(node) = linked(self.line(line)) {
            before = Some(line);
            line = Line::Node(node);
        }
        let entries = self.line_mut(line);
        let last = entries.iter().rposition(|entry| *entry != VACANT);
        let last = last.expect("the last line of a chain holds an entry");
        let moved = std::mem::replace(&mut entries[last], VACANT);
        if (Slot { line, position: last }) != slot {
            self.line_mut(slot.line)[slot.position] = moved;
        }
        if last == 0
            && let (Some(before), Line::Node(node)) = (before, line)
        {
            let entries = self.line_mut(before);
            entries[entries.len() - 1] = VACANT;
            self.free(node);
        }
        self.entries -= 1;
    }

    /// Asks for the bucket of this tag to be brought into the cache.
    #[inline]
    pub(super) fn prefetch(&self, tag: Tag) {
        if self.entries > 0 {
            prefetch::read(&self.buckets[self.bucket_of(tag)]);
        }
    }

    /// Where the record could be, as far as its bucket knows.
    #[inline]
    pub(super) fn candidates(&self, tag: Tag) -> impl Iterator<Item = Address> {
        let bucket = (self.entries > 0).then(|| &self.buckets[self.bucket_of(tag)].0);
        bucket.into_iter().flatten().filter_map(move |&entry| candidate(entry, tag))
    }

    /// Asks for the first node behind the bucket of this tag to be brought into the cache. Returns whether there is one.
    #[inline]
    pub(super) fn prefetch_overflow(&self, tag: Tag) -> bool {
        let node = self.first_node(tag);
        if let Some(node) = node {
            prefetch::read(&self.nodes[node]);
        }
        node.is_some()
    }

    /// Where the record could be, as far as the first node behind its bucket knows; those behind that are not looked at.
    #[inline]
    pub(super) fn overflow_candidates(&self, tag: Tag) -> impl Iterator<Item = Address> {
        let node = self.first_node(tag).map(|node| &self.nodes[node].0);
        node.into_iter().flatten().filter_map(move |&entry| candidate(entry, tag))
    }

    #[inline]
    fn first_node(&self, tag: Tag) -> Option<usize> {
        let bucket = (self.entries > 0).then(|| &self.buckets[self.bucket_of(tag)].0)?;
        linked(bucket)
    }

    #[inline]
    fn bucket_of(&self, tag: Tag) -> usize {
        let bucket = (tag.bits() & self.mask) as usize;
        // Not split yet: one bit less.
        if bucket < self.bucket_count { bucket } else { (tag.bits() & (self.mask >> 1)) as usize }
    }

    #[inline]
    fn line(&self, line: Line) -> &[u64] {
        match line {
            Line::Bucket(bucket) => &self.buckets[bucket].0,
            Line::Node(node) => &self.nodes[node].0,
        }
    }

    #[inline]
    fn line_mut(&mut self, line: Line) -> &mut [u64] {
        match line {
            Line::Bucket(bucket) => &mut self.buckets[bucket].0,
            Line::Node(node) => &mut self.nodes[node].0,
        }
    }

    /// A vacant slot in the chain of a bucket.
    #[inline]
    fn reserve_in(&mut self, bucket: usize) -> Result<Slot, MemoryError> {
        let mut line = Line::Bucket(bucket);
        loop {
            let entries = self.line(line);
            if let Some(position) = entries.iter().position(|entry| *entry == VACANT) {
                return Ok(Slot { line, position });
            }
            match linked(entries) {
                Some(node) => line = Line::Node(node),
                None => return self.extend(line),
            }
        }
    }

    /// A vacant slot in a new node behind a full line, whose last entry makes way for the link.
    fn extend(&mut self, line: Line) -> Result<Slot, MemoryError> {
        let node = self.take_node()?;
        let entries = self.line_mut(line);
        let last = entries.len() - 1;
        let moved = std::mem::replace(&mut entries[last], LINK | node as u64);
        self.nodes[node] = Node([moved, VACANT, VACANT, VACANT]);
        Ok(Slot { line: Line::Node(node), position: 1 })
    }

    fn take_node(&mut self) -> Result<usize, MemoryError> {
        if let Some(node) = self.free_node.checked_sub(1) {
            self.free_node = self.nodes[node as usize].0[0];
            return Ok(node as usize);
        }
        if self.node_count == self.nodes.capacity() {
            self.charge.resize((self.bytes() + Chunks::<Node>::CHUNK_BYTES) as u64)?;
            self.nodes.grow();
        }
        self.node_count += 1;
        Ok(self.node_count - 1)
    }

    fn free(&mut self, node: usize) {
        self.nodes[node].0[0] = self.free_node;
        self.free_node = node as u64 + 1;
    }

    /// Whether there is memory for one more bucket: in the last chunk, or within the bytes that the
    /// entries are worth and the limit.
    #[inline]
    fn may_split(&mut self) -> bool {
        if self.bucket_count < self.buckets.capacity() {
            return true;
        }
        let bytes = self.bytes() + Chunks::<Bucket>::CHUNK_BYTES;
        // Nodes come by smaller chunks, and whenever a bucket overflows. In a small index they would take all that the entries
        // are worth before it is enough for a chunk of buckets, and the chains would grow with the entries.
        let is_crowded =
            self.entries <= CROWDED_MAX && self.nodes.bytes() * NODES_SHARE > self.buckets.bytes();
        let counted = if is_crowded { self.bytes() } else { bytes };
        if counted * 4 > self.entries * FOUR_ENTRIES_BYTES
            || self.bucket_count >= BUCKETS_MAX
            || self.charge.resize(bytes as u64).is_err()
        {
            return false;
        }
        self.buckets.grow();
        true
    }

    /// Adds a bucket and moves to it what now belongs there from the bucket that held it so far.
    fn split(&mut self) {
        let added = self.bucket_count as u64;
        self.bucket_count += 1;
        if added > self.mask {
            self.mask = self.mask << 1 | 1;
        }
        let parent = (added & (self.mask >> 1)) as usize;

        let mut moving = std::mem::take(&mut self.moving);
        let mut line = Line::Bucket(parent);
        loop {
            let entries = self.line_mut(line);
            moving.extend(entries.iter().filter(|entry| **entry != VACANT && **entry & LINK == 0));
            let link = linked(entries);
            entries.fill(VACANT);
            if let Line::Node(node) = line {
                self.free(node);
            }
            match link {
                Some(node) => line = Line::Node(node),
                None => break,
            }
        }
        for entry in moving.drain(..) {
            let bucket = self.bucket_of(Tag::of(entry));
            // A chain of n nodes holds up to 8 + 3n entries, so that two chains never need more
            // nodes than the one that they came from.
            let slot = self.reserve_in(bucket).expect("splitting freed the nodes that it needs");
            self.line_mut(slot.line)[slot.position] = entry;
        }
        self.moving = moving;
    }
}

/// The address in an entry, if the entry is one and its tag is this.
#[inline]
fn candidate(entry: u64, tag: Tag) -> Option<Address> {
    let rest = entry ^ (tag.bits() << TAG_SHIFT);
    // Zero is a vacant slot, and links and other tags are above all addresses.
    (rest.wrapping_sub(1) < LINK - 1).then(|| Address::from_bits(rest))
}

/// The node behind a line.
#[inline]
fn linked(entries: &[u64]) -> Option<usize> {
    let last = entries[entries.len() - 1];
    (last & LINK != 0).then_some((last & (LINK - 1)) as usize)
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("entries", &self.entries)
            .field("buckets", &self.bucket_count)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
