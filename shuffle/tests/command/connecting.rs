//! Components are those that a plain program finds.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::job::{WIKI_VOTE, run};
use crate::ranks::text_of;

/// What is reported, and which component each vertex is in.
fn connect(input: &Path, workers: usize, more: &[&str]) -> (Value, BTreeMap<u64, u64>) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("components");
    let workers = workers.to_string();
    let arguments =
        ["components", "--json", "--input", input.to_str().unwrap(), "--workers", &workers];
    let output_flag = ["--output", output.to_str().unwrap()];
    let ended = run(arguments.iter().chain(&output_flag).chain(more));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let mut found = BTreeMap::new();
    for file in std::fs::read_dir(output).unwrap() {
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let (vertex, component) = line.split_once('\t').unwrap();
            let before = found.insert(vertex.parse().unwrap(), component.parse().unwrap());
            assert_eq!(before, None, "{vertex} is there once");
        }
    }
    (serde_json::from_str(&ended.stdout).unwrap(), found)
}

/// The same by sets that are united, edge by edge.
fn expected(edges: &[(u64, u64)]) -> BTreeMap<u64, u64> {
    let mut above: HashMap<u64, u64> = HashMap::new();
    fn top(above: &HashMap<u64, u64>, mut vertex: u64) -> u64 {
        while let Some(next) = above.get(&vertex).filter(|next| **next != vertex) {
            vertex = *next;
        }
        vertex
    }
    for (one, other) in edges {
        let (one, other) = (top(&above, *one), top(&above, *other));
        above.insert(one.max(other), one.min(other));
        above.insert(one.min(other), one.min(other));
    }
    let vertices = edges.iter().flat_map(|(one, other)| [*one, *other]);
    vertices.map(|vertex| (vertex, top(&above, vertex))).collect()
}

fn edges_of(text: &str) -> Vec<(u64, u64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let ends = lines.map(|line| line.split_whitespace().map(|end| end.parse().unwrap()));
    ends.map(|mut ends| (ends.next().unwrap(), ends.next().unwrap())).collect()
}

#[test]
fn they_are_the_same_with_any_number_of_workers() {
    // Small components, ways, stars, a loop, and identifiers of all sizes.
    let mut text = format!("7 7\n{} 3\n", u64::MAX);
    let mut state = 1_u64;
    for _ in 0..3000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (one, other) = ((state >> 40) % 4000, (state >> 20) % 4000);
        writeln!(text, "{}\t{}", one << (one % 40), other << (other % 40)).unwrap();
    }
    (0..30).for_each(|at| writeln!(text, "{} {}", 1_000_003 + at, 1_000_004 + at).unwrap());
    (0..200).for_each(|at| writeln!(text, "999983 {}", 2_000_000 + at).unwrap());
    let input = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input.path(), &text).unwrap();
    let expected = expected(&edges_of(&text));
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    expected.values().for_each(|component| *sizes.entry(*component).or_default() += 1);
    let mut top: Vec<_> = sizes.iter().collect();
    top.sort_by_key(|(component, size)| (std::cmp::Reverse(**size), **component));
    let top: Value = top
        .into_iter()
        .take(3)
        .map(|(component, vertices)| json!({"component": component, "vertices": vertices}))
        .collect();
    for workers in [1, 2, 3, 5] {
        let (report, found) = connect(input.path(), workers, &["--top", "3"]);
        assert!(found == expected, "{workers}");
        assert_eq!(report["vertices"], expected.len());
        assert_eq!(report["components"], sizes.len());
        assert_eq!(report["top"], top);
        // The way has thirty edges, and the last round changes nothing.
        assert!(report["rounds"].as_u64() >= Some(31), "{report}");
    }
}

#[test]
fn those_of_a_real_graph_are_found() {
    let expected = expected(&edges_of(&text_of(WIKI_VOTE)));
    let (report, found) = connect(Path::new(WIKI_VOTE), 2, &[]);
    assert!(found == expected);
    // As SNAP says of it: 7,066 of 7,115 vertices are in the largest.
    assert_eq!((&report["vertices"], &report["top"][0]["vertices"]), (&json!(7115), &json!(7066)));
    assert_eq!(report["top"].as_array().unwrap().len(), 10);
}

#[test]
fn an_empty_graph_has_none() {
    let input = tempfile::NamedTempFile::new().unwrap();
    let (report, found) = connect(input.path(), 2, &[]);
    assert!(found.is_empty());
    assert_eq!((&report["components"], &report["top"]), (&json!(0), &json!([])));
}
