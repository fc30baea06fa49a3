//! What a partition promises, one promise a test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weft_protocol::limits::KEY_MAX;
use weft_protocol::{Eviction, TableId, Version};
use weft_server::store::{
    Partition, PartitionConfig, StoreError, TableConfig, Tags, VALUE_BYTES_MAX,
};
use weft_transport::{Memory, MemoryConfig, Purpose};

const TABLE: TableId = TableId::DEFAULT;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn memory(limit_bytes: usize) -> Memory {
    Memory::new(MemoryConfig { limit_bytes: limit_bytes as u64 }).unwrap()
}

const SEED: u64 = 7;

fn partition(memory: &Memory) -> Partition {
    let config = PartitionConfig { id: 3, epoch: 1, seed: SEED, memory: memory.clone() };
    Partition::new(config).unwrap()
}

fn put(partition: &mut Partition, key: &[u8], value: &[u8]) -> Version {
    partition.put(TABLE, key, value, None, 0).unwrap()
}

fn value(partition: &mut Partition, key: &[u8]) -> Option<Vec<u8>> {
    partition.get(TABLE, key, 0).map(|object| object.value.to_vec())
}

/// Bytes of the limit that segments take, pinned ones included.
fn log_bytes(memory: &Memory) -> usize {
    memory.account().allocated_for(Purpose::Log) as usize
}

#[test]
fn versions_grow_through_overwrite_delete_and_recreate() {
    let mut partition = partition(&memory(MIB));
    assert_eq!(partition.version(), Version::new(1, 0));
    let first = put(&mut partition, b"key", b"1");
    let second = put(&mut partition, b"key", b"2");
    let deleted = partition.delete(TABLE, b"key", 0).unwrap();
    assert!(deleted.existed);
    assert_eq!(partition.get(TABLE, b"key", 0).map(|object| object.version), None);
    let absent = partition.delete(TABLE, b"key", 0).unwrap();
    assert!(!absent.existed);
    assert_eq!(absent.version, deleted.version, "nothing was written");
    let third = put(&mut partition, b"key", b"3");
    assert!(Version::new(1, 0) < first && first < second && second < deleted.version);
    assert!(deleted.version < third);
    assert_eq!(partition.get(TABLE, b"key", 0).unwrap().version, third);
    assert_eq!(partition.exists(TABLE, b"key", 0), Some(third));
    assert_eq!(partition.version(), third);
}

#[test]
fn the_epoch_leads_all_versions_and_has_20_bits() {
    let memory = memory(MIB);
    let new =
        |epoch| Partition::new(PartitionConfig { id: 0, epoch, seed: 1, memory: memory.clone() });
    let mut last = new(Version::EPOCH_MAX).unwrap();
    assert_eq!(put(&mut last, b"key", b"value"), Version::new(Version::EPOCH_MAX, 1));
    let epoch = Version::EPOCH_MAX + 1;
    assert_eq!(new(epoch).unwrap_err(), StoreError::EpochsExhausted { epoch });
}

#[test]
fn tables_do_not_see_each_others_keys() {
    let mut partition = partition(&memory(MIB));
    let refused = StoreError::TableUnknown { table: TableId(9) };
    assert_eq!(partition.put(TableId(9), b"key", b"value", None, 0), Err(refused));
    assert!(partition.get(TableId(9), b"key", 0).is_none());
    for table in 0..50 {
        partition.create_table(TableConfig {
            id: TableId(table),
            ordered: false,
            quota: None,
            eviction: Eviction::None,
        });
        partition.put(TableId(table), b"key", &table.to_le_bytes(), None, 0).unwrap();
    }
    partition.delete(TableId(7), b"key", 0).unwrap();
    for table in 0..50_u16 {
        let object = partition.get(TableId(table), b"key", 0);
        let expected = (table != 7).then(|| table.to_le_bytes().to_vec());
        assert_eq!(object.map(|object| object.value.to_vec()), expected);
    }
    partition.verify().unwrap();
}

#[test]
fn an_object_is_absent_from_its_expiry_on_and_removed_when_it_is_met() {
    let mut partition = partition(&memory(MIB));
    for key in [b"get", b"exi", b"del", b"put"] {
        partition.put(TABLE, key, b"value", Some(1_000), 0).unwrap();
    }
    let object = partition.get(TABLE, b"get", 999).unwrap();
    assert_eq!((object.value, object.expiry_ms), (&b"value"[..], Some(1_000)));
    assert_eq!(partition.stats().objects, 4);

    assert!(partition.get(TABLE, b"get", 1_000).is_none());
    assert_eq!(partition.stats().objects, 3);
    assert_eq!(partition.exists(TABLE, b"exi", 1_000), None);
    assert!(!partition.delete(TABLE, b"del", 1_000).unwrap().existed);
    partition.put(TABLE, b"put", b"again", None, 1_000).unwrap();
    let stats = partition.stats();
    assert_eq!((stats.objects, stats.expired_removed), (1, 4));
    assert_eq!(partition.get(TABLE, b"put", u64::MAX).unwrap().expiry_ms, None);

    partition.put(TABLE, b"old", b"value", Some(5), 1_000).unwrap();
    assert!(partition.get(TABLE, b"old", 1_000).is_none(), "an expiry in the past is one");
    partition.verify().unwrap();
}

#[test]
fn keys_and_values_of_every_length_are_kept() {
    let memory = memory(256 * MIB);
    let mut partition = partition(&memory);
    let lens = [0, 1, 7, 8, 4_000, 65_000, 256 * KIB - 24, 256 * KIB, MIB, 5 * MIB + 3];
    for (number, &len) in (0_u8..).zip(&lens) {
        put(&mut partition, &[number], &vec![number; len]);
        put(&mut partition, &vec![number; KEY_MAX - usize::from(number)], &vec![!number; len]);
    }
    put(&mut partition, b"", &vec![42; VALUE_BYTES_MAX]);
    for (number, &len) in (0_u8..).zip(&lens) {
        assert_eq!(value(&mut partition, &[number]), Some(vec![number; len]));
        let long = vec![number; KEY_MAX - usize::from(number)];
        assert_eq!(value(&mut partition, &long), Some(vec![!number; len]));
    }
    assert_eq!(value(&mut partition, b"").map(|value| value.len()), Some(VALUE_BYTES_MAX));
    partition.verify().unwrap();
    partition.delete(TABLE, b"", 0).unwrap();
    assert!(log_bytes(&memory) < 48 * MIB, "a large value's segment goes with it");
}

#[test]
fn what_is_too_long_is_refused_and_changes_nothing() {
    let mut partition = partition(&memory(128 * MIB));
    let version = put(&mut partition, b"key", b"value");
    let long = vec![0; VALUE_BYTES_MAX + 1];
    assert_eq!(
        partition.put(TABLE, b"key", &long, None, 0),
        Err(StoreError::ValueTooLarge { len: long.len(), limit: VALUE_BYTES_MAX })
    );
    let long = vec![0; KEY_MAX + 1];
    assert_eq!(
        partition.put(TABLE, &long, b"value", None, 0),
        Err(StoreError::KeyTooLong { len: long.len(), limit: KEY_MAX })
    );
    assert_eq!(value(&mut partition, &long), None);
    assert!(!partition.delete(TABLE, &long, 0).unwrap().existed);
    assert_eq!(value(&mut partition, b"key"), Some(b"value".to_vec()));
    assert_eq!(partition.version(), version);
}

#[test]
fn a_key_longer_than_any_other_is_no_other() {
    // Its length and table look like those of a short key in another table, if only 16 bits count.
    let mut partition = partition(&memory(MIB));
    partition.create_table(TableConfig {
        id: TableId(1),
        ordered: false,
        quota: None,
        eviction: Eviction::None,
    });
    partition.put(TableId(1), b"k", b"value", None, 0).unwrap();
    let long = vec![b'k'; (1 << 16) + 1];
    assert!(partition.get(TableId(0), &long, 0).is_none());
}

#[test]
fn an_empty_partition_takes_no_memory_and_one_that_was_emptied_only_its_index() {
    let memory = memory(64 * MIB);
    let mut partition = partition(&memory);
    assert_eq!(memory.account().allocated_bytes, 0);
    for key in 0..100_000_u32 {
        put(&mut partition, &key.to_le_bytes(), &[0; 100]);
    }
    for key in 0..100_000_u32 {
        partition.delete(TABLE, &key.to_le_bytes(), 0).unwrap();
    }
    assert_eq!(log_bytes(&memory), 0);
    let stats = partition.stats();
    assert_eq!((stats.objects, stats.live_bytes, stats.log_bytes, stats.segments), (0, 0, 0, 0));
    assert_eq!(memory.account().allocated_bytes, stats.index_bytes);
}

#[test]
fn overwriting_reuses_the_memory_of_dead_segments() {
    let memory = memory(2 * MIB);
    let mut partition = partition(&memory);
    for round in 0..100_000_u32 {
        put(&mut partition, b"hot", &[round as u8; 100]);
        put(&mut partition, b"hotter", &[round as u8; 1_000]);
    }
    assert!(log_bytes(&memory) <= 128 * KIB, "{} bytes", log_bytes(&memory));
    let resident = memory.account().resident_bytes as usize;
    assert!(resident <= 256 * KIB, "{resident} bytes resident");
    partition.verify().unwrap();
}

#[test]
fn a_pinned_value_stays_as_it_is_whatever_happens_to_the_object() {
    let memory = memory(8 * MIB);
    let mut partition = partition(&memory);
    let old = vec![1; 10_000];
    put(&mut partition, b"key", &old);
    let pin = partition.get(TABLE, b"key", 0).unwrap().pin();
    let stats = partition.stats();
    assert_eq!(stats.pinned_bytes, stats.log_bytes);
    for round in 0..2_000_u32 {
        put(&mut partition, b"key", &vec![round as u8; 10_000]);
    }
    assert_eq!(*pin, *old);
    partition.delete(TABLE, b"key", 0).unwrap();
    assert_eq!(*pin, *old);
    drop(partition);
    assert_eq!(*pin, *old);
    drop(pin);
    assert_eq!(memory.account().allocated_bytes, 0);
}

#[test]
fn a_dead_segment_goes_back_when_its_last_pin_does() {
    let memory = memory(8 * MIB);
    let mut partition = partition(&memory);
    put(&mut partition, b"key", &[1; 300 * KIB]);
    let object = partition.get(TABLE, b"key", 0).unwrap();
    let (pin, other) = (object.pin(), object.pin());
    let full = log_bytes(&memory);
    partition.delete(TABLE, b"key", 0).unwrap();
    assert_eq!(partition.stats().log_bytes, 0, "the partition is done with it");
    drop(pin);
    assert_eq!(log_bytes(&memory), full);
    drop(other);
    assert_eq!(log_bytes(&memory), 0);
}

#[test]
fn at_the_limit_puts_fail_and_nothing_is_lost() {
    let memory = memory(3 * MIB);
    let mut partition = partition(&memory);
    let mut kept = 0_u32;
    let error = loop {
        match partition.put(TABLE, &kept.to_le_bytes(), &[kept as u8; 1_000], None, 0) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::MemoryLimit(_)), "{error}");
    assert!(kept > 2_700, "only {kept} objects of 1,032 bytes fit 3 MiB");
    assert!(memory.account().allocated_bytes <= 3 * MIB as u64);

    let version = partition.version();
    let mut refused = 0;
    for key in 0..kept {
        let overwritten = partition.put(TABLE, &key.to_le_bytes(), &[9; 9_000], None, 0);
        refused += u32::from(overwritten.is_err());
        assert!(matches!(overwritten, Err(StoreError::MemoryLimit(_))));
    }
    assert_eq!(refused, kept);
    assert_eq!(partition.version(), version, "a refused put takes no version");
    for key in 0..kept {
        let expected = Some(vec![key as u8; 1_000]);
        assert_eq!(value(&mut partition, &key.to_le_bytes()), expected, "{key}");
    }
    partition.verify().unwrap();

    for key in 0..kept / 2 {
        assert!(partition.delete(TABLE, &key.to_le_bytes(), 0).unwrap().existed);
    }
    for key in 0..kept / 3 {
        put(&mut partition, &key.to_le_bytes(), &[7; 1_000]);
    }
    partition.verify().unwrap();
}

#[test]
fn what_one_partition_gives_up_another_can_have() {
    let memory = memory(2 * MIB);
    let (mut one, mut other) = (partition(&memory), partition(&memory));
    let mut kept = 0_u32;
    while one.put(TABLE, &kept.to_le_bytes(), &[1; 10_000], None, 0).is_ok() {
        kept += 1;
    }
    assert!(other.put(TABLE, b"key", &[2; 200_000], None, 0).is_err());
    for key in 0..kept {
        one.delete(TABLE, &key.to_le_bytes(), 0).unwrap();
    }
    put(&mut other, b"key", &[2; 200_000]);
}

#[test]
fn prefetching_is_only_a_hint() {
    let mut partition = partition(&memory(8 * MIB));
    let tags = Tags::new(SEED);
    let tag = tags.of(TABLE, b"in an empty partition");
    partition.prefetch_bucket(tag);
    assert!(!partition.prefetch_record(tag));
    partition.prefetch_overflowed(tag);
    assert!(partition.get_tagged(tag, TABLE, b"in an empty partition", 0).is_none());
    for key in 0..10_000_u32 {
        put(&mut partition, &key.to_le_bytes(), b"");
    }
    for key in 0..20_000_u32 {
        let tag = tags.of(TABLE, &key.to_le_bytes());
        partition.prefetch_bucket(tag);
        if partition.prefetch_record(tag) {
            partition.prefetch_overflowed(tag);
        }
        let found = partition.get_tagged(tag, TABLE, &key.to_le_bytes(), 0);
        assert_eq!(found.is_some(), key < 10_000, "{key}");
    }
    assert_eq!(partition.stats().objects, 10_000);
}
