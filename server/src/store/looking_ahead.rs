//! Looking many keys up at a time: their memory is asked for ahead, so that they wait for it together, and their tags are computed
//! once, by who has the [`Tags`](super::Tags) of the partition's seed.

use weft_protocol::TableId;

use super::index::Tag;
use super::partition::{ObjectRef, Partition};

impl Partition {
    /// Asks for the first thing that a lookup of a key with this tag reads, its bucket, to be brought into the
    /// cache. Called for all keys of a batch before the first is looked up, it makes them wait for
    /// memory at the same time instead of one after the other.
    #[inline]
    pub fn prefetch_bucket(&self, tag: Tag) {
        self.index.prefetch(tag);
    }

    /// Asks for the second thing, the record, as much of it as is one on average: what is copied waits for its first
    /// bytes, and for its last. Reads the bucket, so that it is of use after
    /// [`Partition::prefetch_bucket`] was called for all keys of the batch. Returns true if the bucket does not know the record
    /// and has more behind it, which it asks for then instead: one key in ten.
    #[inline]
    pub fn prefetch_record(&self, tag: Tag) -> bool {
        let mut is_known = false;
        let len = self.log.mean_len(self.index.len());
        for address in self.index.candidates(tag) {
            is_known = true;
            self.log.prefetch(address, len);
        }
        !is_known && self.index.prefetch_overflow(tag)
    }

    /// Asks for the record of a key of which [`Partition::prefetch_record`] has returned true. Reads what that has asked for.
    #[inline]
    pub fn prefetch_overflowed(&self, tag: Tag) {
        let len = self.log.mean_len(self.index.len());
        self.index.overflow_candidates(tag).for_each(|address| self.log.prefetch(address, len));
    }

    /// The object of a key that has this tag.
    #[inline]
    pub fn get_tagged(
        &mut self,
        tag: Tag,
        table: TableId,
        key: &[u8],
        now_ms: u64,
    ) -> Option<ObjectRef<'_>> {
        let (_, address) = self.find_current(tag, table, key, now_ms)?;
        let segment = self.log.segment(address.segment());
        let record = segment.record(address.offset());
        Some(ObjectRef {
            version: record.version(),
            value: record.value(),
            expiry_ms: record.expiry_ms(),
            segment,
            address,
        })
    }
}
