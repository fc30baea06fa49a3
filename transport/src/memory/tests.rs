//! What the memory promises to its holders.

use std::thread;

use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;

fn memory(limit_bytes: usize) -> Memory {
    Memory::new(MemoryConfig { limit_bytes: limit_bytes as u64 }).unwrap()
}

/// Bytes of the region that the system backs with pages, by its own word.
#[cfg(not(miri))]
#[expect(clippy::disallowed_methods, reason = "the system says it in a file")]
fn resident(memory: &Memory) -> u64 {
    let start = format!("{:x}-", memory.pool.region.address(0).as_ptr().addr());
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
    let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    rss.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Under miri there is no system that could be asked: what the region itself counts.
#[cfg(miri)]
fn resident(memory: &Memory) -> u64 {
    memory.pool.region.touched_pages() * PAGE_BYTES as u64
}

/// Whether all bytes are this one: compared at once, which miri does in a moment, and not one by one.
fn is_all(bytes: &[u8], byte: u8) -> bool {
    bytes == vec![byte; bytes.len()]
}

/// How often something is repeated: under miri, a hundred times slower, no more often than shows that it can be.
const fn rounds(count: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { count }
}

#[test]
fn the_limit_is_hard_and_counts_blocks_and_charges() {
    let memory = memory(MIB);
    let block = memory.allocate(MIB / 2, Purpose::Log).unwrap();
    let mut charge = memory.charge(MIB as u64 / 4, Purpose::Index).unwrap();
    let error = memory.allocate(MIB / 2, Purpose::Receive).unwrap_err();
    assert!(matches!(error, MemoryError::LimitReached { requested_bytes: 524_288, .. }), "{error}");
    assert!(charge.resize(MIB as u64 / 2 + 1).is_err());
    assert_eq!(charge.bytes(), MIB as u64 / 4, "a refused charge stays as it was");
    charge.resize(MIB as u64 / 2).unwrap();

    let account = memory.account();
    assert_eq!(account.allocated_bytes, MIB as u64);
    assert_eq!(account.free_bytes(), 0);
    assert_eq!(account.heap_bytes, MIB as u64 / 2);
    assert_eq!(account.allocated_for(Purpose::Log), MIB as u64 / 2);
    assert_eq!(account.allocated_for(Purpose::Index), MIB as u64 / 2);

    drop((block, charge));
    let account = memory.account();
    assert_eq!((account.allocated_bytes, account.heap_bytes, account.resident_bytes), (0, 0, 0));
    assert_eq!(memory.allocate(MIB, Purpose::Log).unwrap().len(), MIB);
}

#[test]
fn whole_pages_are_handed_out_and_impossible_lengths_are_refused() {
    let memory = memory(MIB);
    assert_eq!(memory.allocate(0, Purpose::Send).unwrap().len(), PAGE_BYTES);
    assert_eq!(memory.allocate(PAGE_BYTES + 1, Purpose::Send).unwrap().len(), 2 * PAGE_BYTES);
    assert!(memory.allocate(usize::MAX, Purpose::Send).is_err());
    assert!(memory.charge(u64::MAX, Purpose::Send).is_err());
    assert!(super::Memory::new(MemoryConfig { limit_bytes: u64::MAX }).is_err());
    assert!(self::memory(100).allocate(1, Purpose::Send).is_err());
}

#[test]
#[cfg_attr(
    address_sanitizer,
    ignore = "the region has room for gaps, so that it is never in pieces"
)]
fn room_in_pieces_is_named_as_such() {
    let memory = memory(4 * PAGE_BYTES);
    let mut blocks: Vec<Block> =
        (0..4).map(|_| memory.allocate(1, Purpose::Send).unwrap()).collect();
    let _kept = (blocks.remove(3), blocks.remove(1));
    drop(blocks);
    let error = memory.allocate(2 * PAGE_BYTES, Purpose::Send).unwrap_err();
    assert!(
        matches!(error, MemoryError::Fragmented { largest_free_bytes: PAGE_BYTES, .. }),
        "{error}"
    );
    assert_eq!(memory.account().allocated_bytes, 2 * PAGE_BYTES as u64, "nothing is lost on error");
}

#[test]
fn a_frozen_block_is_held_by_all_views_and_reclaimed_by_the_last() {
    let memory = memory(MIB);
    let mut block = memory.allocate(PAGE_BYTES, Purpose::Receive).unwrap();
    block[..5].copy_from_slice(b"hello");
    let address = block.as_ptr();
    let whole = block.freeze();
    let part = whole.slice(1..5).slice(1..3);
    assert_eq!(&*part, b"ll");
    assert_eq!(whole.holders(), 2);

    let whole = whole.try_reclaim().unwrap_err();
    drop(whole);
    let block = part.try_reclaim().unwrap();
    assert_eq!(block.len(), PAGE_BYTES, "the whole block comes back");
    assert_eq!(block.as_ptr(), address);
    assert_eq!(memory.account().allocated_bytes, PAGE_BYTES as u64);
    drop(block);
    assert_eq!(memory.account().allocated_bytes, 0);
}

#[test]
#[should_panic(expected = "is outside")]
fn a_view_cannot_be_widened() {
    let shared = memory(MIB).allocate(100, Purpose::Receive).unwrap().freeze();
    let _ = shared.slice(10..20).slice(5..11);
}

#[test]
fn an_appender_writes_behind_what_is_shared() {
    let memory = memory(MIB);
    let mut log = memory.allocate(PAGE_BYTES, Purpose::Log).unwrap().append_only();
    assert_eq!(log.append(&[b"head", b"", b"er body"]), Some(0));
    assert_eq!(log.committed(), 16);
    let view = log.shared(7..11);
    assert!(log.pinned());
    assert_eq!(log.append(&[b"next"]), Some(16));
    assert_eq!(&*view, b"body");
    assert_eq!(log.bytes(), b"header body\0\0\0\0\0next\0\0\0\0");
    log.store_word(16, u32::from_le_bytes(*b"last"));
    assert_eq!(&log.bytes()[16..20], b"last");

    drop(log);
    assert_eq!(&*view, b"body", "a view outlives the appender");
    assert_eq!(view.try_reclaim().unwrap().len(), PAGE_BYTES);
}

#[test]
fn an_appender_is_filled_to_its_capacity_and_refuses_more_unchanged() {
    let memory = memory(4 * MIB);
    for len in [PAGE_BYTES, 3 * PAGE_BYTES, 64 << 10, MIB] {
        let mut log = memory.allocate(len, Purpose::Log).unwrap().append_only();
        assert!(log.capacity() >= len / 65 * 64 - 8, "the map takes no more than 1/65");
        assert!(Appender::block_len(log.capacity()) <= len);
        let record = vec![7; log.capacity()];
        assert_eq!(log.append(&[&record, b"x"]), None);
        assert_eq!(log.committed(), 0);
        assert_eq!(log.append(&[&record]), Some(0));
        assert_eq!(log.append(&[b"x"]), None);
        assert_eq!(log.append(&[]), Some(log.capacity()));
        let whole = log.shared(0..log.capacity());
        assert_eq!(*whole, *record, "the map is not in the way of the data");
    }
    for capacity in [0, 1, 8, 511, 512, 513, 4000, 1 << 20, (1 << 20) + 9, 64 << 20] {
        let len = Appender::block_len(capacity).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let memory = self::memory(len);
        let log = memory.allocate(len, Purpose::Log).unwrap().append_only();
        assert!(log.capacity() >= capacity, "{capacity}: {}", log.capacity());
    }
}

#[test]
fn a_word_can_be_stored_once_no_view_covers_it() {
    let mut log = memory(MIB).allocate(MIB, Purpose::Log).unwrap().append_only();
    log.append(&[&[1; 1000]]);
    let view = log.shared(100..900);
    log.store_word(96 - 4, 2);
    log.store_word(904, 2);
    assert!(view.iter().all(|byte| *byte == 1));
    drop(view);
    log.store_word(500, 2);
    assert_eq!(log.bytes()[500..504], [2, 0, 0, 0]);

    let _view = log.shared(0..100);
    log.store_word(600, 3);
    assert_eq!(log.bytes()[600..604], [3, 0, 0, 0], "what was shared before is forgotten");
}

#[test]
#[should_panic(expected = "part of a shared view")]
fn a_word_under_a_view_is_not_stored() {
    let mut log = memory(MIB).allocate(MIB, Purpose::Log).unwrap().append_only();
    log.append(&[&[1; 1000]]);
    let _view = log.shared(100..900);
    log.store_word(896, 2);
}

#[test]
#[should_panic(expected = "not committed")]
fn what_is_not_committed_is_not_shared() {
    let mut log = memory(MIB).allocate(MIB, Purpose::Log).unwrap().append_only();
    log.append(&[b"12345678"]);
    let _ = log.shared(0..9);
}

#[test]
#[cfg_attr(miri, ignore = "there is no system to agree with")]
fn residency_is_counted_once_and_agrees_with_the_system() {
    let memory = memory(64 * MIB);
    assert_eq!(resident(&memory), 0, "nothing is prefaulted");
    for round in 0..3_usize {
        let mut blocks: Vec<Block> =
            (0..16).map(|_| memory.allocate(MIB, Purpose::Receive).unwrap()).collect();
        for block in &mut blocks {
            // A few pages more each time, so that old and new ones are counted together.
            let written = block.len() / 2 + round * 3 * PAGE_BYTES;
            block[..written].fill(9);
            block.mark_touched(written);
            block.mark_touched(100);
        }
    }
    let mut log = memory.allocate(24 * MIB, Purpose::Log).unwrap().append_only();
    for _ in 0..20 {
        log.append(&[&[9; MIB]]).unwrap();
    }
    let account = memory.account();
    assert_eq!(account.allocated_bytes, 24 * MIB as u64);
    let resident = resident(&memory);
    let tolerance = resident / 100;
    assert!(
        account.resident_bytes.abs_diff(resident) <= tolerance,
        "counted {} of {resident} resident bytes",
        account.resident_bytes
    );
}

#[test]
fn a_block_is_filled_while_what_is_filled_of_it_is_read() {
    let memory = memory(MIB);
    let mut filling = memory.allocate(2 * PAGE_BYTES, Purpose::Receive).unwrap().fill_up();
    let mut parts = Vec::new();
    for round in 0..16_u8 {
        let from = filling.filled();
        let rest = filling.unfilled();
        rest[..500].fill(round);
        // Behind what is filled, anything may be written, and again.
        rest[500..].fill(99);
        filling.fill(500);
        parts.push(filling.part(from..filling.filled()));
        assert!((0..=round).all(|round| is_all(&parts[usize::from(round)], round)));
    }
    assert_eq!(memory.account().resident_bytes, 2 * PAGE_BYTES as u64);
    let all = filling.part(0..8000);
    drop(filling);
    assert!(is_all(&all[7500..], 15), "a part outlives who filled it");
    drop(parts);
    assert_eq!(all.try_reclaim().unwrap().len(), 2 * PAGE_BYTES);
}

#[test]
fn a_vector_comes_back_as_it_went_or_is_freed() {
    for (len, capacity) in [(0, 0), (0, 100), (5, 5), (5, 4096)] {
        let mut vector = Vec::with_capacity(capacity);
        vector.resize(len, 3);
        let at = vector.as_ptr();
        let mut block = Block::from_vector(vector);
        block.fill(4);
        assert!(is_all(&block, 4) && block.len() == len);
        let vector = block.into_vector().unwrap();
        assert_eq!((vector.as_ptr(), vector.len()), (at, len));
        assert!(vector.capacity() >= capacity && is_all(&vector, 4));
        // It is freed with the last view of it.
        let shared = Block::from_vector(vector).freeze();
        let part = shared.slice(0..len / 2);
        drop(shared);
        assert!(is_all(&part, 4));
    }
    let block = memory(MIB).allocate(1, Purpose::Send).unwrap();
    assert_eq!(block.into_vector().unwrap_err().len(), PAGE_BYTES, "it is no vector");
}

/// As [`Memory::allocate`], and every byte written.
fn written(memory: &Memory, len: usize) -> Block {
    let mut block = memory.allocate(len, Purpose::Receive).unwrap();
    block.fill(9);
    block.mark_touched(len);
    block
}

#[test]
fn what_is_free_but_resident_makes_room_for_charges_and_reads_as_zero() {
    let memory = memory(8 * MIB);
    drop(written(&memory, 8 * MIB));
    assert_eq!(memory.account().resident_bytes, 8 * MIB as u64);
    let charge = memory.charge(5 * MIB as u64, Purpose::Session).unwrap();
    let account = memory.account();
    assert!(account.resident_bytes <= account.limit_bytes, "{account:?}");
    let left = account.resident_bytes - account.heap_bytes;
    assert_eq!(left, resident(&memory));
    assert!(left + 64 * PAGE_BYTES as u64 > 3 * MIB as u64, "{left} are left");

    let block = memory.allocate(3 * MIB, Purpose::Log).unwrap();
    assert!(is_all(&block[..left as usize], 9), "what is left resident is used first");
    drop((charge, block));
    let block = memory.allocate(8 * MIB, Purpose::Log).unwrap();
    assert!(is_all(&block[3 * MIB..], 0));
    drop(block);
    written(&memory, 8 * MIB);
}

#[test]
fn heap_of_sessions_that_have_ended_counts_until_it_is_used_again_or_trimmed() {
    let memory = memory(8 * MIB);
    let sessions = |count: usize| -> Vec<Charge> {
        let session = || memory.charge(PAGE_BYTES as u64, Purpose::Session).unwrap();
        (0..count).map(|_| session()).collect()
    };
    let mut old = sessions(1024);
    drop(old.split_off(256));
    let account = memory.account();
    assert_eq!((account.allocated_bytes, account.heap_bytes), (MIB as u64, 4 * MIB as u64));
    // The next ones take the place of those.
    let new = sessions(512);
    assert_eq!(memory.account().heap_bytes, 4 * MIB as u64);
    drop(new);

    // Pages press for room: what is not taken to lie among those that live goes.
    let block = written(&memory, 6 * MIB);
    let account = memory.account();
    assert_eq!((account.heap_bytes, account.resident_bytes), (2 * MIB as u64, 8 * MIB as u64));
    assert!(memory.allocate(PAGE_BYTES, Purpose::Log).is_err());
    drop(old);
    let more = written(&memory, 2 * MIB);
    assert_eq!(memory.account().heap_bytes, 0);
    drop((block, more));
    assert_eq!(memory.account().allocated_bytes, 0);
}

#[test]
fn sessions_find_the_room_that_is_reserved_whatever_others_take() {
    let memory = memory(8 * MIB);
    memory.reserve_for_sessions(2 * MIB as u64);
    assert_eq!(memory.free_bytes(), 6 * MIB as u64);
    let block = written(&memory, 6 * MIB);
    assert!(memory.allocate(1, Purpose::Send).is_err());
    assert!(memory.charge(1, Purpose::Index).is_err());
    let session = memory.charge(MIB as u64, Purpose::Session).unwrap();
    assert!(memory.allocate(1, Purpose::Send).is_err(), "the rest is still for sessions");
    let second = memory.charge(MIB as u64, Purpose::Session).unwrap();
    assert!(memory.charge(1, Purpose::Session).is_err(), "the limit is one for all");
    let account = memory.account();
    assert_eq!((account.free_bytes(), account.resident_bytes), (0, 8 * MIB as u64));

    // What is not reserved is for sessions too, and what they give back is reserved again.
    drop((block, second));
    let third = memory.charge(4 * MIB as u64, Purpose::Session).unwrap();
    assert_eq!(memory.free_bytes(), 3 * MIB as u64);
    drop((session, third));
    assert_eq!(memory.account().free_bytes(), 6 * MIB as u64);
    written(&memory, 6 * MIB);
}

#[test]
fn a_region_that_is_registered_keeps_its_pages_and_refuses_instead() {
    let memory = memory(8 * MIB);
    memory.pool.region.keep_all();
    drop(written(&memory, 6 * MIB));
    let charge = memory.charge(2 * MIB as u64, Purpose::Session).unwrap();
    let error = memory.charge(1, Purpose::Session).unwrap_err();
    assert!(matches!(error, MemoryError::LimitReached { .. }), "{error}");
    assert!(memory.allocate(7 * MIB, Purpose::Log).is_err());
    assert_eq!(memory.account().allocated_bytes, charge.bytes(), "nothing is lost on error");
    assert_eq!(resident(&memory), 6 * MIB as u64);
    written(&memory, 6 * MIB);
}

#[derive(Clone, Debug)]
enum Step {
    /// Allocates pages and writes a part of them, in percent.
    Allocate(usize, usize),
    Free(prop::sample::Index),
    Charge(u64),
    Uncharge(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_usize..400, 0..101_usize).prop_map(|(pages, part)| Step::Allocate(pages, part)),
        2 => any::<prop::sample::Index>().prop_map(Step::Free),
        2 => (1..2_000_000_u64).prop_map(Step::Charge),
        1 => any::<prop::sample::Index>().prop_map(Step::Uncharge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(64, 2) as u32))]
    #[test]
    fn what_is_resident_never_passes_the_limit(steps in prop::collection::vec(step(), 1..150)) {
        let memory = memory(4 * MIB);
        let (mut blocks, mut charges) = (Vec::new(), Vec::new());
        let mut allocated = 0_u64;
        for step in steps {
            match step {
                Step::Allocate(pages, part) => {
                    match memory.allocate(pages * PAGE_BYTES, Purpose::Log) {
                        Ok(mut block) => {
                            let part = block.len() * part / 100;
                            block[..part].fill(1);
                            block.mark_touched(part);
                            allocated += block.len() as u64;
                            blocks.push(block);
                        }
                        Err(MemoryError::LimitReached { .. }) => {
                            let room = (4 * MIB as u64).saturating_sub(allocated);
                            prop_assert!((pages * PAGE_BYTES) as u64 > room, "room was refused");
                        }
                        Err(_) => {}
                    }
                }
                Step::Free(index) if !blocks.is_empty() => {
                    allocated -= blocks.swap_remove(index.index(blocks.len())).len() as u64;
                }
                Step::Charge(bytes) => match memory.charge(bytes, Purpose::Index) {
                    Ok(charge) => {
                        allocated += bytes;
                        charges.push(charge);
                    }
                    Err(_) => prop_assert!(allocated + bytes > 4 * MIB as u64, "room was refused"),
                },
                Step::Uncharge(index) if !charges.is_empty() => {
                    allocated -= charges.swap_remove(index.index(charges.len())).bytes();
                }
                Step::Free(_) | Step::Uncharge(_) => {}
            }
            let account = memory.account();
            prop_assert_eq!(account.allocated_bytes, allocated);
            prop_assert!(account.resident_bytes <= account.limit_bytes, "{:?}", account);
        }
        // By the system's word too.
        let account = memory.account();
        prop_assert_eq!(resident(&memory), account.resident_bytes - account.heap_bytes);
        drop((blocks, charges));
        prop_assert_eq!(memory.account().allocated_bytes, 0);
        prop_assert_eq!(memory.allocate(4 * MIB, Purpose::Log).map(|block| block.len()), Ok(4 * MIB));
    }
}

#[test]
fn threads_that_allocate_and_charge_stay_within_the_limit() {
    let memory = memory(4 * MIB);
    thread::scope(|scope| {
        for thread in 0..3_usize {
            let memory = memory.clone();
            scope.spawn(move || {
                for round in 0..rounds(400, 8) {
                    let mark = (thread * 64 + round % 64) as u8;
                    let len = PAGE_BYTES * (1 + (round * 37 + thread * 11) % 300);
                    let bytes = ((round * 31 + thread) % 500 * PAGE_BYTES) as u64;
                    let charge = memory.charge(bytes, Purpose::Index);
                    if let Ok(mut block) = memory.allocate(len, Purpose::Send) {
                        block.fill(mark);
                        block.mark_touched(len);
                        assert!(is_all(&block, mark), "nobody else has it");
                    }
                    drop(charge);
                }
            });
        }
    });
    let charge = memory.charge(4 * MIB as u64, Purpose::Index).unwrap();
    assert_eq!(memory.account().resident_bytes, charge.bytes(), "every claim is accounted for");
    assert_eq!(resident(&memory), 0);
    drop(charge);
    assert_eq!(memory.pool.ledger.excess_bytes(), 0);
    written(&memory, 4 * MIB);
}

#[test]
fn threads_share_write_and_return_memory_without_losing_any() {
    let memory = memory(8 * MIB);
    thread::scope(|scope| {
        for thread in 0..4_usize {
            let memory = memory.clone();
            scope.spawn(move || {
                for round in 0..rounds(300, 4) {
                    let mark = (thread * 64 + round % 64) as u8;
                    let len = PAGE_BYTES * (1 + (round * 7 + thread) % 60);
                    let mut block = memory.allocate(len, Purpose::Send).unwrap();
                    block.fill(mark);
                    block.mark_touched(len);
                    let shared = block.freeze();
                    let readers: Vec<_> = (0..2)
                        .map(|reader| {
                            let view = shared.slice(reader * len / 2..(reader + 1) * len / 2);
                            scope.spawn(move || assert!(is_all(&view, mark)))
                        })
                        .collect();
                    for reader in readers {
                        reader.join().unwrap();
                    }
                    let mut block = shared.try_reclaim().unwrap();
                    block.fill(!mark);
                }
            });
        }
    });
    assert_eq!(memory.account().allocated_bytes, 0);
    assert_eq!(memory.pool.extents.lock().largest_free(), memory.pool.region.pages());
}

#[test]
fn readers_of_a_growing_log_see_what_was_committed() {
    let mut log = memory(MIB).allocate(MIB, Purpose::Log).unwrap().append_only();
    thread::scope(|scope| {
        for round in 0..rounds(200, 10) as u8 {
            let start = log.append(&[&[0; 8], &[round; 1000]]).unwrap();
            let view = log.shared(start + 8..start + 1008);
            scope.spawn(move || assert!(is_all(&view, round)));
            log.store_word(start, 1);
        }
    });
    assert!(!log.pinned());
}
