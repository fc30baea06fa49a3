//! In which order all entries are met, however the index grows meanwhile.
//!
//! In the order of their tags with the bits reversed, as Redis's SCAN has it. The lowest bits of a tag, which choose
//! the bucket, count most then. So a bucket holds all entries of one range of positions; when it is split,
//! either half of that range is a bucket; and where an entry comes never changes.

use super::{Index, LINK, TAG_BITS, TAG_SHIFT, Tag, VACANT, linked, prefetch};
use crate::store::address::Address;

/// Positions are below this.
const POSITION_END: u32 = 1 << TAG_BITS;

/// The position of entries with this tag, and the other way round.
fn reversed(bits: u32) -> u32 {
    bits.reverse_bits() >> (u32::BITS - TAG_BITS)
}

impl Index {
    /// Where the entries of the next bucket start behind the one that has `position`; `None` behind the last.
    pub(in super::super) fn bucket_end(&self, position: u32) -> Option<u32> {
        let half = self.mask >> 1;
        let bucket = u64::from(reversed(position)) & half;
        // Those that are split already are chosen by one bit more.
        let is_split = (bucket | (half + 1)) < self.bucket_count as u64 && self.mask > 0;
        let bits = if is_split { self.mask.count_ones() } else { half.count_ones() };
        let width = POSITION_END >> bits;
        let end = (position & !(width - 1)) + width;
        (end < POSITION_END).then_some(end)
    }

    /// Asks for the bucket that has `position` to be brought into the cache.
    pub(in super::super) fn prefetch_position(&self, position: u32) {
        if self.entries > 0 {
            prefetch::read(&self.buckets[self.bucket_of(tag_at(position))]);
        }
    }

    /// Adds the entries of the bucket that has `position`, from there on, in their order.
    pub(in super::super) fn collect_from(&self, position: u32, entries: &mut Vec<(u32, Address)>) {
        if self.entries == 0 {
            return;
        }
        let before = entries.len();
        let mut line = &self.buckets[self.bucket_of(tag_at(position))].0[..];
        loop {
            let met = line.iter().filter(|entry| **entry != VACANT && **entry & LINK == 0);
            entries.extend(met.filter_map(|&entry| {
                let at = reversed((entry >> TAG_SHIFT) as u32);
                (at >= position).then(|| (at, Address::from_bits(entry & (LINK - 1))))
            }));
            let Some(node) = linked(line) else { break };
            line = &self.nodes[node].0;
        }
        entries[before..].sort_unstable_by_key(|(at, _)| *at);
    }

    /// Tells this way of hashing from others: positions mean the same as long as this stays.
    pub(in super::super) fn stamp(&self) -> u32 {
        (self.tags.seed >> 32) as u32 ^ self.tags.seed as u32
    }
}

fn tag_at(position: u32) -> Tag {
    Tag(reversed(position))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weft_protocol::TableId;
    use weft_transport::{Memory, MemoryConfig};

    use super::*;

    fn insert(index: &mut Index, number: u32) {
        let tag = index.tag(TableId::DEFAULT, &number.to_le_bytes());
        let slot = index.reserve(tag).unwrap();
        index.fill(slot, tag, Address::new(1 + number / 1_000, number as usize % 1_000 * 8));
    }

    /// Whatever the number of buckets is, and whenever it grows between two of them.
    #[test]
    fn every_entry_is_met_once_while_the_index_grows() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        for (there, pause) in [(0, 1), (1, 1), (700, 1), (5_000, 1), (5_000, 13), (20_000, 7)] {
            let mut index = Index::new(7, &memory);
            (0..there).for_each(|number| insert(&mut index, number));
            let (mut met, mut entries) = (Vec::new(), Vec::new());
            let (mut next, mut buckets, mut more) = (Some(0), 0, there);
            while let Some(position) = next {
                entries.clear();
                index.collect_from(position, &mut entries);
                assert!(entries.is_sorted_by_key(|(at, _)| *at));
                met.extend_from_slice(&entries);
                next = index.bucket_end(position);
                assert!(entries.iter().all(|(at, _)| next.is_none_or(|next| *at < next)));
                buckets += 1;
                if buckets % pause == 0 && more < 3 * there {
                    // New ones are met or not.
                    (0..20).for_each(|number| insert(&mut index, more + number));
                    more += 20;
                }
            }
            assert!(met.is_sorted_by_key(|(at, _)| *at), "in order throughout");
            let all = met.len();
            let met: BTreeSet<_> = met.into_iter().map(|(_, address)| address.bits()).collect();
            assert_eq!(met.len(), all, "one was met twice");
            for number in 0..there {
                let address = Address::new(1 + number / 1_000, number as usize % 1_000 * 8);
                assert!(met.contains(&address.bits()), "{number} of {there} was missed");
            }
        }
    }
}
