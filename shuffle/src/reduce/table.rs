//! A value for each key, in no more memory than there is for them.

use std::hash::{BuildHasher as _, Hash, Hasher as _};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use weft_object::{Pair, Record};

use crate::budget::{Budget, Taken};

/// Keys that the smallest table has room for.
const LEAST_LEN: usize = 1024;
/// What keys have beside the table is taken from the budget in steps of so many bytes, of which the first is there in any case.
const HEAP_STEP_BYTES: u64 = 1 << 20;

/// What a processor's own cache may have room for, with all else that it has.
const LARGE_BYTES: usize = 8 << 20;

/// What keys have so far.
pub(super) struct Table<K, V> {
    entries: HashTable<Pair<K, V>>,
    hasher: RandomState,
    budget: Budget,
    limit_bytes: u64,
    /// For the table itself.
    taken: Taken,
    heap: Heap,
    is_large: bool,
}

/// What keys have beside the table.
#[derive(Default)]
struct Heap {
    bytes: u64,
    taken: Vec<Taken>,
}

impl<K: Eq + Hash, V: Copy> Table<K, V>
where
    Pair<K, V>: Record,
{
    /// An empty table, which takes at most so many bytes, and not more than the budget has. A small one is there in any case.
    pub(super) fn new(budget: &Budget, limit_bytes: u64) -> Table<K, V> {
        let entries = HashTable::with_capacity(LEAST_LEN);
        let taken = budget.take_anyway(entries.allocation_size() as u64);
        let (budget, hasher) = (budget.clone(), RandomState::default());
        Table {
            entries,
            hasher,
            budget,
            limit_bytes,
            taken,
            heap: Heap::default(),
            is_large: false,
        }
    }

    /// Adds a value to what its key has.
    ///
    /// # Errors
    /// There is no room for another key: here it is again. An empty table has room for one, whatever that takes.
    // What is done for each record, so all but what a new key takes is a part of the loop that asks for it: a call would have the pair lie in memory.
    #[inline(always)]
    #[expect(
        clippy::manual_hash_one,
        reason = "it hashes a reference to the key, by way of one more call that stays one"
    )]
    pub(super) fn add(
        &mut self,
        pair: Pair<K, V>,
        combine: impl Fn(V, V) -> V,
    ) -> Result<(), Pair<K, V>> {
        let mut state = self.hasher.build_hasher();
        pair.key.hash(&mut state);
        let hash = state.finish();
        if let Some(known) = self.entries.find_mut(hash, |known| known.key == pair.key) {
            known.value = combine(known.value, pair.value);
            return Ok(());
        }
        self.insert(hash, pair)
    }

    /// Adds a key that is not there.
    #[cold]
    fn insert(&mut self, hash: u64, pair: Pair<K, V>) -> Result<(), Pair<K, V>> {
        let heap_bytes = pair.heap_bytes() as u64;
        if !self.has_room(heap_bytes) && !self.entries.is_empty() {
            return Err(pair);
        }
        self.heap.bytes += heap_bytes;
        let hasher = &self.hasher;
        self.entries.insert_unique(hash, pair, |pair| hasher.hash_one(&pair.key));
        Ok(())
    }

    /// Whether a look-up waits for memory, most of the time.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.is_large
    }

    /// Gives all of them away; the table keeps its size.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Pair<K, V>> {
        self.heap = Heap::default();
        self.entries.drain()
    }

    /// Makes room for another key, if there is any to be had.
    #[inline]
    fn has_room(&mut self, heap_bytes: u64) -> bool {
        (self.entries.len() < self.entries.capacity() || self.grow())
            && (heap_bytes == 0 || self.has_heap(heap_bytes))
    }

    /// Twice the size. What there is now has to stay until all is moved, so both are within the limit.
    #[cold]
    fn grow(&mut self) -> bool {
        let now = self.entries.allocation_size() as u64;
        if 3 * now + self.heap.bytes > self.limit_bytes {
            return false;
        }
        let Some(taken) = self.budget.take(2 * now) else { return false };
        let hasher = &self.hasher;
        self.entries.reserve(1, |pair| hasher.hash_one(&pair.key));
        self.taken = taken;
        self.is_large = self.entries.allocation_size() > LARGE_BYTES;
        true
    }

    #[cold]
    fn has_heap(&mut self, more: u64) -> bool {
        let bytes = self.heap.bytes + more;
        let table = self.entries.allocation_size() as u64;
        if table + bytes > self.limit_bytes && bytes > HEAP_STEP_BYTES {
            return false;
        }
        while self.heap.taken.len() as u64 * HEAP_STEP_BYTES < bytes {
            let taken = match self.heap.taken.is_empty() {
                true => self.budget.take_anyway(HEAP_STEP_BYTES),
                false => match self.budget.take(HEAP_STEP_BYTES) {
                    Some(taken) => taken,
                    None => return false,
                },
            };
            self.heap.taken.push(taken);
        }
        true
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

    fn sum(one: u64, other: u64) -> u64 {
        one + other
    }

    fn pair<K>(key: K) -> Pair<K, u64> {
        Pair { key, value: 1 }
    }

    #[test]
    fn values_of_a_key_are_combined_and_all_come_back() {
        let mut table = Table::new(&budget(1 << 30), 1 << 30);
        for number in 0..100_000_u64 {
            table.add(pair(number % 30_000), sum).unwrap();
        }
        let mut entries: Vec<(u64, u64)> =
            table.drain().map(|pair| (pair.key, pair.value)).collect();
        entries.sort_unstable();
        let expected = (0..30_000).map(|key| (key, if key < 10_000 { 4 } else { 3 }));
        assert!(entries.into_iter().eq(expected));
        assert!(table.drain().next().is_none());
    }

    /// How many keys it takes, of those that `key` makes.
    fn room<K: Eq + Hash>(table: &mut Table<K, u64>, key: impl Fn(u64) -> K) -> u64
    where
        Pair<K, u64>: Record,
    {
        (0..).find(|number| table.add(pair(key(*number)), sum).is_err()).unwrap()
    }

    #[test]
    fn there_is_no_room_beyond_its_limit_or_the_budget() {
        for bytes in (0..12).map(|step| 200_000 + 100_000 * step) {
            let mut limited = Table::new(&budget(1 << 30), bytes);
            let keys = room(&mut limited, |number| number);
            // Of 16 bytes and one more, in a table of a power of two of which an eighth stays free.
            let most = bytes / 17;
            assert!((most / 4..most).contains(&keys), "{keys}");
            assert!(limited.entries.allocation_size() as u64 <= bytes);
            // A key that is there already needs none.
            assert_eq!(limited.add(pair(0), sum), Ok(()));
            assert_eq!(limited.add(pair(keys), sum), Err(pair(keys)));
            let mut of_budget = Table::new(&budget(bytes), 1 << 30);
            let keys = room(&mut of_budget, |number| number);
            assert!((most / 4..most).contains(&keys), "{keys}");
            assert!(of_budget.entries.allocation_size() as u64 <= bytes);
            assert_eq!(of_budget.drain().count() as u64, keys);
            assert_eq!(of_budget.add(pair(keys), sum), Ok(()));
        }
    }

    #[test]
    fn what_texts_have_beside_the_table_counts() {
        let long = |number: u64| TextKey::from(format!("{number:01000}").as_str());
        let mut table = Table::new(&budget(1 << 30), 10 << 20);
        let keys = room(&mut table, long);
        assert!((9_000..10_500).contains(&keys), "{keys}");
        let mut table = Table::new(&budget(10 << 20), 1 << 30);
        let keys = room(&mut table, long);
        assert!((8_000..10_500).contains(&keys), "{keys}");
        // Given back with the keys.
        table.drain().for_each(drop);
        assert_eq!(room(&mut table, long), keys);
    }

    /// Not one after the other, each of which would be written to a file by itself.
    #[test]
    fn there_is_room_for_some_texts_in_any_case() {
        let mut table = Table::new(&budget(0), 0);
        let keys = room(&mut table, |number| TextKey::from(format!("{number:0100}").as_str()));
        assert!(keys > 1_000, "{keys}");
    }

    #[test]
    fn an_empty_table_has_room_for_one() {
        let mut table = Table::new(&budget(0), 0);
        let key = TextKey::from("x".repeat(5 << 20).as_str());
        assert_eq!(table.add(pair(key), sum), Ok(()));
    }
}
