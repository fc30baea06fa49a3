use std::thread;

use proptest::prelude::*;

use super::*;
use crate::memory::{MemoryConfig, Purpose};

fn memory() -> Memory {
    Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).expect("address space")
}

/// Everything that is committed, as the link would see it; `step` bytes at a time.
fn drain(consumer: &mut Consumer, step: usize) -> Vec<u8> {
    let mut pieces = VecDeque::new();
    consumer.take(usize::MAX, |piece| pieces.push_back(piece));
    let mut sent = Vec::new();
    while let Some(piece) = pieces.front_mut() {
        let count = piece.bytes().len().min(step);
        sent.extend_from_slice(&piece.bytes()[..count]);
        piece.advance(count);
        if piece.bytes().is_empty() {
            pieces.pop_front();
        }
    }
    sent
}

#[derive(Debug, Clone)]
enum Step {
    Record { words: usize, tail: Option<usize> },
    Drain { step: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let record = (1usize..200, proptest::option::of(1usize..9000))
        .prop_map(|(words, tail)| Step::Record { words, tail });
    let drain = (1usize..5000).prop_map(|step| Step::Drain { step });
    proptest::collection::vec(prop_oneof![4 => record, 1 => drain], 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { ProptestConfig::default().cases },
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_comes_out_is_what_went_in(steps in steps()) {
        let memory = memory();
        let (mut producer, mut consumer) = lane(0, &memory).unwrap();
        let (mut expected, mut sent) = (Vec::new(), Vec::new());
        let mut next = 0u8;
        for step in steps {
            match step {
                Step::Record { words, tail } => {
                    next = next.wrapping_add(1);
                    let tail = tail.map(|len| {
                        let mut block = memory.allocate(len, Purpose::Send).unwrap();
                        block[..len].fill(next.wrapping_add(100));
                        (block.freeze().slice(0..len), 8)
                    });
                    let len = words * 8 + 8;
                    expected.extend(std::iter::repeat_n(next, len - 8));
                    expected.extend(tail.iter().flat_map(|(bytes, _)| bytes.iter().copied()));
                    expected.extend([next; 8]);
                    producer.record(len, |bytes| bytes.fill(next), tail).unwrap();
                }
                Step::Drain { step } => sent.extend(drain(&mut consumer, step)),
            }
            producer.shrink_if_idle();
        }
        sent.extend(drain(&mut consumer, 999));
        prop_assert_eq!(producer.backlog(), 0);
        prop_assert!(sent == expected);
    }
}

#[test]
fn two_threads_agree_on_a_million_records() {
    const RECORDS: u64 = if cfg!(miri) { 300 } else { 1_000_000 };
    let memory = memory();
    let (mut producer, mut consumer) = lane(0, &memory).unwrap();
    let writer = thread::spawn(move || {
        for number in 0..RECORDS {
            let len = 8 + (number % 13) as usize * 8;
            let fill = |bytes: &mut [u8]| {
                for word in bytes.chunks_exact_mut(8) {
                    word.copy_from_slice(&number.to_le_bytes());
                }
            };
            while producer.backlog() > 1 << 20 {
                thread::yield_now();
            }
            producer.record(len, fill, None).unwrap();
            producer.shrink_if_idle();
        }
    });
    let mut pieces = VecDeque::new();
    let mut number = 0;
    let mut left = 1;
    while number < RECORDS {
        if consumer.take(64 << 10, |piece| pieces.push_back(piece)) == 0 {
            thread::yield_now();
        }
        while let Some(mut piece) = pieces.pop_front() {
            for word in piece.bytes().chunks_exact(8) {
                assert_eq!(u64::from_le_bytes(word.try_into().unwrap()), number);
                left -= 1;
                if left == 0 {
                    number += 1;
                    left = 1 + number % 13;
                }
            }
            let len = piece.bytes().len();
            piece.advance(len);
        }
    }
    writer.join().unwrap();
    assert!(consumer.is_finished());
}

#[test]
#[cfg_attr(miri, ignore = "thousands of records, as others have them too")]
fn a_large_ring_is_given_back_when_it_stays_nearly_empty() {
    let memory = memory();
    let (mut producer, mut consumer) = lane(0, &memory).unwrap();
    for _ in 0..1000 {
        producer.record(1024, |bytes| bytes.fill(1), None).unwrap();
    }
    drop(drain(&mut consumer, usize::MAX));
    let grown = memory.account().allocated_bytes;
    for _ in 0..2 * SHRINK_AFTER {
        producer.record(8, |bytes| bytes.fill(2), None).unwrap();
        drop(drain(&mut consumer, usize::MAX));
        producer.shrink_if_idle();
    }
    assert!(memory.account().allocated_bytes * 10 < grown, "{grown} bytes were not given back");
}
