//! What the index promises, with a table in place of the log.

use std::collections::HashMap;

use proptest::prelude::*;
use weft_transport::MemoryConfig;

use super::*;

fn memory() -> Memory {
    Memory::new(MemoryConfig { limit_bytes: 1 << 30 }).unwrap()
}

/// An index of numbers: a number's record is at an address made of it.
struct Numbers {
    index: Index,
    /// Bits of the hash that are used, to have many collisions.
    tag_mask: u32,
}

impl Numbers {
    fn new(memory: &Memory, tag_bits: u32) -> Numbers {
        Numbers { index: Index::new(42, memory), tag_mask: (1 << tag_bits) - 1 }
    }

    fn tag(&self, number: u32) -> Tag {
        let key = number.to_le_bytes();
        let tag = self.index.tag(TableId::DEFAULT, &key);
        Tag(tag.0 & self.tag_mask)
    }

    fn find(&self, number: u32) -> Option<Slot> {
        let wanted = address(number);
        let (slot, found) = self.index.find(self.tag(number), |found| found == wanted)?;
        assert_eq!(found, wanted);
        Some(slot)
    }

    /// How many lines are looked at before the one that has the number.
    fn lines_before(&self, number: u32) -> usize {
        let (tag, wanted) = (self.tag(number), address(number));
        let mut line = Line::Bucket(self.index.bucket_of(tag));
        let mut before = 0;
        while !self.index.line(line).iter().any(|entry| candidate(*entry, tag) == Some(wanted)) {
            line = Line::Node(linked(self.index.line(line)).expect("it is there"));
            before += 1;
        }
        before
    }

    fn insert(&mut self, number: u32) {
        let tag = self.tag(number);
        let slot = self.index.reserve(tag).unwrap();
        self.index.fill(slot, tag, address(number));
    }
}

fn address(number: u32) -> Address {
    Address::new(number / 100 + 1, number as usize % 100 * 8)
}

proptest! {
    #[test]
    fn agrees_with_a_set(
        tag_bits in prop_oneof![Just(0_u32), Just(5), Just(26)],
        steps in prop::collection::vec((0_u32..300, 0_u8..3), 1..1200),
    ) {
        let memory = memory();
        let mut numbers = Numbers::new(&memory, tag_bits);
        let mut model = HashMap::new();
        for (number, step) in steps {
            let found = numbers.find(number);
            prop_assert_eq!(found.is_some(), model.contains_key(&number));
            match (found, step) {
                (None, _) => {
                    numbers.insert(number);
                    model.insert(number, ());
                }
                (Some(slot), 0) => numbers.index.replace(slot, address(number)),
                (Some(slot), _) => {
                    numbers.index.remove(slot);
                    model.remove(&number);
                }
            }
            prop_assert_eq!(numbers.index.len(), model.len());
        }
        for number in 0..300 {
            prop_assert_eq!(numbers.find(number).is_some(), model.contains_key(&number));
        }
    }
}

#[test]
fn an_entry_takes_its_bytes_at_every_size() {
    let memory = memory();
    let mut numbers = Numbers::new(&memory, TAG_BITS);
    for number in 0..200_000 {
        numbers.insert(number);
        let entries = numbers.index.len();
        // Below, whole chunks count for more than the entries in them.
        if entries >= 10_000 {
            let bytes = numbers.index.bytes();
            assert!(bytes <= entries * 12, "{bytes} bytes for {entries} entries");
        }
    }
    assert_eq!(memory.account().heap_bytes, numbers.index.bytes() as u64);
    for number in 0..200_000 {
        assert!(numbers.find(number).is_some(), "{number} is lost");
    }
    for number in 200_000..210_000 {
        assert!(numbers.find(number).is_none());
    }
}

#[test]
fn most_entries_are_in_the_first_line() {
    let mut numbers = Numbers::new(&memory(), TAG_BITS);
    for number in 0..100_000 {
        numbers.insert(number);
        if number % 10_000 == 9_999 {
            let first = (0..number).filter(|number| {
                let slot = numbers.find(*number).unwrap();
                matches!(slot.line, Line::Bucket(_))
            });
            let share = first.count() as f64 / f64::from(number);
            assert!(share > 0.75, "{share} of {number} entries need one line");
        }
    }
}

#[test]
fn removed_entries_leave_room_for_others() {
    let memory = memory();
    let mut numbers = Numbers::new(&memory, TAG_BITS);
    (0..20_000).for_each(|number| numbers.insert(number));
    let full = numbers.index.bytes();
    for round in 0..5 {
        for number in 0..20_000 {
            let slot = numbers.find(round * 20_000 + number).unwrap();
            numbers.index.remove(slot);
        }
        assert_eq!(numbers.index.len(), 0);
        (0..20_000).for_each(|number| numbers.insert((round + 1) * 20_000 + number));
    }
    assert!(numbers.index.bytes() <= full + full / 20, "{} after {full}", numbers.index.bytes());
}

#[test]
fn a_full_memory_refuses_an_entry_and_loses_none() {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 10 }).unwrap();
    let mut numbers = Numbers::new(&memory, TAG_BITS);
    let mut number = 0;
    let refused = loop {
        let tag = numbers.tag(number);
        match numbers.index.reserve(tag) {
            Ok(slot) => numbers.index.fill(slot, tag, address(number)),
            Err(error) => break error,
        }
        number += 1;
    };
    assert!(matches!(refused, MemoryError::LimitReached { .. }));
    assert!(number > 5_000, "{number} entries");
    assert!((0..number).all(|number| numbers.find(number).is_some()));
    assert!(numbers.find(number).is_none());
}

#[test]
fn the_seed_decides_which_keys_collide() {
    let (one, other) = (Index::new(1, &memory()), Index::new(2, &memory()));
    let tag =
        |index: &Index, number: u32| index.tag(TableId::DEFAULT, &number.to_le_bytes()).0 & 0xff;
    let together: Vec<u32> = (0..100_000).filter(|number| tag(&one, *number) == 7).collect();
    let still = together.iter().filter(|number| tag(&other, **number) == 7).count();
    assert!(still * 16 < together.len(), "{still} of {} collide again", together.len());
}

/// Of 97 keys in a hundred of a large index: what two lines do not know is waited for.
#[test]
fn what_is_looked_at_ahead_leads_to_the_record() {
    const NUMBERS: u32 = 100_000;
    let memory = memory();
    let mut numbers = Numbers::new(&memory, TAG_BITS);
    assert!(!numbers.index.prefetch_overflow(numbers.tag(0)), "there is nothing yet");
    (0..NUMBERS).for_each(|number| numbers.insert(number));
    let (mut in_bucket, mut in_node) = (0, 0);
    for number in 0..NUMBERS {
        let (tag, wanted) = (numbers.tag(number), address(number));
        if numbers.index.candidates(tag).any(|address| address == wanted) {
            in_bucket += 1;
        } else {
            assert!(numbers.index.prefetch_overflow(tag), "it lies behind the bucket");
            in_node += u32::from(numbers.index.overflow_candidates(tag).any(|a| a == wanted));
        }
    }
    assert!(in_node > NUMBERS / 50, "{in_node} lie in the first node");
    assert!(in_bucket + in_node > NUMBERS / 100 * 97, "{in_bucket} and {in_node} are known");
}

/// Neither does a lookup go through many lines, nor does the index take more than its bytes, but for the chunks that it grows by.
/// Buckets and nodes have the bytes between them: nodes take theirs when a bucket overflows, whatever there is, so that
/// buckets which waited for room for a whole chunk would never come.
#[test]
fn chains_stay_short_at_any_size() {
    let memory = memory();
    let mut numbers = Numbers::new(&memory, 26);
    let chunks = Chunks::<Bucket>::CHUNK_BYTES + Chunks::<Node>::CHUNK_BYTES;
    for number in 0..40_000 {
        numbers.insert(number);
        let entries = number as usize + 1;
        if !entries.is_multiple_of(500) {
            continue;
        }
        let lines: usize = (0..=number).map(|number| numbers.lines_before(number)).sum();
        assert!(lines * 3 < entries, "{lines} lines beyond the first for {entries} entries");
        let bytes = numbers.index.bytes();
        let most = entries * FOUR_ENTRIES_BYTES / 4 + 2 * chunks;
        assert!(bytes <= most, "{bytes} bytes for {entries} entries");
    }
}
