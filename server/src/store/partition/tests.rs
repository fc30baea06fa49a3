//! What a partition refuses when its versions run out, and what it notices of itself.

use weft_transport::MemoryConfig;

use super::*;

fn partition() -> Partition {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
    Partition::new(PartitionConfig { id: 0, epoch: 9, seed: 1, memory }).unwrap()
}

#[test]
fn an_epoch_that_ran_out_of_versions_refuses_mutations() {
    let mut partition = partition();
    partition.put(TableId::DEFAULT, b"key", b"value", None, 0).unwrap();
    let last = Version::new(9, Version::SEQUENCE_MAX);
    partition.version = last;
    let refused = StoreError::VersionsExhausted { last };
    assert_eq!(partition.put(TableId::DEFAULT, b"key", b"new", None, 0), Err(refused));
    assert_eq!(partition.delete(TableId::DEFAULT, b"key", 0), Err(refused));
    assert_eq!(partition.get(TableId::DEFAULT, b"key", 0).unwrap().value, b"value");
}

#[test]
fn verify_notices_when_index_and_log_disagree() {
    let slot_of = |partition: &mut Partition| {
        let tag = partition.index.tag(TableId::DEFAULT, b"key");
        partition.find_current(tag, TableId::DEFAULT, b"key", 0).unwrap()
    };
    let mut unindexed = partition();
    let version = unindexed.put(TableId::DEFAULT, b"key", b"value", None, 0).unwrap();
    unindexed.put(TableId::DEFAULT, b"other", b"value", None, 0).unwrap();
    assert_eq!(unindexed.verify(), Ok(()));
    let (slot, _) = slot_of(&mut unindexed);
    unindexed.index.remove(slot);
    let found = Corruption::Unindexed { segment: 1, offset: 0, version };
    assert_eq!(unindexed.verify(), Err(found));

    let mut dangling = partition();
    dangling.put(TableId::DEFAULT, b"key", b"value", None, 0).unwrap();
    dangling.put(TableId::DEFAULT, b"other", b"value", None, 0).unwrap();
    let (_, address) = slot_of(&mut dangling);
    dangling.log.kill(address);
    assert_eq!(dangling.verify(), Err(Corruption::Dangling { entries: 2, objects: 1 }));
}
