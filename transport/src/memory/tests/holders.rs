//! What each way to hold memory lets its holders do.

use super::super::*;
use super::{MIB, is_all, memory, written};

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
fn an_appender_goes_on_behind_records_that_were_there_before_it() {
    let memory = memory(MIB);
    let mut block = written(&memory, PAGE_BYTES);
    block[..16].copy_from_slice(b"sixteen letters.");
    let mut log = block.append_after(16);
    assert_eq!((log.committed(), log.bytes()), (16, &b"sixteen letters."[..]));
    let view = log.shared(0..7);
    assert_eq!(log.append(&[b"more"]), Some(16));
    assert_eq!(log.bytes(), b"sixteen letters.more\0\0\0\0");
    log.store_word(8, u32::from_le_bytes(*b"LETT"));
    assert_eq!((&*view, &log.bytes()[8..16]), (&b"sixteen"[..], &b"LETTers."[..]));
    let whole = memory.allocate(PAGE_BYTES, Purpose::Log).unwrap().append_only().capacity();
    let full = memory.allocate(PAGE_BYTES, Purpose::Log).unwrap().append_after(whole);
    assert_eq!((full.committed(), full.bytes().len()), (whole, whole));
}

#[test]
#[should_panic(expected = "are no records of a log")]
fn records_do_not_reach_into_the_map() {
    let block = memory(MIB).allocate(PAGE_BYTES, Purpose::Log).unwrap();
    drop(block.append_after(PAGE_BYTES));
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
