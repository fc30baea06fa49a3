//! What emptying segments does for a partition, one promise a test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use weft_protocol::TableId;
use weft_server::store::{Cleaned, Partition, PartitionConfig, StoreError, Victim};
use weft_transport::{Memory, MemoryConfig, Purpose};

const TABLE: TableId = TableId::DEFAULT;
const MIB: u64 = 1 << 20;

fn memory(limit_bytes: u64) -> Memory {
    Memory::new(MemoryConfig { limit_bytes }).unwrap()
}

fn partition(memory: &Memory) -> Partition {
    let config = PartitionConfig { id: 3, epoch: 1, seed: 7, memory: memory.clone() };
    Partition::new(config).unwrap()
}

fn key(number: usize) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

fn value(number: usize, round: usize) -> Vec<u8> {
    vec![(number * 31 + round) as u8; 900 + number % 200]
}

fn fill(partition: &mut Partition, numbers: impl Iterator<Item = usize>, round: usize) {
    for number in numbers {
        partition.put(TABLE, &key(number), &value(number, round), None, 0).unwrap();
    }
}

fn best(partition: &Partition, use_max: f64) -> Option<Victim> {
    partition.victims(use_max).max_by(|one, other| one.worth().total_cmp(&other.worth()))
}

/// The closed segment that an object lies in, where nothing is pinned.
fn holder_of(partition: &mut Partition, number: usize) -> Victim {
    let view = partition.get(TABLE, &key(number), 0).unwrap().pin();
    let holder = partition.victims(1.0).find(Victim::is_pinned).unwrap();
    drop(view);
    holder
}

/// Empties all segments that are worth it, in small steps.
fn clean_all(partition: &mut Partition, use_max: f64, now_ms: u64) {
    while let Some(mut victim) = best(partition, use_max) {
        loop {
            let cleaned = partition.clean(&mut victim, 5_000, now_ms);
            assert_eq!(cleaned.refused, None);
            if cleaned.is_done {
                break;
            }
            partition.verify().unwrap();
        }
    }
}

#[test]
fn what_is_live_moves_and_the_rest_is_free() {
    let memory = memory(64 * MIB);
    let mut partition = partition(&memory);
    fill(&mut partition, 0..20_000, 0);
    for number in (0..20_000).filter(|number| number % 10 != 0) {
        partition.delete(TABLE, &key(number), 0).unwrap();
    }
    let before = partition.stats();
    assert!(before.log_bytes > 9 * before.live_bytes, "{before:?}");
    let versions: Vec<_> =
        (0..20_000).map(|number| partition.exists(TABLE, &key(number), 0)).collect();

    clean_all(&mut partition, 0.9, 0);
    let after = partition.stats();
    assert_eq!((after.objects, after.live_bytes), (before.objects, before.live_bytes));
    // Two open ends, and what the segments' maps take.
    assert!(after.log_bytes < after.live_bytes * 21 / 20 + 2 * MIB, "{after:?}");
    assert_eq!(memory.account().allocated_for(Purpose::Log), after.log_bytes);
    for (number, version) in versions.into_iter().enumerate() {
        let found = partition.get(TABLE, &key(number), 0);
        assert_eq!(found.map(|object| object.version), version);
        if let Some(object) = partition.get(TABLE, &key(number), 0) {
            assert_eq!(object.value, value(number, 0));
            object.verify().unwrap();
        }
    }
    partition.verify().unwrap();
}

#[test]
fn what_has_expired_is_removed_instead_of_moved() {
    let mut partition = partition(&memory(64 * MIB));
    for number in 0..5_000 {
        let expiry_ms = (number % 2 == 0).then_some(100);
        partition.put(TABLE, &key(number), &value(number, 0), expiry_ms, 0).unwrap();
    }
    // Dead bytes, without which no segment is worth a look.
    fill(&mut partition, (0..5_000).filter(|number| number % 20 == 1), 1);
    clean_all(&mut partition, 0.96, 100);
    let stats = partition.stats();
    assert!(stats.objects < 2_700, "{stats:?}");
    assert_eq!(stats.objects + stats.expired_removed, 5_000);
    partition.verify().unwrap();
}

/// A segment that has not been written for long is emptied although one that was written just now is emptier.
#[test]
fn what_is_old_goes_before_what_dies_by_itself() {
    let mut partition = partition(&memory(64 * MIB));
    fill(&mut partition, 0..8_000, 0);
    for number in (0..500).filter(|number| number % 2 == 0) {
        partition.delete(TABLE, &key(number), 0).unwrap();
    }
    // Of what is written last, a third lives; half of what was written first.
    fill(&mut partition, (7_000..8_000).filter(|number| number % 3 != 0), 1);
    let emptiest = partition.victims(0.4).count();
    assert!(emptiest > 0);
    let mut victim = best(&partition, 0.9).unwrap();
    let places = |partition: &mut Partition| -> Vec<_> {
        let mut place = |number| partition.get(TABLE, &key(number), 0).map(|it| it.value.as_ptr());
        (0..8_000).map(&mut place).collect()
    };
    let before = places(&mut partition);
    while !partition.clean(&mut victim, 1 << 20, 0).is_done {}
    let after = places(&mut partition);
    let moved: Vec<_> = (0..8_000).filter(|&number| before[number] != after[number]).collect();
    assert!(moved.len() > 20 && moved.iter().all(|number| *number < 500), "{moved:?}");
    partition.verify().unwrap();
}

/// It would take memory and give none.
#[test]
fn a_pinned_segment_is_named_and_left_alone() {
    let memory = memory(64 * MIB);
    let mut partition = partition(&memory);
    fill(&mut partition, 0..3_000, 0);
    fill(&mut partition, (0..3_000).filter(|number| number % 3 != 0), 1);
    // Chosen before it was pinned, and after.
    let mut early = holder_of(&mut partition, 0);
    let view = partition.get(TABLE, &key(0), 0).unwrap().pin();
    let mut late = partition.victims(0.9).find(Victim::is_pinned).unwrap();
    assert!(partition.victims(0.9).any(|victim| !victim.is_pinned()));
    for victim in [&mut early, &mut late] {
        let cleaned = partition.clean(victim, 1_000, 0);
        assert_eq!(cleaned, Cleaned { is_done: true, ..Cleaned::default() });
    }
    let object = partition.get(TABLE, &key(0), 0).unwrap();
    assert_eq!(object.value.as_ptr(), view.as_ptr(), "it has not moved");
    drop(view);
    assert!(!partition.victims(0.9).any(|victim| victim.is_pinned()));
    assert!(partition.clean(&mut late, 1_000, 0).moved_bytes > 0);
}

#[test]
fn a_view_stays_as_it_is_while_its_segment_is_emptied() {
    let memory = memory(64 * MIB);
    let mut partition = partition(&memory);
    fill(&mut partition, 0..3_000, 0);
    fill(&mut partition, (0..3_000).filter(|number| number % 3 != 0), 1);
    let mut victim = holder_of(&mut partition, 0);
    // Begun before it is pinned.
    assert!(partition.clean(&mut victim, 1_000, 0).moved_bytes > 0);
    let view = partition.get(TABLE, &key(30), 0).unwrap().pin();
    assert!(partition.victims(1.0).any(|victim| victim.is_pinned()));
    loop {
        let cleaned = partition.clean(&mut victim, 1_000, 0);
        assert_eq!(cleaned.freed_bytes, 0, "the view keeps it");
        if cleaned.is_done {
            break;
        }
    }
    let kept = memory.account().allocated_for(Purpose::Log) - partition.stats().log_bytes;
    assert!(kept > 0);
    let object = partition.get(TABLE, &key(30), 0).unwrap();
    assert_ne!(object.value.as_ptr(), view.as_ptr(), "it has moved");
    assert_eq!((&*view, object.value), (&*value(30, 0), &*value(30, 0)));
    drop(view);
    assert_eq!(memory.account().allocated_for(Purpose::Log), partition.stats().log_bytes);
}

/// Of what is kept back nothing is left with those who write between the steps.
#[test]
fn what_is_kept_back_is_whole_again_whoever_writes_meanwhile() {
    const PARTITIONS: usize = 4;
    let limit_bytes = 16 * MIB;
    let memory = memory(limit_bytes);
    memory.keep_back(limit_bytes / 32);
    let mut partitions: Vec<_> = (0..PARTITIONS).map(|_| partition(&memory)).collect();
    let live_max = limit_bytes as usize * 8 / 10 / 1_100 / PARTITIONS;
    let mut random = 1_usize;
    let mut next = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let (mut victims, mut written) = (0, 0);
    while written < 100_000 {
        let (position, number) = (next() % PARTITIONS, next() % live_max);
        written += 1;
        let put = partitions[position].put(TABLE, &key(number), &value(number, 0), None, 0);
        if put.is_ok() {
            continue;
        }
        let best = |partition| best(partition, 0.99).map(|victim| (victim.worth(), victim));
        let (position, (_, mut victim)) = (0..PARTITIONS)
            .filter_map(|position| Some((position, best(&partitions[position])?)))
            .max_by(|(_, (one, _)), (_, (other, _))| one.total_cmp(other))
            .expect("there is garbage that can be emptied");
        let partition = &mut partitions[position];
        loop {
            let cleaned = partition.clean(&mut victim, 8_000, 0);
            assert_eq!(cleaned.refused, None, "after {victims}");
            if cleaned.is_done {
                break;
            }
            for _ in 0..8 {
                let number = next() % live_max;
                written += 1;
                match partition.put(TABLE, &key(number), &value(number, 0), None, 0) {
                    Ok(_) | Err(StoreError::MemoryLimit(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        victims += 1;
        // But for one segment a partition, that what comes next is moved to.
        let left_bytes = memory.free_or_kept_back_bytes();
        assert!(left_bytes >= limit_bytes / 32 - (PARTITIONS as u64) * (64 << 10), "{left_bytes}");
    }
    assert!(victims > 100, "{victims}");
    partitions.iter().for_each(|partition| partition.verify().unwrap());
}

/// What is kept back is enough to empty segments when nothing else is free, and it is whole again afterwards.
#[test]
fn a_full_log_is_cleaned_out_of_what_is_kept_back() {
    for limit_bytes in [4 * MIB, 16 * MIB, 64 * MIB] {
        let memory = memory(limit_bytes);
        memory.keep_back(limit_bytes / 32);
        let mut partition = partition(&memory);
        let mut model = BTreeMap::new();
        let mut written_bytes = 0;
        let mut refused = 0_u32;
        let live_max = (limit_bytes as usize) * 8 / 10 / 1_100;
        let mut random = 1_usize;
        // As many bytes as ten times the limit.
        for round in 0.. {
            if written_bytes > 10 * limit_bytes {
                break;
            }
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = (random >> 33) % live_max;
            let value = value(number, round);
            loop {
                match partition.put(TABLE, &key(number), &value, None, 0) {
                    Ok(_) => break,
                    Err(StoreError::MemoryLimit(_)) => {
                        refused += 1;
                        let mut victim = best(&partition, 0.99).expect("there is garbage");
                        while {
                            let cleaned = partition.clean(&mut victim, 32_000, 0);
                            assert_eq!(cleaned.refused, None, "of {limit_bytes}");
                            !cleaned.is_done
                        } {}
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            written_bytes += value.len() as u64;
            model.insert(number, round);
            let account = memory.account();
            assert!(account.allocated_bytes <= limit_bytes);
        }
        assert!(refused > 10, "{refused}");
        for (number, round) in model {
            let found = partition.get(TABLE, &key(number), 0).unwrap();
            assert_eq!(found.value, value(number, round), "of {limit_bytes}");
        }
        partition.verify().unwrap();
    }
}
