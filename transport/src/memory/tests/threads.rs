//! Many threads at once.

use std::thread;

use super::super::*;
use super::{MIB, is_all, memory, resident, rounds, written};

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
