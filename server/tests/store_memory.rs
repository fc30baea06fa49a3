//! What a million small objects cost, counted in bytes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weft_protocol::{Slot, TableId};
use weft_server::store::{Partition, PartitionConfig};
use weft_transport::{Memory, MemoryConfig, Purpose};

const KEYS: u64 = 1_000_000;

/// A million keys of 16 bytes with values of 32, spread over `partitions` by slot. Index and log of
/// each, as the memory's account counts them.
fn filled(partitions: u16) -> (Memory, Vec<Partition>) {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 30 }).unwrap();
    let mut owned: Vec<Partition> = (0..partitions)
        .map(|id| PartitionConfig { id, epoch: 1, seed: u64::from(id), memory: memory.clone() })
        .map(|config| Partition::new(config).unwrap())
        .collect();
    for number in 0..KEYS {
        let key = format!("user{number:012}");
        let slot = usize::from(Slot::of(key.as_bytes()).number());
        let partition = &mut owned[slot * usize::from(partitions) / usize::from(Slot::COUNT)];
        partition.put(TableId::DEFAULT, key.as_bytes(), &[7; 32], None, 0).unwrap();
    }
    let objects: u64 = owned.iter().map(|partition| partition.stats().objects).sum();
    assert_eq!(objects, KEYS);
    (memory, owned)
}

fn check(partitions: u16, index_max: u64, allocated_max: u64, resident_max: u64) {
    let (memory, owned) = filled(partitions);
    let account = memory.account();
    let index: u64 = owned.iter().map(|partition| partition.stats().index_bytes).sum();
    assert_eq!(index, account.allocated_for(Purpose::Index), "the charge is what is held");
    assert!(index <= index_max * KEYS, "the index takes {index} bytes");
    let allocated = account.allocated_bytes;
    assert!(allocated <= allocated_max * KEYS, "{allocated} bytes are counted against the limit");
    let resident = account.resident_bytes;
    assert!(resident <= resident_max * KEYS, "{resident} bytes are resident");
}

#[test]
fn a_key_costs_at_most_90_bytes_in_one_partition() {
    check(1, 12, 90, 90);
}

#[test]
fn a_key_costs_at_most_90_bytes_resident_in_64_partitions() {
    check(64, 12, 104, 90);
}
