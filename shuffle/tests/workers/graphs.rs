//! Graphs over several workers.

use std::collections::{BTreeMap, BTreeSet};

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use ruzstd::decoding::StreamingDecoder;
use weft_shuffle::job::components::{both_ways, components};
use weft_shuffle::job::graph::{Edge, Graph};
use weft_shuffle::job::pagerank::{PageRank, Shape};
use weft_shuffle::{
    Dataset as _, EdgeList, JobError, Share, Worker, WorkerConfig, WorkerId, records, worker_of,
};

use crate::threads::{run, run_with, share};

/// Edges of a hub to and from all, whose edges no worker holds alone, of a ring, and some that occur twice.
fn edge(number: u64) -> (u64, u64) {
    const HUB: u64 = 7;
    let vertex = number / 4 * 3;
    match number % 4 {
        0 => (HUB, vertex),
        1 => (vertex, HUB),
        2 => (vertex, vertex + 3),
        _ => (vertex % 30, vertex % 42),
    }
}

const EDGES: u64 = 20_000;

/// How vertices may be named: without large holes, with such, by 32 bits and by more, and some so and some so.
const NAMES: [fn(u64) -> u64; 4] = [
    |vertex| vertex,
    |vertex| vertex << 12,
    |vertex| u64::MAX - (vertex << 30),
    |vertex| if vertex % 5 == 0 { vertex << 33 } else { vertex },
];

/// The edges, once each.
fn edges(name: fn(u64) -> u64) -> BTreeSet<(u64, u64)> {
    (0..EDGES).map(edge).map(|(from, to)| (name(from), name(to))).collect()
}

/// What is given to each vertex, by a plain program; vertices to which no edge leads have `nothing`.
fn plain(
    edges: &BTreeSet<(u64, u64)>,
    nothing: u64,
    combine: impl Fn(u64, u64) -> u64,
) -> BTreeMap<u64, u64> {
    let ends = edges.iter().flat_map(|(from, to)| [*from, *to]);
    let mut given: BTreeMap<u64, u64> = ends.map(|vertex| (vertex, nothing)).collect();
    for (from, to) in edges {
        given.entry(*to).and_modify(|sum| *sum = combine(*sum, value(*from)));
    }
    given
}

/// Of which no sums of some are those of others.
fn value(vertex: u64) -> u64 {
    vertex.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// What is sent and received has room in so much, and this process has more than that already: so edges have none.
fn with_little_memory(config: WorkerConfig) -> WorkerConfig {
    WorkerConfig { memory_bytes: 8 << 20, ..config }
}

#[test]
fn what_is_given_along_edges_is_combined_where_they_lead() {
    check_what_is_given(|config| config, false);
}

#[test]
fn what_is_given_along_edges_is_combined_where_memory_has_no_room_for_them() {
    check_what_is_given(with_little_memory, true);
}

fn check_what_is_given(change: fn(WorkerConfig) -> WorkerConfig, is_spilled: bool) {
    let sum = |one: u64, other: u64| one.wrapping_add(other);
    let combinations = [(0, sum as fn(u64, u64) -> u64), (u64::MAX, u64::min)];
    let cases = NAMES.into_iter().flat_map(|name| combinations.map(|combined| (name, combined)));
    for (name, (nothing, combine)) in cases {
        let all = edges(name);
        let expected = plain(&all, nothing, combine);
        for workers in [1, 2, 3, 5] {
            let parts = run_with(workers, change, |worker, _| {
                let own = records(share(worker, EDGES).map(|number| {
                    let (key, value) = edge(number);
                    Edge { key: name(key), value: name(value) }
                }));
                let graph = Graph::spread(worker, own).unwrap();
                let here = graph.identifiers().to_vec();
                let is_here =
                    |vertex: &u64| worker_of(vertex, worker.workers()) == WorkerId(worker.id().0);
                assert!(here.iter().all(is_here), "a vertex is where its hash says");
                let degrees: Vec<u32> = (0..here.len()).map(|at| graph.out_degree(at)).collect();
                assert!(degrees.is_sorted_by(|one, other| one >= other), "most edges first");
                // Twice, as a round does not spoil what the next one needs.
                let given = || here.iter().copied().map(value).collect();
                let round = || graph.combine_incoming(worker, given(), nothing, combine).unwrap();
                let sums = round();
                assert_eq!(sums, round());
                assert_eq!(worker.bytes_spilled() > 0, is_spilled);
                (here.into_iter().zip(sums).collect::<Vec<_>>(), graph.edges())
            });
            let held: Vec<u64> = parts.iter().map(|(_, held)| *held).collect();
            assert_eq!(held.iter().sum::<u64>(), all.len() as u64);
            let found: BTreeMap<u64, u64> = parts.into_iter().flat_map(|(sums, _)| sums).collect();
            assert_eq!(found, expected, "{workers} workers");
        }
    }
}

/// Each vertex of a real graph, and its rank after 20 iterations, as others computed it.
#[expect(clippy::disallowed_methods, reason = "the ranks are in a file")]
fn checked_ranks() -> BTreeMap<u64, f64> {
    const CHECKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/wiki-Vote.ranks.tsv.zst");
    let mut text = String::new();
    let mut decoder = StreamingDecoder::new(File::open(CHECKED).unwrap()).unwrap();
    decoder.read_to_string(&mut text).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap();
        (next().parse().unwrap(), next().parse().unwrap())
    });
    rows.collect()
}

/// Calls `with` with a worker's share of that graph.
fn with_edges<T>(worker: &Worker, with: impl FnOnce(EdgeList, Share) -> T) -> T {
    const WIKI_VOTE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/wiki-Vote.txt.zst");
    let list = EdgeList::open(Path::new(WIKI_VOTE)).unwrap();
    with(list, Share::new(worker.id().0, worker.workers()).unwrap())
}

#[test]
fn a_real_graph_has_the_checked_ranks_where_memory_has_no_room_for_its_edges() {
    let expected = checked_ranks();
    let method = PageRank { iterations: 20, damping: 0.85 };
    for shape in [Shape::Static, Shape::Indexed] {
        for workers in [1, 2, 3, 5] {
            let parts = run_with(workers, with_little_memory, |worker, _| {
                let read = AtomicU64::new(0);
                let graph = with_edges(worker, |list, share| {
                    shape.spread(worker, list.records(share, &read))
                });
                let graph = graph.unwrap();
                let loaded_bytes = worker.bytes_spilled();
                let ranks = method.rank(worker, &graph, |_| ()).unwrap();
                // Of the edges as they come, and of what is made of them.
                let edges = worker.gather(graph.edges()).unwrap().iter().sum::<u64>();
                (ranks, loaded_bytes, edges)
            });
            let found: BTreeMap<u64, f64> = parts
                .iter()
                .flat_map(|(ranks, ..)| ranks)
                .map(|rank| (rank.vertex, rank.rank))
                .collect();
            assert!(found.keys().eq(expected.keys()), "{shape:?}, {workers} workers");
            for (vertex, rank) in &found {
                let difference = (rank - expected[vertex]).abs() / expected[vertex];
                assert!(difference <= 1e-9, "{shape:?}, {workers} workers, vertex {vertex}");
            }
            let edges = parts[0].2;
            let spilled: u64 = parts.iter().map(|(_, bytes, _)| bytes).sum();
            // By source, in rows, by target, in rows, by column, and in columns.
            assert!(spilled > edges * 12, "{spilled} bytes for {edges} edges");
        }
    }
}

#[test]
fn components_are_the_same_where_memory_has_no_room_for_edges() {
    let members = |workers, change: fn(WorkerConfig) -> WorkerConfig| {
        let parts = run_with(workers, change, |worker, _| {
            let read = AtomicU64::new(0);
            let graph = with_edges(worker, |list, share| {
                Graph::spread(worker, both_ways(list.records(share, &read)))
            });
            let members = components(worker, &graph.unwrap(), |_| ()).unwrap();
            (members, worker.bytes_spilled())
        });
        let spilled: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
        let members = parts.into_iter().flat_map(|(members, _)| members);
        let members: BTreeMap<u64, u64> =
            members.map(|member| (member.vertex, member.component)).collect();
        (members, spilled)
    };
    let (expected, spilled) = members(1, |config| config);
    assert_eq!((expected.len(), spilled), (7_115, 0));
    assert_eq!(expected.values().collect::<BTreeSet<_>>().len(), 24);
    for workers in [1, 2, 3, 5] {
        let (found, spilled) = members(workers, with_little_memory);
        assert!(found == expected && spilled > 0, "{workers} workers, {spilled} bytes");
    }
}

#[test]
fn vertices_that_memory_has_no_room_for_end_the_job() {
    let errors = run_with(2, with_little_memory, |worker, _| {
        let edges = share(worker, 400_000).map(|number| Edge { key: number, value: number + 1 });
        let error = Graph::spread(worker, records(edges)).unwrap_err();
        worker.stop(&error);
        error
    });
    let said: Vec<String> = errors.iter().map(JobError::to_string).collect();
    let is_told = |error: &JobError| matches!(error, JobError::TooLittleMemory { .. });
    assert!(errors.iter().any(is_told), "{said:?}");
    assert!(said.iter().any(|said| said.contains("--memory")), "{said:?}");
}

/// What worker 0 says of worker 1, which is asked for the numbers of its two vertices, as edges lead to them from one of worker 0's, and answers `numbers`, where it has said that it has three.
fn refusal(numbers: &[u32]) -> String {
    let of = |worker| (0..).filter(move |vertex| worker_of(vertex, 2) == WorkerId(worker));
    let ends: Vec<u64> = of(1).take(2).collect();
    let source = of(0).next().unwrap();
    let said = run(2, |worker| {
        if worker.id() == WorkerId(0) {
            let edges = ends.iter().map(|end| Edge { key: source, value: *end });
            return Some(Graph::spread(worker, records(edges)).unwrap_err().to_string());
        }
        let other = |_: &_| WorkerId(0);
        records(Vec::<Edge>::new()).partition_by(|_| WorkerId(0)).to_vec(worker).unwrap();
        let asked =
            records(Vec::<u64>::new()).partition_by(|_| WorkerId(0)).to_vec(worker).unwrap();
        assert_eq!(asked.len(), 2);
        worker.gather(3_u64).unwrap();
        // Worker 0 stops the job once it has them.
        let _ = records(numbers.to_vec()).partition_by(other).to_vec(worker);
        let _ = worker.gather(0_u64);
        None
    });
    said.into_iter().flatten().collect()
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    // Worker 0 has one vertex, with number 0.
    for (numbers, what) in [
        (&[1, 1][..], "the same number for two of its vertices"),
        (&[1, 4], "no number for one of its vertices"),
        (&[0, 1], "no number for one of its vertices"),
        (&[3], "no number for one of its vertices"),
        (&[3, 2, 1], "numbers that it was not asked for"),
    ] {
        let said = refusal(numbers);
        assert!(said.contains(what) && said.contains("worker 1"), "{numbers:?}: {said}");
    }
}

#[test]
fn identifiers_that_others_ask_for_take_no_memory_by_their_size() {
    run(2, |worker| {
        // Asked for by each of the other: of all sizes, whoever they belong to.
        let vertices = (0..64).map(|bit| u64::MAX >> bit);
        let edges = vertices.map(|vertex| Edge { key: vertex / 2, value: vertex });
        let graph = Graph::spread(worker, records(edges)).unwrap();
        assert_eq!(graph.vertices(), 65);
    });
}

#[test]
fn edges_of_either_width_fill_segments_side_by_side() {
    // Segments with 8,192 edges of 32 bits and 4,096 of 64 are full at the same time.
    const WIDE: u64 = 3 * 4096 + 5;
    let source = (0..).find(|vertex| worker_of(vertex, 2) == WorkerId(1)).unwrap();
    let held = run(2, |worker| {
        let read = if worker.id() == WorkerId(0) { WIDE } else { 0 };
        let edges = (0..read).flat_map(|number| [2 * number, 2 * number + 1, (number + 1) << 40]);
        let edges = edges.map(|value| Edge { key: source, value });
        let graph = Graph::spread(worker, records(edges)).unwrap();
        (graph.edges(), graph.vertices())
    });
    let vertices = 3 * WIDE + u64::from(source >= 2 * WIDE);
    assert_eq!(held.iter().map(|(edges, _)| edges).sum::<u64>(), 3 * WIDE);
    assert!(held.iter().all(|(_, found)| *found == vertices), "{held:?}");
}
