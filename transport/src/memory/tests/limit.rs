//! What may be allocated and charged, and what is refused.

use super::super::*;
use super::{MIB, is_all, memory, written};

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

/// What is handed out lies scattered, and as much as is free is found in one piece.
#[test]
fn room_is_found_in_one_piece() {
    let memory = memory(64 * PAGE_BYTES);
    let mut blocks: Vec<_> = (0..64).map(|_| Some(written(&memory, 1))).collect();
    blocks.iter_mut().step_by(2).for_each(|block| *block = None);
    let long = written(&memory, 32 * PAGE_BYTES);
    assert!(memory.allocate(1, Purpose::Send).is_err());
    let account = memory.account();
    assert_eq!(account.allocated_bytes, 64 * PAGE_BYTES as u64);
    assert_eq!(
        account.resident_bytes, account.allocated_bytes,
        "pages that nobody holds went back"
    );
    assert!(is_all(&long, 9));
    assert!(blocks.iter().flatten().all(|block| is_all(&block[..1], 9)));
}

#[test]
fn what_is_kept_back_is_for_who_asks_for_it_and_is_filled_up_first() {
    let memory = memory(8 * MIB);
    memory.keep_back(2 * MIB as u64);
    assert_eq!(
        (memory.free_bytes(), memory.account().free_bytes()),
        (6 * MIB as u64, 6 * MIB as u64)
    );
    let block = written(&memory, 6 * MIB);
    assert!(memory.allocate(1, Purpose::Log).is_err());
    assert!(memory.charge(1, Purpose::Index).is_err());
    let moved = memory.allocate_kept_back(2 * MIB, Purpose::Log).unwrap();
    assert!(memory.allocate_kept_back(1, Purpose::Log).is_err(), "the limit is one for all");
    assert_eq!(memory.free_bytes(), 0);

    drop(block);
    assert_eq!(memory.free_bytes(), 4 * MIB as u64, "two of the six are kept back again");
    drop(moved);
    assert_eq!(memory.free_bytes(), 6 * MIB as u64);
    written(&memory, 6 * MIB);
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
