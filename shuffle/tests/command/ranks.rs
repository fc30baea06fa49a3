//! Ranks are right: beside checked ones of a real graph, and beside a plain loop.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;

use crate::job::{WIKI_VOTE, run};

pub(crate) type Ranks = BTreeMap<u64, f64>;

const CHECKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/wiki-Vote.ranks.tsv.zst");

/// All that the format has: comments, blanks and tabs, further columns, an edge that occurs three
/// times, a loop, vertices that no edge leaves or none reaches, and identifiers of all 64 bits.
const SMALL: &str = "# From\tTo\n\
    % another comment\n\
    1\t2\n\
    1 2\n\
    \n\
    \t1  2\t0.25 1082040961\n\
    2\t18446744073709551615\r\n\
    18446744073709551615 4294967296 weight\n\
    4294967296 1\n\
    4294967296 9223372036854775808\n\
    7 7\n\
    7 1\n\
    0 7";

const SMALL_EDGES: [(u64, u64); 8] = [
    (1, 2),
    (2, u64::MAX),
    (u64::MAX, 1 << 32),
    (1 << 32, 1),
    (1 << 32, 1 << 63),
    (7, 7),
    (7, 1),
    (0, 7),
];

/// What `shuffle pagerank --json` reports, and the ranks that it writes.
pub(crate) fn rank(input: &Path, workers: usize, more: &[&str]) -> (Value, Ranks) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("ranks");
    let mut arguments = vec!["pagerank", "--json", "--input", input.to_str().unwrap()];
    let count = workers.to_string();
    arguments.extend(["--workers", &count, "--output", output.to_str().unwrap()]);
    arguments.extend(more);
    let ended = run(&arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, "", "there is no terminal to draw bars on");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let written = std::fs::read_to_string(&output).unwrap();
    assert!(written.ends_with('\n'));
    let lines: Vec<(u64, f64)> = written.lines().map(parse_line).collect();
    assert!(lines.is_sorted_by(|one, other| one.1 >= other.1), "the highest come first");
    let ranks = lines.iter().copied().collect::<Ranks>();
    assert_eq!(ranks.len(), lines.len(), "every vertex has one line");
    assert_eq!(report["vertices"], lines.len());
    for (top, (vertex, rank)) in report["top"].as_array().unwrap().iter().zip(lines) {
        assert_eq!((top["vertex"].as_u64(), top["rank"].as_f64()), (Some(vertex), Some(rank)));
    }
    (report, ranks)
}

/// Vertex, tab, rank with 17 significant digits.
pub(crate) fn parse_line(line: &str) -> (u64, f64) {
    let (vertex, rank) = line.split_once('\t').unwrap();
    let (digits, _) = rank.split_once('e').unwrap();
    assert!(!digits.starts_with('0'), "{line}: no leading zero is significant");
    assert_eq!(digits.chars().filter(char::is_ascii_digit).count(), 17, "{line}");
    (vertex.parse().unwrap(), rank.parse().unwrap())
}

pub(crate) fn assert_equal(found: &Ranks, expected: &Ranks, tolerance: f64, what: &str) {
    assert!(found.keys().eq(expected.keys()), "{what}: not the same vertices");
    for (vertex, expected) in expected {
        let difference = (found[vertex] - expected).abs() / expected;
        assert!(difference <= tolerance, "{what}, vertex {vertex}: {difference:e}");
    }
}

/// The text of a file that was compressed by zstd.
pub(crate) fn text_of(path: &str) -> String {
    let mut text = String::new();
    let mut decoder = StreamingDecoder::new(File::open(path).unwrap()).unwrap();
    decoder.read_to_string(&mut text).unwrap();
    text
}

/// A column of the ranks that others computed: 1 after 20 iterations, 2 converged.
fn checked(column: usize) -> Ranks {
    let text = text_of(CHECKED);
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        (columns[0].parse().unwrap(), columns[column].parse().unwrap())
    });
    rows.collect()
}

#[test]
fn a_real_graph_has_the_checked_ranks_with_any_number_of_workers() {
    let expected = checked(1);
    assert_eq!(expected.len(), 7_115);
    let (_, of_one) = rank(Path::new(WIKI_VOTE), 1, &[]);
    assert_equal(&of_one, &expected, 1e-9, "one worker and the checked");
    // Five workers have mirrors of some vertices.
    for workers in [2, 3, 5] {
        let (_, ranks) = rank(Path::new(WIKI_VOTE), workers, &[]);
        assert_equal(&ranks, &expected, 1e-9, &format!("{workers} workers and the checked"));
        assert_equal(&ranks, &of_one, 1e-12, &format!("{workers} workers and one"));
    }
    for shape in ["static", "indexed", "keyed"] {
        for workers in [1, 3] {
            let (report, ranks) = rank(Path::new(WIKI_VOTE), workers, &["--shape", shape]);
            assert_equal(&ranks, &expected, 1e-9, &format!("{shape}, {workers} workers"));
            assert_eq!(report["edges"], 103_689);
        }
    }
    for shape in ["naos", "naos-sparse"] {
        for workers in [1, 2, 3, 5] {
            let (report, ranks) = rank(Path::new(WIKI_VOTE), workers, &["--shape", shape]);
            assert_equal(&ranks, &expected, 1e-9, &format!("{shape}, {workers} workers"));
            assert_eq!(report["edges"], 103_689);
        }
    }
}

#[test]
fn more_iterations_converge_to_the_checked_ranks() {
    let (_, ranks) = rank(Path::new(WIKI_VOTE), 2, &["--iterations", "60"]);
    assert_equal(&ranks, &checked(2), 1e-9, "after 60 iterations");
}

/// PageRank as in the textbook, in one loop.
pub(crate) fn plain_ranks(edges: &[(u64, u64)], iterations: usize, damping: f64) -> Ranks {
    let vertices: BTreeSet<u64> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
    let n = vertices.len() as f64;
    let leaving = |vertex| edges.iter().filter(|(from, _)| *from == vertex).count();
    let mut ranks: Ranks = vertices.iter().map(|vertex| (*vertex, 1.0 / n)).collect();
    for _ in 0..iterations {
        let is_dangling = |vertex: &&u64| leaving(**vertex) == 0;
        let dangling: f64 = vertices.iter().filter(is_dangling).map(|vertex| ranks[vertex]).sum();
        let to_all = (1.0 - damping + damping * dangling) / n;
        let mut next: Ranks = vertices.iter().map(|vertex| (*vertex, to_all)).collect();
        for (from, to) in edges {
            *next.get_mut(to).unwrap() += damping * ranks[from] / leaving(*from) as f64;
        }
        ranks = next;
    }
    ranks
}

#[test]
fn a_graph_of_every_kind_of_line_has_the_ranks_of_a_plain_loop() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("graph.txt"), folder.path().join("graph.txt.gz"));
    std::fs::write(&plain, SMALL).unwrap();
    let mut encoder = GzEncoder::new(File::create(&packed).unwrap(), Compression::default());
    encoder.write_all(SMALL.as_bytes()).unwrap();
    encoder.finish().unwrap();
    for (iterations, damping) in [(1, 0.85), (7, 0.5), (30, 1.0), (3, 0.0)] {
        let expected = plain_ranks(&SMALL_EDGES, iterations, damping);
        assert_eq!(expected.len(), 7);
        let (iterations, damping) = (iterations.to_string(), damping.to_string());
        let more = ["--iterations", &iterations, "--damping", &damping, "--top", "3"];
        let runs = [(&plain, 1, "static"), (&plain, 2, "static"), (&packed, 3, "static")];
        let more_runs = [(&packed, 9, "static"), (&plain, 4, "indexed"), (&packed, 9, "keyed")];
        let naos_runs = [(&plain, 3, "naos"), (&packed, 9, "naos"), (&plain, 4, "naos-sparse")];
        for (input, workers, shape) in runs.into_iter().chain(more_runs).chain(naos_runs) {
            let (report, ranks) = rank(input, workers, &[&more[..], &["--shape", shape]].concat());
            let what =
                format!("{workers} workers, {iterations} iterations, damping {damping}, {shape}");
            assert_equal(&ranks, &expected, 1e-12, &what);
            assert_eq!(report["edges"], SMALL_EDGES.len(), "parallel edges count once");
            assert_eq!(report["top"].as_array().unwrap().len(), 3);
        }
    }
}
