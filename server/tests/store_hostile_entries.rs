//! Entries and parts of snapshots that anybody may have sent: whatever they are, a partition stays whole, and takes them as they are or not at all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use weft_protocol::{CompletionId, Eviction, TableId, Version};
use weft_server::store::{
    Attempt, Gather, Partition, PartitionConfig, Refusal, TableConfig, split_entries,
};
use weft_transport::{Memory, MemoryConfig};

const TABLE: TableId = TableId(1);

fn partition() -> Partition {
    let memory = Memory::new(MemoryConfig { limit_bytes: 4 << 20 }).unwrap();
    Partition::new(PartitionConfig { id: 0, epoch: 1, seed: 7, memory }).unwrap()
}

/// A primary with something of everything, and the entries that it came by.
fn primary() -> (Partition, Vec<u8>) {
    let mut partition = partition();
    partition.set_recording(true);
    let config = TableConfig {
        id: TABLE,
        ordered: true,
        quota: None,
        eviction: Eviction::LeastRecentlyUsed,
    };
    partition.create_table(config.clone());
    let attempt = |sequence| {
        Some(Attempt { id: CompletionId { client: 9, sequence }, first_incomplete: sequence / 2 })
    };
    for number in 0..6_u8 {
        let (key, value) = ([number / 2; 3], vec![number; usize::from(number) * 1_500]);
        let at = attempt(u64::from(number) + 1);
        partition.once(at, |p| p.get_and_put(TABLE, &key, &value, Some(1 << 40), 0)).unwrap();
    }
    partition.increment(TableId::DEFAULT, b"number", 7, None, 0).unwrap();
    let refused = partition.once(attempt(8), |p| p.increment(TABLE, &[1; 3], 1, None, 0)).unwrap();
    assert_eq!(refused.answer.unwrap_err(), Refusal::NotANumber);
    partition.once(attempt(9), |p| p.delete(TABLE, b"nothing", 0)).unwrap();
    partition.delete(TABLE, &[0; 3], 0).unwrap();
    partition.alter_table(TableConfig { eviction: Eviction::None, ..config });
    partition.put(TableId::DEFAULT, b"", b"", None, 0).unwrap();
    partition.truncate(TableId::DEFAULT).unwrap();
    partition.begin_epoch(3).unwrap();
    partition.put(TABLE, b"last", &[1; 100], None, 0).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = partition.take_entry() {
        entries.extend(entry.bytes.to_vec());
    }
    (partition, entries)
}

/// Where records begin, as their lengths say.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while let Some(head) = bytes.get(at..at + 24) {
        starts.push(at);
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let expiry = if word(16) >> 31 == 1 { 8 } else { 0 };
        let len = 24 + expiry + (word(20) & 0xffff) as usize + (word(16) & 0xfff_ffff) as usize;
        at += len.next_multiple_of(8);
    }
    starts
}

/// What happens to bytes on their way.
#[derive(Clone, Debug)]
enum Harm {
    Cut(prop::sample::Index),
    Change {
        at: prop::sample::Index,
        to: u8,
    },
    /// A byte of a record is changed, and its checksum made right.
    Forge {
        record: prop::sample::Index,
        at: prop::sample::Index,
        to: u8,
    },
    Leave(prop::sample::Index),
    Repeat {
        record: prop::sample::Index,
        at: prop::sample::Index,
    },
}

fn harm() -> impl Strategy<Value = Harm> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        1 => index().prop_map(Harm::Cut),
        1 => (index(), any::<u8>()).prop_map(|(at, to)| Harm::Change { at, to }),
        8 => (index(), index(), prop_oneof![any::<u8>(), 0_u8..12])
            .prop_map(|(record, at, to)| Harm::Forge { record, at, to }),
        2 => index().prop_map(Harm::Leave),
        2 => (index(), index()).prop_map(|(record, at)| Harm::Repeat { record, at }),
    ]
}

fn do_harm(bytes: &mut Vec<u8>, harm: &Harm) {
    let (starts, len) = (starts(bytes), bytes.len());
    let range = |index: &prop::sample::Index| {
        let at = index.index(starts.len());
        starts[at]..starts.get(at + 1).copied().unwrap_or(len)
    };
    if starts.is_empty() {
        return;
    }
    match harm {
        Harm::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Harm::Change { at, to } => {
            let at = at.index(bytes.len());
            bytes[at] = *to;
        }
        Harm::Forge { record, at, to } => {
            let record = &mut bytes[range(record)];
            // Most of what matters is at the beginning.
            let at = 8 + at.index(record.len().min(80) - 8);
            record[at] = *to;
            let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
            let expiry = if word(16) >> 31 == 1 { 8 } else { 0 };
            let len = 24 + expiry + (word(20) & 0xffff) as usize + (word(16) & 0xfff_ffff) as usize;
            if let Some(checked) = record.get(8..len) {
                let checksum = crc32c::crc32c(checked);
                record[4..8].copy_from_slice(&checksum.to_le_bytes());
            }
        }
        Harm::Leave(record) => drop(bytes.drain(range(record))),
        Harm::Repeat { record, at } => {
            let (record, at) = (bytes[range(record)].to_vec(), range(at).start);
            bytes.splice(at..at, record);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn harmed_entries_are_applied_up_to_the_first_that_is_wrong(
        harms in prop::collection::vec(harm(), 1..4),
    ) {
        let (_, mut entries) = primary();
        harms.iter().for_each(|harm| do_harm(&mut entries, harm));
        let mut follower = partition();
        let applied = follower.apply_entries(&entries, 0);
        follower.verify().unwrap();
        let _ = follower.digest(0);
        let last = follower.last_entry();
        if let Ok(applied) = applied {
            prop_assert_eq!(applied, last);
        }
        // Each by itself, up to the first that is refused, is the same.
        let mut other = partition();
        for (version, bytes) in split_entries(&entries) {
            if other.apply_entries(bytes, 0).is_err() {
                break;
            }
            prop_assert_eq!(other.last_entry(), version);
        }
        prop_assert_eq!((other.last_entry(), other.digest(0)), (last, follower.digest(0)));
        // It goes on being a partition.
        follower.set_recording(true);
        let version = follower.put(TableId::DEFAULT, b"key", b"value", None, 0).unwrap();
        prop_assert_eq!(version.sequence(), last.sequence() + 1);
        follower.clear();
        prop_assert_eq!(follower.last_entry(), Version::NONE);
    }

    #[test]
    fn harmed_parts_of_snapshots_are_survived(
        harms in prop::collection::vec(harm(), 1..4),
        head_harms in prop::collection::vec(harm(), 0..2),
    ) {
        let (primary, _) = primary();
        let mut snapshot = primary.snapshot();
        let mut part = Gather::default();
        while !snapshot.is_done() {
            primary.snapshot_part(&mut snapshot, 100_000, &mut part);
        }
        let (mut head, mut part) = (snapshot.head().to_vec(), part.all().to_vec());
        head_harms.iter().for_each(|harm| do_harm(&mut head, harm));
        harms.iter().for_each(|harm| do_harm(&mut part, harm));
        let mut learner = partition();
        if learner.begin_snapshot(snapshot.start(), &head).is_ok() {
            let _ = learner.apply_snapshot(snapshot.start(), &part, 0);
            learner.end_snapshot();
        }
        learner.verify().unwrap();
        let _ = learner.digest(0);
        learner.clear();
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut follower = partition();
        let before = follower.digest(0);
        let applied = follower.apply_entries(&bytes, 0);
        prop_assert_eq!(applied.is_ok(), bytes.is_empty());
        prop_assert_eq!(follower.digest(0), before);
        prop_assert_eq!(follower.begin_snapshot(Version::new(1, 5), &bytes).is_ok(), bytes.is_empty());
    }
}

#[test]
fn unharmed_entries_and_snapshots_make_the_same_partition() {
    let (primary, entries) = primary();
    let mut follower = partition();
    assert_eq!(follower.apply_entries(&entries, 0), Ok(primary.last_entry()));
    assert_eq!(follower.digest(0), primary.digest(0));
    assert_eq!(follower.last_removal().sequence() + 1, primary.last_entry().sequence());
}
