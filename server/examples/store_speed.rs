//! How long the store core's verbs take, without network, locks or threads: `cargo run --release -p
//! weft-server --example store_speed`. Keys of 16 bytes with values of 32, once few enough to stay in
//! the cache and once so many that every access waits for memory. Processor time is counted, so that
//! what else runs on the machine matters little.

#![expect(clippy::print_stdout, reason = "the figures are what this is for")]

use std::hint::black_box;
use std::sync::Arc;
use std::task::{Poll, Waker};

use rustix::time::{ClockId, clock_gettime};
use weft_protocol::{CompletionId, Key, Slot, TableId, Watched};
use weft_server::store::{Attempt, Feed, Gather, Partition, PartitionConfig, Tags};
use weft_transport::{Memory, MemoryConfig};

const TABLE: TableId = TableId::DEFAULT;
const OPERATIONS: u64 = 2_000_000;
const BATCH: u64 = 32;

fn main() {
    for keys in [1_000, 1_000_000] {
        println!("{keys} keys");
        measure(keys);
    }
}

fn measure(keys: u64) {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 30 }).expect("1 GiB can be reserved");
    let seed = 0x5eed;
    let tags = Tags::new(seed);
    let config = PartitionConfig { id: 0, epoch: 1, seed, memory: memory.clone() };
    let mut partition = Partition::new(config).expect("1 is an epoch");
    let value = [7; 32];
    // One key after the other in an order that no prefetcher foresees.
    let scattered = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % keys;
    let all: Vec<[u8; 16]> = (0..OPERATIONS).map(|i| key(scattered(i))).collect();

    report("put, new", keys, || {
        for i in 0..keys {
            partition.put(TABLE, &key(i), &value, None, 0).expect("1 GiB suffices");
        }
    });
    let account = memory.account();
    println!(
        "  {:<14} {:>6.1} bytes a key allocated, {:.1} resident",
        "memory",
        account.allocated_bytes as f64 / keys as f64,
        account.resident_bytes as f64 / keys as f64,
    );
    report("get", OPERATIONS, || {
        for key in &all {
            black_box(partition.get(TABLE, key, 0).expect("every key is there").value);
        }
    });
    report("get, batched", OPERATIONS, || {
        for batch in all.chunks(BATCH as usize) {
            let tags: Vec<_> = batch.iter().map(|key| tags.of(TABLE, key)).collect();
            tags.iter().for_each(|tag| partition.prefetch_bucket(*tag));
            let overflowed = tags.iter().filter(|tag| partition.prefetch_record(**tag));
            let overflowed: Vec<_> = overflowed.collect();
            overflowed.iter().for_each(|tag| partition.prefetch_overflowed(**tag));
            for (key, tag) in batch.iter().zip(tags) {
                let object = partition.get_tagged(tag, TABLE, key, 0);
                black_box(object.expect("every key is there").value);
            }
        }
    });
    report("get and pin", OPERATIONS, || {
        for key in &all {
            black_box(partition.get(TABLE, key, 0).expect("every key is there").pin());
        }
    });
    report("get, absent", OPERATIONS, || {
        for key in &all {
            black_box(partition.get(TABLE, &key[1..], 0).is_none());
        }
    });
    report("put, overwrite", OPERATIONS, || {
        for key in &all {
            partition.put(TABLE, key, &value, None, 0).expect("1 GiB suffices");
        }
    });
    // Taken by the thousand, and the same thread does that.
    let all_keys = Watched::Prefix(Key::new(b"user").expect("it is short"));
    let feed = Arc::new(Feed::new(TABLE, all_keys, 1 << 20));
    let slots = (Slot::of(b""), Slot::of(b""));
    partition.watch(&feed, slots);
    let mut received = 0;
    report("put, watched", OPERATIONS, || {
        for keys in all.chunks(1_000) {
            for key in keys {
                partition.put(TABLE, key, &value, None, 0).expect("1 GiB suffices");
            }
            let Poll::Ready(Ok(page)) = feed.poll(received, Waker::noop()) else {
                panic!("they are told and have room")
            };
            received += page.reply().events.len() as u64;
        }
    });
    partition.unwatch(&feed);
    // As a primary's batch does it: the entries of 32 puts are taken together, and copied to where they are sent from.
    let mut snapshot = partition.snapshot();
    let config = PartitionConfig { id: 0, epoch: 1, seed: seed + 1, memory: memory.clone() };
    let mut follower = Partition::new(config).expect("1 is an epoch");
    follower.begin_snapshot(snapshot.start(), snapshot.head()).expect("it is well-formed");
    report("snapshot", keys, || {
        let mut part = Gather::default();
        while !snapshot.is_done() {
            part.clear();
            let as_of = partition.snapshot_part(&mut snapshot, 64 << 10, &mut part);
            let part = part.all().to_vec();
            follower.apply_snapshot(as_of, &part, 0).expect("1 GiB suffices");
        }
    });
    follower.end_snapshot();
    partition.set_recording(true);
    let mut batches = Vec::new();
    report("put, recorded", OPERATIONS, || {
        for keys in all.chunks(BATCH as usize) {
            for key in keys {
                partition.put(TABLE, key, &value, None, 0).expect("1 GiB suffices");
            }
            let mut batch = Vec::with_capacity(BATCH as usize * 80);
            while let Some(entry) = partition.take_entry() {
                entry.bytes.pieces().for_each(|piece| batch.extend_from_slice(piece.bytes()));
            }
            batches.push(batch);
        }
    });
    report("apply", OPERATIONS, || {
        for batch in &batches {
            follower.apply_entries(batch, 0).expect("1 GiB suffices");
        }
    });
    partition.set_recording(false);
    report("put, once", OPERATIONS, || {
        for (sequence, key) in (1..).zip(&all) {
            let id = CompletionId { client: 1, sequence };
            let attempt = Attempt { id, first_incomplete: sequence.saturating_sub(BATCH) };
            let put = partition.once(Some(attempt), |p| p.put(TABLE, key, &value, None, 0));
            put.expect("1 GiB suffices");
        }
    });
    assert_eq!(follower.stats().objects, keys);
    report("delete", keys, || {
        for i in 0..keys {
            partition.delete(TABLE, &key(i), 0).expect("an epoch has versions enough");
        }
    });
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user............";
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

#[expect(clippy::disallowed_methods, reason = "what it has used of a processor, not a time")]
fn report(what: &str, operations: u64, mut work: impl FnMut()) {
    let start = clock_gettime(ClockId::ThreadCPUTime);
    work();
    let end = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = (end.tv_sec - start.tv_sec) * 1_000_000_000 + (end.tv_nsec - start.tv_nsec);
    println!("  {what:<14} {:>6.1} ns", nanos as f64 / operations as f64);
}
