//! What two sides have of a key, each with each, in a bounded part of memory.

use std::cmp::Ordering;

use weft_object::{Pair, Record, Wire};

use crate::budget::Taken;
use crate::error::JobError;
use crate::sort::Cursor;
use crate::spill::{SpillFile, Spilling};

/// Bytes of values of a side that are in memory at once. Each time that they are gone through, what the other side has is read once; so if they are a thousand, reading takes a thousandth of the time.
const BLOCK_BYTES: usize = 256 << 10;

/// Goes through what both sides have of a key. Where neither fits, one is written to a file, and read again for each block of the other: the block nested loop of databases.
pub(super) struct Product<V, W> {
    spilling: Spilling,
    left: Vec<V>,
    right: Vec<W>,
    _taken: Taken,
}

impl<V: Wire, W: Wire> Product<V, W> {
    pub(super) fn new(spilling: Spilling) -> Product<V, W> {
        let taken = spilling.budget.take_anyway(2 * BLOCK_BYTES as u64);
        Product { spilling, left: Vec::new(), right: Vec::new(), _taken: taken }
    }

    /// Gives `sink` each two values of `key`, at which both sides are; behind that, they are at the next.
    pub(super) fn of_key<K: Ord + Clone, F, G>(
        &mut self,
        key: &K,
        left: &mut Cursor<K, V, F>,
        right: &mut Cursor<K, W, G>,
        sink: &mut impl FnMut((K, V, W)) -> Result<(), JobError>,
    ) -> Result<(), JobError>
    where
        Pair<K, V>: Record,
        Pair<K, W>: Record,
        F: Fn(&Pair<K, V>, &Pair<K, V>) -> Ordering,
        G: Fn(&Pair<K, W>, &Pair<K, W>) -> Ordering,
    {
        if fill(&mut self.right, key, right)? {
            while let Some(value) = left.take_of(key)? {
                self.right.iter().try_for_each(|other| sink((key.clone(), value, *other)))?;
            }
            return Ok(());
        }
        if fill(&mut self.left, key, left)? {
            let mut with_all =
                |other| self.left.iter().try_for_each(|value| sink((key.clone(), *value, other)));
            self.right.iter().try_for_each(|other| with_all(*other))?;
            while let Some(other) = right.take_of(key)? {
                with_all(other)?;
            }
            return Ok(());
        }
        let mut file = SpillFile::new(self.spilling.clone());
        let mut run = file.begin();
        let pair = |value| Pair { key: key.clone(), value };
        self.left.iter().try_for_each(|value| run.push(&pair(*value)))?;
        while let Some(value) = left.take_of(key)? {
            run.push(&pair(value))?;
        }
        let run = run.finish()?;
        while !self.right.is_empty() {
            let mut values = file.read(run.clone());
            while let Some(Pair { value, .. }) = values.next()? {
                self.right.iter().try_for_each(|other| sink((key.clone(), value, *other)))?;
            }
            let _is_all = fill(&mut self.right, key, right)?;
        }
        Ok(())
    }
}

/// Takes what is next of a key into a block that is made empty before. Returns whether that was all.
fn fill<K: Ord, V: Wire, F>(
    block: &mut Vec<V>,
    key: &K,
    from: &mut Cursor<K, V, F>,
) -> Result<bool, JobError>
where
    Pair<K, V>: Record,
    F: Fn(&Pair<K, V>, &Pair<K, V>) -> Ordering,
{
    block.clear();
    let most = (BLOCK_BYTES / size_of::<V>().max(1)).max(1);
    while block.len() < most {
        match from.take_of(key)? {
            Some(value) => block.push(value),
            None => return Ok(true),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use weft_object::{Text, TextKey, Types};
    use weft_transport::{Memory, MemoryConfig};

    use super::*;
    use crate::budget::Budget;
    use crate::sort::{Sorter, by_key};

    /// A value of which a block has room for 128.
    type Long = [u64; 256];

    fn long(number: u64) -> Long {
        let mut value = [0; 256];
        value[255] = number;
        value
    }

    type Compare<K> = fn(&Pair<K, Long>, &Pair<K, Long>) -> Ordering;

    /// Of keys from 1 on, as many values as `counts` says.
    fn side<K: Ord>(
        spilling: &Spilling,
        key: impl Fn(u64) -> K,
        counts: &[u64],
    ) -> Cursor<K, Long, Compare<K>>
    where
        Pair<K, Long>: Record,
    {
        let mut sorter = Sorter::new(spilling.clone(), by_key::<K, Long> as Compare<K>);
        for (number, count) in (1..).zip(counts) {
            let pair = |value| Pair { key: key(number), value: long(value) };
            (0..*count).for_each(|value| sorter.push(pair(value)).unwrap());
        }
        Cursor::new(sorter.finish().unwrap()).unwrap()
    }

    fn check<K: Ord + Clone + std::fmt::Debug>(key: impl Fn(u64) -> K)
    where
        Pair<K, Long>: Record,
    {
        let memory = Memory::new(MemoryConfig { limit_bytes: 256 << 20 }).unwrap();
        let types = Types::new().with::<Pair<u64, Long>>().with::<Pair<Text, Long>>();
        let budget = Budget::new(memory.clone(), 1 << 30);
        let spilling = Spilling::new("/tmp".into(), memory, types, budget);
        let (of_left, of_right) =
            ([1, 128, 129, 400, 3, 500, 256, 2], [1, 128, 129, 3, 400, 400, 256, 1]);
        let mut left = side(&spilling, &key, &of_left);
        let mut right = side(&spilling, &key, &of_right);
        let mut product = Product::new(spilling.clone());
        for ((number, left_count), right_count) in (1..).zip(of_left).zip(of_right) {
            let key = key(number);
            let before = spilling.bytes_spilled();
            let mut found = Vec::new();
            let mut sink = |(of, value, other): (K, Long, Long)| {
                assert_eq!(of, key);
                found.push((value[255], other[255]));
                Ok(())
            };
            product.of_key(&key, &mut left, &mut right, &mut sink).unwrap();
            found.sort_unstable();
            let each = |value| (0..right_count).map(move |other| (value, other));
            assert!(found == (0..left_count).flat_map(each).collect::<Vec<_>>(), "{key:?}");
            let is_long = left_count >= 128 && right_count >= 128;
            assert_eq!(spilling.bytes_spilled() > before, is_long, "{key:?}");
        }
        assert_eq!((left.key(), right.key()), (None, None));
    }

    #[test]
    fn each_goes_with_each_whether_a_block_has_room_for_them_or_not() {
        check(|number| number);
        check(|number| TextKey::from(&*format!("{number}, as a text beside the value of a key")));
    }
}
