//! What a worker combines before it goes to where it belongs.

use std::hash::Hash;

use weft_object::{Pair, Record};

use super::table::Table;

/// Pairs that are looked up in a row in a table that no cache has room for. A look-up waits for memory; the processor begins the next ones meanwhile if nothing else stands
/// between them, such as what makes the pairs.
const BATCH: usize = 1024;

/// Takes pairs, and gives one for each key when its table is full, and in the end.
pub(super) struct Leaving<K, V, F> {
    combine: F,
    table: Table<K, V>,
    /// What was not looked up yet.
    batch: Vec<Pair<K, V>>,
}

impl<K: Eq + Hash, V: Copy, F: Fn(V, V) -> V + Copy> Leaving<K, V, F>
where
    Pair<K, V>: Record,
{
    pub(super) fn new(table: Table<K, V>, combine: F) -> Self {
        Leaving { combine, table, batch: Vec::new() }
    }

    /// Takes a pair; `leave` gets those that there is no more room for.
    #[inline(always)]
    pub(super) fn add<E>(
        &mut self,
        pair: Pair<K, V>,
        leave: &mut impl FnMut(Pair<K, V>) -> Result<(), E>,
    ) -> Result<(), E> {
        // A key that has memory of its own counts from when it comes: as much as a thousand of them may have is the table's to refuse.
        if self.table.is_large() && pair.heap_bytes() == 0 {
            self.batch.push(pair);
            return if self.batch.len() < BATCH { Ok(()) } else { self.look_up(leave) };
        }
        match self.table.add(pair, self.combine) {
            Ok(()) => Ok(()),
            Err(pair) => self.empty(pair, leave),
        }
    }

    /// Gives all that is left.
    pub(super) fn finish<E>(
        mut self,
        leave: &mut impl FnMut(Pair<K, V>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.look_up(leave)?;
        self.table.drain().try_for_each(leave)
    }

    #[inline(never)]
    fn look_up<E>(&mut self, leave: &mut impl FnMut(Pair<K, V>) -> Result<(), E>) -> Result<(), E> {
        let mut batch = std::mem::take(&mut self.batch);
        for pair in batch.drain(..) {
            if let Err(pair) = self.table.add(pair, self.combine) {
                self.empty(pair, leave)?;
            }
        }
        self.batch = batch;
        Ok(())
    }

    #[cold]
    fn empty<E>(
        &mut self,
        pair: Pair<K, V>,
        leave: &mut impl FnMut(Pair<K, V>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.table.drain().chain([pair]).try_for_each(leave)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use weft_object::TextKey;
    use weft_transport::{Memory, MemoryConfig};

    use super::*;
    use crate::budget::Budget;

    /// What leaves of so many pairs, each of whose keys has `each`, where the table has at most so many bytes.
    fn leaving(pairs: u64, each: u64, limit_bytes: u64) -> Vec<(u64, u64)> {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let budget = Budget::new(memory, 1 << 30);
        let mut leaving = Leaving::new(Table::new(&budget, limit_bytes), |one, other| one + other);
        let mut left = Vec::new();
        let mut leave = |pair: Pair<u64, u64>| {
            left.push((pair.key, pair.value));
            Ok::<_, Infallible>(())
        };
        for number in 0..pairs {
            let pair = Pair { key: number % (pairs / each), value: 1 };
            let Ok(()) = leaving.add(pair, &mut leave);
        }
        let Ok(()) = leaving.finish(&mut leave);
        left.sort_unstable();
        left
    }

    #[test]
    fn one_pair_a_key_leaves_where_there_is_room_for_all() {
        for keys in [0, 1, 1000, 700_000] {
            let expected: Vec<(u64, u64)> = (0..keys).map(|key| (key, 3)).collect();
            assert_eq!(leaving(3 * keys, 3, 1 << 30), expected, "{keys}");
        }
    }

    #[test]
    fn more_leave_where_there_is_not_and_nothing_is_lost() {
        let left = leaving(3_000_000, 2, 40 << 20);
        assert!(
            left.len() > 1_500_000,
            "{}: the table is full before all keys are there",
            left.len()
        );
        let mut sums = vec![0; 1_500_000];
        left.into_iter().for_each(|(key, value)| sums[key as usize] += value);
        assert!(sums.into_iter().all(|sum| sum == 2));
    }

    #[test]
    fn texts_with_memory_of_their_own_are_not_kept_beside_the_table() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let table = Table::new(&Budget::new(memory, 1 << 30), 1 << 30);
        let mut leaving = Leaving::new(table, |one: u64, other| one + other);
        let mut leave = |_| Ok::<_, Infallible>(());
        let mut add = |leaving: &mut Leaving<TextKey, u64, _>, text: &str| {
            let Ok(()) = leaving.add(Pair { key: text.into(), value: 1 }, &mut leave);
        };
        for number in 0..300_000 {
            add(&mut leaving, &number.to_string());
        }
        assert!(leaving.table.is_large());
        add(&mut leaving, &"x".repeat(900_000));
        assert!(leaving.batch.iter().all(|pair| pair.heap_bytes() == 0));
    }
}
