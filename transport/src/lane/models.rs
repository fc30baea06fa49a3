//! A lane's two ends with all that weak memory and the scheduler may do to them.

use loom::thread;

use super::*;
use crate::memory::{MemoryConfig, Purpose};
use crate::models::check_orders;

/// As [`check_orders`], with memory.
fn check(interruptions: usize, model: impl Fn(&Memory) + Send + Sync + 'static) {
    // One for all runs: it is no part of what is checked.
    let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 }).expect("address space");
    check_orders(interruptions, move || model(&memory));
}

/// The producer is never in the way of what is read or sent, and what wraps around comes out whole.
#[test]
fn a_ring_keeps_its_two_ends_apart() {
    const RECORD: usize = 24;
    const RECORDS: u64 = 4;
    check(3, |memory| {
        let ring = Arc::new(Ring::new(memory, 64).unwrap());
        let reading = Arc::clone(&ring);
        let reader = thread::spawn(move || {
            let (mut taken, mut number) = (0, 0);
            while number < RECORDS {
                let Some((start, len)) = reading.next_run(taken) else {
                    thread::yield_now();
                    continue;
                };
                assert_eq!(len % RECORD, 0, "whole records");
                for record in reading.committed_bytes(start, len).chunks(RECORD) {
                    assert_eq!(record, [number as u8; RECORD]);
                    number += 1;
                }
                taken = start + len as u64;
                reading.release(taken);
            }
        });
        let mut written = 0;
        for number in 0..RECORDS {
            let start = loop {
                match ring.reserve(written, RECORD) {
                    Some(start) => break start,
                    None => thread::yield_now(),
                }
            };
            ring.reserved_bytes(start, RECORD).fill(number as u8);
            written = start + RECORD as u64;
            ring.commit(written);
        }
        reader.join().unwrap();
    });
}

/// A ring that is too small is replaced while it is read; bodies that lie elsewhere keep their place; and a
/// lane is finished when nothing more comes, not before.
#[test]
fn a_lane_whose_ring_is_replaced_comes_out_in_order_to_its_end() {
    check(3, |memory| {
        let mut body = memory.allocate(8, Purpose::Send).unwrap();
        body[..8].fill(7);
        let body = body.freeze().slice(0..8);
        let (mut producer, mut consumer) = lane(0, memory).unwrap();
        let writer = thread::spawn(move || {
            producer.record(40, |bytes| bytes.fill(1), None).unwrap();
            producer.record(40, |bytes| bytes.fill(2), Some((body, 8))).unwrap();
            producer.record(16, |bytes| bytes.fill(3), None).unwrap();
        });
        let mut sent = Vec::new();
        loop {
            let mut pieces = Vec::new();
            consumer.take(64, |piece| pieces.push(piece));
            for mut piece in pieces {
                sent.extend_from_slice(piece.bytes());
                piece.advance(piece.bytes().len());
            }
            if consumer.is_finished() {
                break;
            }
            thread::yield_now();
        }
        let expected = [&[1; 40][..], &[2; 32], &[7; 8], &[2; 8], &[3; 16]].concat();
        assert_eq!(sent, expected);
        writer.join().unwrap();
    });
}
