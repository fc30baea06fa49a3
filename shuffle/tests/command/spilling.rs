//! Graphs that memory has no room for: what comes out is the same, and it is kept within.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::job::{WIKI_VOTE, run};
use crate::ranks::{assert_equal, rank};

/// A binary edge list, in a folder that goes with it.
pub(crate) struct LargeGraph {
    folder: tempfile::TempDir,
}

impl LargeGraph {
    /// One with the skew of real ones, of which two workers with 64 MiB have no room for all edges.
    pub(crate) fn skewed() -> LargeGraph {
        let graph = LargeGraph { folder: tempfile::tempdir().unwrap() };
        let path = graph.path();
        let size = ["--vertices", "100000", "--edges", "9000000", "--format", "binary"];
        let output = ["--output", path.to_str().unwrap()];
        let made = run(["generate", "rmat"].iter().chain(&size).chain(&output));
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        graph
    }

    /// A way from vertex to vertex: as many vertices as edges.
    fn way(edges: u32) -> LargeGraph {
        let graph = LargeGraph { folder: tempfile::tempdir().unwrap() };
        let mut out = BufWriter::new(std::fs::File::create(graph.path()).unwrap());
        out.write_all(b"\x89WEDGE\r\n").unwrap();
        [1, 4].iter().for_each(|number: &u32| out.write_all(&number.to_le_bytes()).unwrap());
        out.write_all(&u64::from(edges).to_le_bytes()).unwrap();
        for vertex in 0..edges {
            [vertex, vertex + 1].iter().for_each(|end| out.write_all(&end.to_le_bytes()).unwrap());
        }
        out.flush().unwrap();
        graph
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("graph")
    }
}

/// Whether a job kept something in files, and within its memory.
fn assert_spilled(report: &Value, memory_mib: u64) {
    assert!(report["bytes_spilled"].as_u64() > Some(0), "{report}");
    let peak = report["peak_memory_bytes"].as_u64().unwrap();
    let limit = memory_mib << 20;
    assert!((limit / 2..limit * 105 / 100).contains(&peak), "{peak} bytes of {memory_mib} MiB");
}

#[test]
fn a_graph_has_the_same_ranks_where_memory_has_no_room_for_its_edges() {
    let graph = LargeGraph::skewed();
    let (report, expected) = rank(&graph.path(), 2, &["--iterations", "5"]);
    assert_eq!(report["bytes_spilled"], 0);
    for (workers, memory_mib, shape) in [(1, 56, "static"), (2, 64, "static"), (2, 64, "indexed")] {
        let memory = format!("{memory_mib}MiB");
        let more = ["--iterations", "5", "--memory", &memory, "--shape", shape];
        let (report, ranks) = rank(&graph.path(), workers, &more);
        assert_equal(&ranks, &expected, 1e-11, &format!("{shape}, {workers} workers"));
        assert_spilled(&report, memory_mib);
    }
}

/// What `shuffle components --json` reports, and how many vertices each component has.
fn components(input: &Path, more: &[&str]) -> (Value, BTreeMap<String, u64>) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("members");
    let common = ["--json", "--input", input.to_str().unwrap()];
    let arguments = ["components", "--output", output.to_str().unwrap()];
    let ended = run(arguments.iter().chain(&common).chain(more));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut sizes = BTreeMap::new();
    for file in std::fs::read_dir(&output).unwrap() {
        let written = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for line in written.lines() {
            let (_, component) = line.split_once('\t').unwrap();
            *sizes.entry(component.to_owned()).or_default() += 1;
        }
    }
    (serde_json::from_str(&ended.stdout).unwrap(), sizes)
}

#[test]
fn a_graph_has_the_same_components_where_memory_has_no_room_for_its_edges() {
    let graph = LargeGraph::skewed();
    let (report, expected) = components(&graph.path(), &[]);
    assert_eq!(report["bytes_spilled"], 0);
    let (report, found) = components(&graph.path(), &["--memory", "64MiB"]);
    assert!(found == expected);
    assert_spilled(&report, 64);
}

#[test]
fn a_graph_whose_vertices_have_no_room_ends_the_job() {
    let graph = LargeGraph::way(3_000_000);
    let input = graph.path().to_str().unwrap().to_owned();
    let output = graph.folder.path().join("ranks");
    let output = output.to_str().unwrap();
    let common = ["--input", &input, "--output", output, "--workers", "1"];
    let ended = run(["pagerank", "--memory", "56MiB"].iter().chain(&common));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    for words in ["worker 0", "needs at least", "where it may have 56 MiB", "--memory"] {
        assert!(ended.stderr.contains(words), "no {words:?} in {}", ended.stderr);
    }
    assert_eq!(std::fs::read_dir(graph.folder.path()).unwrap().count(), 1, "nothing is left");
}

#[test]
fn memory_that_cannot_be_enough_is_wrong_usage() {
    for (arguments, words) in [
        (&["components", "--memory", "63MiB"][..], "each of 2 workers needs 64MiB"),
        (&["pagerank", "--memory", "63MiB"], "each of 2 workers needs 64MiB"),
        (&["pagerank", "--memory", "1GiB", "--shape", "keyed"], "--shape static and indexed only"),
        (&["pagerank", "--memory", "1GiB", "--shape", "naos"], "--shape static and indexed only"),
    ] {
        let ended = run(arguments.iter().chain(&["--input", WIKI_VOTE]));
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(words), "{arguments:?}: {}", ended.stderr);
    }
    let ended = run(["pagerank", "--input", WIKI_VOTE, "--spill-dir", "no/such/folder"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("no/such/folder"), "{}", ended.stderr);
}
