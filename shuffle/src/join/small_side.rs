//! The small side of a join, in memory that was taken for it, to be looked up by key.

use std::hash::{BuildHasher as _, Hash};
use std::slice;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use weft_object::{Pair, Record, Wire};

use crate::budget::{Budget, Taken};
use crate::error::JobError;

/// Keys that the smallest table has room for.
const LEAST_LEN: usize = 1024;

/// What lies beside the table is taken from the budget in steps of so many bytes, of which the first is there in any case.
const HEAP_STEP_BYTES: u64 = 1 << 20;

/// All values of each key.
pub(super) struct SmallSide<K, W> {
    entries: HashTable<(K, Values<W>)>,
    hasher: RandomState,
    budget: Budget,
    /// For the table itself.
    taken: Taken,
    heap_bytes: u64,
    heap: Vec<Taken>,
}

/// Most keys of a small side have one value.
enum Values<W> {
    One(W),
    Several(Vec<W>),
}

impl<K: Eq + Hash, W: Wire> SmallSide<K, W>
where
    Pair<K, W>: Record,
{
    pub(super) fn new(budget: &Budget) -> SmallSide<K, W> {
        let entries = HashTable::with_capacity(LEAST_LEN);
        let taken = budget.take_anyway(entries.allocation_size() as u64);
        let (budget, hasher) = (budget.clone(), RandomState::default());
        SmallSide { entries, hasher, budget, taken, heap_bytes: 0, heap: Vec::new() }
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// [`JobError::SmallSide`]: there is no memory for it.
    pub(super) fn add(&mut self, pair: Pair<K, W>) -> Result<(), JobError> {
        let hash = self.hasher.hash_one(&pair.key);
        let is_key = |(key, _): &(K, Values<W>)| *key == pair.key;
        if let Some((_, values)) = self.entries.find_mut(hash, is_key) {
            let more = values.push(pair.value);
            return self.take_heap(more);
        }
        if self.entries.len() == self.entries.capacity() {
            self.grow()?;
        }
        self.take_heap(pair.heap_bytes())?;
        let hasher = &self.hasher;
        let entry = (pair.key, Values::One(pair.value));
        self.entries.insert_unique(hash, entry, |(key, _)| hasher.hash_one(key));
        Ok(())
    }

    /// The values of a key.
    #[inline]
    pub(super) fn of_key(&self, key: &K) -> &[W] {
        let found = self.entries.find(self.hasher.hash_one(key), |(known, _)| known == key);
        found.map_or(&[], |(_, values)| values.all())
    }

    /// Twice the size. What there is now has to stay until all is moved.
    #[cold]
    fn grow(&mut self) -> Result<(), JobError> {
        let bytes = 2 * self.entries.allocation_size() as u64;
        let taken = self.budget.take(bytes).ok_or_else(|| self.too_large())?;
        let hasher = &self.hasher;
        self.entries.reserve(1, |(key, _)| hasher.hash_one(key));
        self.taken = taken;
        Ok(())
    }

    fn take_heap(&mut self, more: usize) -> Result<(), JobError> {
        self.heap_bytes += more as u64;
        while self.heap.len() as u64 * HEAP_STEP_BYTES < self.heap_bytes {
            let taken = match self.heap.is_empty() {
                true => self.budget.take_anyway(HEAP_STEP_BYTES),
                false => self.budget.take(HEAP_STEP_BYTES).ok_or_else(|| self.too_large())?,
            };
            self.heap.push(taken);
        }
        Ok(())
    }

    fn too_large(&self) -> JobError {
        JobError::SmallSide { limit_bytes: self.budget.given_bytes() }
    }
}

impl<W: Wire> Values<W> {
    /// Adds one; returns how many bytes more that takes beside the table.
    fn push(&mut self, value: W) -> usize {
        let before = self.heap_bytes();
        match self {
            Values::One(first) => *self = Values::Several(vec![*first, value]),
            Values::Several(values) => values.push(value),
        }
        self.heap_bytes() - before
    }

    /// With the word that an allocator needs for each piece, and what it rounds up.
    fn heap_bytes(&self) -> usize {
        match self {
            Values::One(_) => 0,
            Values::Several(values) => {
                (values.capacity() * size_of::<W>() + size_of::<usize>()).next_multiple_of(16)
            }
        }
    }

    #[inline]
    fn all(&self) -> &[W] {
        match self {
            Values::One(value) => slice::from_ref(value),
            Values::Several(values) => values,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_object::TextKey;
    use weft_transport::{Memory, MemoryConfig};

    use super::*;

    fn budget(bytes: u64) -> Budget {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let registered = memory.account().resident_bytes;
        Budget::new(memory, registered + bytes)
    }

    #[test]
    fn all_values_of_a_key_are_found_in_the_order_in_which_they_came() {
        let mut side = SmallSide::new(&budget(64 << 20));
        for value in 0..100_000_u64 {
            side.add(Pair { key: value % 30_000, value }).unwrap();
        }
        for key in 0..30_000 {
            let expected: Vec<u64> = (key..100_000).step_by(30_000).collect();
            assert_eq!(side.of_key(&key), expected);
        }
        assert!(side.of_key(&30_000).is_empty());
    }

    /// How many pairs have room.
    fn added<K: Eq + Hash>(mut side: SmallSide<K, u64>, key: impl Fn(u64) -> K) -> u64
    where
        Pair<K, u64>: Record,
    {
        for value in 0.. {
            match side.add(Pair { key: key(value), value }) {
                Ok(()) => {}
                Err(JobError::SmallSide { .. }) => return value,
                Err(error) => panic!("{error}"),
            }
        }
        unreachable!("memory ends")
    }

    #[test]
    fn what_lies_in_the_table_and_beside_it_counts() {
        let each_table = 32 + 1;
        let keys = added(SmallSide::new(&budget(16 << 20)), |value| value);
        // A table that is full, and one of twice the size.
        assert!(((4 << 20) / each_table..(12 << 20) / each_table).contains(&keys), "{keys}");
        let values = added(SmallSide::new(&budget(16 << 20)), |_| 7_u64);
        assert!(((8 << 20) / 8..=(18 << 20) / 8).contains(&values), "{values}");
        let text = |value| TextKey::from(&*format!("{value:01000}"));
        let texts = added(SmallSide::new(&budget(16 << 20)), text);
        assert!((14_000..16_700).contains(&texts), "{texts}");
        assert!(added(SmallSide::new(&budget(0)), |value| value) >= LEAST_LEN as u64);
    }

    #[test]
    fn who_has_no_room_is_told_how_much_there_is_and_what_to_do() {
        let error = JobError::SmallSide { limit_bytes: 64 << 20 }.to_string();
        assert!(error.contains("64 MiB") && error.contains("--memory"), "{error}");
        assert!(error.contains("--small-right") && error.contains("`join`"), "{error}");
    }
}
