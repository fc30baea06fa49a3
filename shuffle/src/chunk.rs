//! Records in memory that was taken from the budget for them, a few megabytes at a time.

use weft_object::Record;

use crate::budget::Taken;

/// Bytes of records that are taken from the budget at once.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// Records, and the memory that they may fill.
#[derive(Debug)]
pub(crate) struct Chunk<R> {
    records: Vec<R>,
    /// How many records it may have, by what those have beside their values that are there.
    len_max: usize,
    bytes: usize,
    heap_bytes: usize,
    taken: Taken,
}

impl<R: Record> Chunk<R> {
    /// An empty one, for as many bytes as were taken.
    pub(crate) fn new(taken: Taken) -> Chunk<R> {
        let bytes = taken.bytes() as usize;
        let len_max = len_in::<R>(bytes);
        Chunk { records: Vec::with_capacity(len_max), len_max, bytes, heap_bytes: 0, taken }
    }

    /// Whether another record may come. An empty chunk has room for one, whatever that takes.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.records.len() < self.len_max
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, record: R) {
        let heap_bytes = record.heap_bytes();
        self.records.push(record);
        if heap_bytes > 0 {
            self.count_heap(heap_bytes);
        }
    }

    /// What a record has beside its value leaves less room for others.
    #[inline(never)]
    fn count_heap(&mut self, more: usize) {
        self.heap_bytes += more;
        self.len_max = self.bytes.saturating_sub(self.heap_bytes) / size_of::<R>().max(1);
    }

    pub(crate) fn records(&self) -> &[R] {
        &self.records
    }

    pub(crate) fn records_mut(&mut self) -> &mut [R] {
        &mut self.records
    }

    /// Bytes that were taken for it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The records, and what gives the memory back when they have gone.
    pub(crate) fn into_parts(self) -> (std::vec::IntoIter<R>, Taken) {
        (self.records.into_iter(), self.taken)
    }

    /// The memory, for another chunk: the records go.
    pub(crate) fn into_taken(self) -> Taken {
        self.taken
    }
}

/// How many records with nothing beside their values so many bytes have room for.
fn len_in<R>(bytes: usize) -> usize {
    (bytes / size_of::<R>().max(1)).max(1)
}

/// How many of them a whole chunk has room for.
#[cfg(test)]
pub(crate) fn chunk_len<R>() -> usize {
    len_in::<R>(CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use weft_object::{Pair, TextKey};
    use weft_transport::{Memory, MemoryConfig};

    use super::*;
    use crate::budget::Budget;

    #[test]
    fn what_lies_beside_the_records_counts() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let budget = Budget::new(memory, 0);
        for text_bytes in [0, 23, 24, 100, 10_000, 1_000_000, 5 << 20] {
            let mut chunk = Chunk::new(budget.take_anyway(CHUNK_BYTES as u64));
            let mut heap_bytes = 0;
            while chunk.has_room() {
                let key = TextKey::from(&*"x".repeat(text_bytes));
                heap_bytes += key.heap_bytes();
                chunk.push(Pair { key, value: 0_u64 });
            }
            let used = 32 * chunk.records().len() + heap_bytes;
            let each = used / chunk.records().len();
            assert!(used + each > CHUNK_BYTES && used < CHUNK_BYTES + each, "{text_bytes}: {used}");
        }
    }
}
