//! What a worker sends, counted: every record leaves from where it was written, nothing else of its size
//! leaves beside it, and no other memory of its size is written to. The links are sockets: from there on
//! it is the kernel that copies.

use std::collections::BTreeSet;

use weft_object::Pair;
use weft_shuffle::job::graph::{Edge, Graph};
use weft_shuffle::job::pagerank::{PageRank, Shaped};
use weft_shuffle::{Dataset, LinkKind, Ranges, Worker, WorkerId, records, worker_of};

use crate::threads::{run, share};

/// Bytes of records in a full segment.
const SEGMENT_BYTES: u64 = 64 << 10;

/// What the lane that heads go into may take anew when it grows, in bytes.
const LANE_BYTES: u64 = 256 << 10;

/// What a worker has sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes: u64,
    /// Segments that went from their blocks.
    segments: u64,
    /// Bytes of the blocks that were taken to write into.
    written_into: u64,
}

/// What `exchange` sends; a gathering's one segment may count in addition, or one before it be missed,
/// since it leaves when it likes.
fn sent_by(worker: &Worker, exchange: impl FnOnce()) -> Sent {
    let others = worker.ids().filter(|other| *other != worker.id());
    let links: Vec<_> = others.map(|other| worker.link_to(other)).collect();
    assert!(links.iter().all(|link| *link == Some(LinkKind::Tcp)), "{links:?}");
    // Who has heard from all has sent all of what came before.
    let now = || {
        worker.gather(0_u64).unwrap();
        Sent {
            bytes: worker.bytes_sent(),
            segments: worker.segments_gathered(),
            written_into: worker.bytes_written_into(),
        }
    };
    let before = now();
    exchange();
    let after = now();
    // The counts are of open connections: nobody leaves before all have looked.
    worker.gather(0_u64).unwrap();
    Sent {
        bytes: after.bytes - before.bytes,
        segments: after.segments - before.segments,
        written_into: after.written_into - before.written_into,
    }
}

/// `exchanges` like one that sends so many records of `record_bytes` to one worker.
fn assert_nothing_is_copied(sent: Sent, records: u64, record_bytes: u64, exchanges: u64) {
    let segments = exchanges * (records * record_bytes).div_ceil(SEGMENT_BYTES);
    let counted = segments..=segments + 2;
    assert!(counted.contains(&sent.segments), "{sent:?}, where {segments} were written");
    let bytes = exchanges * records * record_bytes;
    let with_heads = bytes..=bytes + bytes / 80;
    assert!(with_heads.contains(&sent.bytes), "{sent:?} for {bytes} bytes of records");
    // One block a segment, that of a gathering among them, and what heads and ends are written into.
    // A segment that is copied takes a second one.
    let blocks = segments * SEGMENT_BYTES..=(segments + 1) * SEGMENT_BYTES + LANE_BYTES;
    assert!(blocks.contains(&sent.written_into), "{sent:?}, where {segments} were written");
}

#[test]
fn partitioned_records_leave_from_where_they_were_written() {
    let sent = run(2, |worker| {
        let other = WorkerId(1 - worker.id().0);
        sent_by(worker, || {
            records(0..1_000_000_u64).partition_by(|_| other).to_vec(worker).unwrap();
        })
    });
    sent.into_iter().for_each(|sent| assert_nothing_is_copied(sent, 1_000_000, 8, 1));
}

#[test]
fn records_reduced_by_index_leave_from_where_they_were_written() {
    const KEYS: u64 = 200_000;
    let ranges = Ranges::of_counts(&[KEYS, KEYS]);
    let sent = run(2, |worker| {
        sent_by(worker, || {
            // Each has two values for every key: they are combined before they leave.
            records(0..4 * KEYS)
                .map(|number| Pair { key: number % (2 * KEYS), value: number as f64 })
                .reduce_by_index(&ranges, |one: f64, other| one + other)
                .to_vec(worker)
                .unwrap();
        })
    });
    sent.into_iter().for_each(|sent| assert_nothing_is_copied(sent, KEYS, 16, 1));
}

#[test]
fn records_reduced_by_key_leave_from_where_they_were_written() {
    const KEYS: u64 = 200_000;
    let sent = run(2, |worker| {
        sent_by(worker, || {
            records(0..KEYS)
                .map(|key| Pair { key, value: 1_u64 })
                .reduce_by_key(|one, other| one + other)
                .to_vec(worker)
                .unwrap();
        })
    });
    for (id, sent) in sent.into_iter().enumerate() {
        let leave = (0..KEYS).filter(|key| worker_of(key, 2) != WorkerId(id)).count();
        assert_nothing_is_copied(sent, leave as u64, 16, 1);
    }
}

#[test]
fn what_pagerank_gives_leaves_from_where_it_was_written() {
    const VERTICES: u64 = 100_000;
    const ROUNDS: u64 = 10;
    // Steps between vertices that make an edge.
    const STEPS: [u64; 3] = [1, 17, 4096];
    let edges = |from: u64| STEPS.map(|step| (from, (from + step) % VERTICES));
    let sent = run(2, |worker| {
        let own = share(worker, VERTICES).flat_map(edges);
        let own = records(own).map(|(key, value)| Edge { key, value });
        let graph = Graph::spread(worker, own).unwrap();
        let begin_here = (STEPS.len() * graph.identifiers().len()) as u64;
        assert_eq!(graph.edges(), begin_here, "hashing alone balances it");
        sent_by(worker, || {
            let method = PageRank { iterations: ROUNDS as usize, damping: 0.85 };
            method.rank(worker, &Shaped::Static(graph), |_| {}).unwrap();
        })
    });
    for (id, sent) in sent.into_iter().enumerate() {
        let is_here = |vertex: &u64| worker_of(vertex, 2) == WorkerId(id);
        let reached = (0..VERTICES).filter(is_here).flat_map(edges).map(|(_, to)| to);
        let given: BTreeSet<u64> = reached.filter(|to| !is_here(to)).collect();
        // In each round, the sum of what dangles has a segment of its own.
        let written_into = sent.written_into - ROUNDS * SEGMENT_BYTES;
        let sent = Sent { segments: sent.segments - ROUNDS, written_into, ..sent };
        assert_nothing_is_copied(sent, given.len() as u64, 8, ROUNDS);
    }
}
