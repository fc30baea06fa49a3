//! Every worker holds its share of the edges, wherever these begin, and ranks do not tell.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::job::WIKI_VOTE;
use crate::ranks::{assert_equal, plain_ranks, rank};

/// Nobody holds more than its share and a twentieth, or than the share where whole edges leave no choice.
fn assert_balanced(report: &Value, workers: usize) {
    let held: Vec<u64> = serde_json::from_value(report["edges_by_worker"].clone()).unwrap();
    assert_eq!(held.len(), workers);
    let edges = report["edges"].as_u64().unwrap();
    assert_eq!(held.iter().sum::<u64>(), edges, "every edge is held once");
    let workers = workers as u64;
    let most = edges.div_ceil(workers).max(edges * 21 / (20 * workers));
    assert!(held.iter().all(|held| *held <= most), "{held:?}, where {most} are allowed");
}

#[test]
fn every_worker_holds_its_share_of_a_real_graph() {
    let more = ["--iterations", "3"];
    let (_, of_one) = rank(Path::new(WIKI_VOTE), 1, &more);
    for workers in [2, 3, 5, 9, 64] {
        let (report, ranks) = rank(Path::new(WIKI_VOTE), workers, &more);
        assert_balanced(&report, workers);
        assert_equal(&ranks, &of_one, 1e-12, &format!("{workers} workers and one"));
    }
}

#[test]
fn every_worker_holds_its_share_of_a_graph_with_one_large_vertex() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    let star = |len: u64| (1..=len).map(|leaf| (0, leaf)).collect::<Vec<_>>();
    let turned = |edges: &[(u64, u64)]| edges.iter().map(|(from, to)| (*to, *from)).collect();
    let both = |edges: &[(u64, u64)]| {
        let back: Vec<(u64, u64)> = turned(edges);
        [edges, &back].concat()
    };
    // Beside large stars: some with few edges or fewer than workers, and a graph of one loop.
    for edges in [
        star(1000),
        turned(&star(1000)),
        both(&star(700)),
        star(2),
        star(3),
        star(4),
        both(&star(5)),
        vec![(5, 5)],
    ] {
        let lines: BTreeSet<String> =
            edges.iter().map(|(from, to)| format!("{from} {to}\n")).collect();
        std::fs::write(&path, lines.into_iter().collect::<String>()).unwrap();
        let expected = plain_ranks(&edges, 20, 0.85);
        for workers in [1, 2, 5, 9] {
            let (report, ranks) = rank(&path, workers, &[]);
            assert_eq!(report["edges"], edges.len());
            assert_balanced(&report, workers);
            let what = format!("{} edges from {:?} on, {workers} workers", edges.len(), edges[0]);
            assert_equal(&ranks, &expected, 1e-12, &what);
        }
    }
}
