//! What a write may need, so that it is seen to before it is made.

use weft_protocol::{Key, TableId};

use crate::store::Partition;

/// The most that an entry has beside key and value: the head and padding of a record, and a completion.
const ENTRY_BYTES: usize = 128;

/// What a write may need at most.
#[derive(Clone, Copy)]
pub(crate) struct Needed<'k> {
    /// About so much memory, beside what a record takes in any case.
    pub(crate) memory_bytes: usize,
    entry: Entry<'k>,
}

/// How long the entry becomes.
#[derive(Clone, Copy)]
enum Entry<'k> {
    /// So long, beside what every entry has.
    New(usize),
    /// So much longer than the object that the key has.
    Longer(Key<'k>, usize),
    /// As long as this upload, with a key of so many bytes.
    Upload(u64, usize),
}

impl<'k> Needed<'k> {
    /// For a new object of so many bytes of key and value.
    #[inline]
    pub(crate) fn object(len: usize) -> Needed<'k> {
        Needed { memory_bytes: len, entry: Entry::New(len) }
    }

    /// For the removal of this key.
    #[inline]
    pub(crate) fn removal(key: Key<'_>) -> Needed<'k> {
        Needed { memory_bytes: 0, entry: Entry::New(key.len()) }
    }

    /// For another object in the place of that of `key`, longer by so many bytes.
    pub(crate) fn longer(key: Key<'k>, len: usize) -> Needed<'k> {
        Needed { memory_bytes: key.len() + len, entry: Entry::Longer(key, key.len() + len) }
    }

    /// For the value of an upload as the object of `key`. Its memory is taken; what may be missing is an entry of the index.
    pub(crate) fn upload(number: u64, key: Key<'_>) -> Needed<'k> {
        Needed { memory_bytes: key.len(), entry: Entry::Upload(number, key.len()) }
    }

    /// How long the entry can become, in this partition.
    #[inline]
    pub(crate) fn entry_bytes(
        &self,
        partition: &mut Partition,
        table: TableId,
        now_ms: u64,
    ) -> usize {
        let len = match &self.entry {
            Entry::New(len) => *len,
            Entry::Longer(key, len) => len + partition.record_len(table, key, now_ms),
            Entry::Upload(number, len) => len + partition.upload_len(*number),
        };
        len + ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::CompletionId;
    use weft_protocol::limits::{KEY_MAX, REQUEST_VALUE_MAX};
    use weft_transport::{Memory, MemoryConfig};

    use super::*;
    use crate::store::{Answer, Attempt, PartitionConfig, StoreError};

    const TABLE: TableId = TableId::DEFAULT;

    /// Does something to the object of a key, once, and compares its entry with what was said to be needed.
    fn check<T: Answer>(
        partition: &mut Partition,
        sequence: u64,
        needed: Needed<'_>,
        write: impl FnOnce(&mut Partition) -> Result<T, StoreError>,
    ) {
        let most = needed.entry_bytes(partition, TABLE, 0);
        let attempt = Attempt { id: CompletionId { client: 1, sequence }, first_incomplete: 1 };
        partition.once(Some(attempt), write).unwrap().answer.unwrap();
        let len = partition.take_entry().unwrap().bytes.len();
        assert!(len <= most && len + ENTRY_BYTES >= most / 2, "{sequence}: {len} of {most}");
        assert!(partition.take_entry().is_none(), "{sequence}");
    }

    #[test]
    fn no_entry_is_longer_than_what_is_asked_for() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let config = PartitionConfig { id: 0, epoch: 1, seed: 7, memory };
        let mut partition = Partition::new(config).unwrap();
        partition.set_recording(true);
        let mut sequences = 1..;
        for key_len in [1, 9, 1000, KEY_MAX] {
            for value_len in [0, 3, 100, 5_000, 200_000] {
                let (bytes, value) = (vec![7; key_len], vec![8; value_len]);
                let key = Key::new(&bytes).unwrap();
                let partition = &mut partition;
                let mut next = || sequences.next().unwrap();
                let object = Needed::object(key_len + value_len);
                let later = Some(1 << 50);
                check(partition, next(), object, |it| it.put(TABLE, &key, &value, later, 0));
                check(partition, next(), Needed::longer(key, value_len), |it| {
                    it.append(TABLE, &key, &value, later, REQUEST_VALUE_MAX, 0)
                });
                check(partition, next(), object, |it| it.get_and_put(TABLE, &key, &value, None, 0));
                check(partition, next(), Needed::longer(key, 0), |it| {
                    it.expire(TABLE, &key, later, REQUEST_VALUE_MAX, 0).map(|at| at.unwrap())
                });
                check(partition, next(), Needed::removal(key), |it| it.delete(TABLE, &key, 0));
                check(partition, next(), Needed::longer(key, 20), |it| {
                    it.increment(TABLE, &key, i64::MIN, None, 0)
                });
                check(partition, next(), Needed::removal(key), |it| it.delete(TABLE, &key, 0));
            }
        }
    }
}
