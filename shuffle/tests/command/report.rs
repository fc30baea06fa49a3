//! What the command says of a job.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};
use weft_shuffle::worker_of;

use crate::job::{Job, WIKI_VOTE, run};
use crate::ranks::{assert_equal, rank, text_of};

const VERTICES: u64 = 7_115;
const EDGES: u64 = 103_689;

/// What goes to another worker: what a vertex is given.
const VALUE_BYTES: u64 = 8;

/// A link to an object.
const LINK_BYTES: u64 = 4;

#[test]
fn the_object_has_what_scripts_rely_on() {
    for workers in [1, 2, 3] {
        let (report, _) = rank(Path::new(WIKI_VOTE), workers, &["--iterations", "5"]);
        let members: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = vec![
            "vertices",
            "edges",
            "lines_skipped",
            "attempts",
            "first_round",
            "iterations",
            "workers",
            "load_seconds",
            "seconds_per_iteration",
            "seconds_per_iteration_p5",
            "seconds_per_iteration_p95",
            "bytes_shuffled_per_iteration",
            "bytes_spilled",
            "peak_memory_bytes",
            "edges_by_worker",
            "top",
        ];
        expected.sort_unstable();
        assert_eq!(members, expected);
        assert_eq!(report["vertices"], VERTICES);
        assert_eq!(report["edges"], EDGES);
        assert_eq!(report["lines_skipped"], 0);
        assert_eq!(report["iterations"], 5);
        assert_eq!(report["workers"], workers);
        let seconds = |member: &str| report[member].as_f64().unwrap();
        assert!(seconds("load_seconds") > 0.0);
        let [least, median, most] =
            ["_p5", "", "_p95"].map(|end| seconds(&format!("seconds_per_iteration{end}")));
        assert!(0.0 < least && least <= median && median <= most, "{report}");
        let top = report["top"].as_array().unwrap();
        assert_eq!(top.len(), 10);
        assert!(top.iter().all(|top| top.as_object().unwrap().len() == 2), "vertex and rank");
    }
}

#[test]
fn only_what_goes_to_another_worker_is_shuffled() {
    let bytes = |workers, shape| {
        let (report, _) = rank(Path::new(WIKI_VOTE), workers, &["--shape", shape]);
        report["bytes_shuffled_per_iteration"].as_u64().unwrap()
    };
    assert_eq!(bytes(1, "static"), 0);
    let text = text_of(WIKI_VOTE);
    let edges = text.lines().filter(|line| !line.starts_with('#'));
    let ends = edges.map(|edge| edge.split_whitespace().map(|end| end.parse::<u64>().unwrap()));
    let leading = ends.map(|mut ends| (ends.next().unwrap(), ends.next().unwrap()));
    let home = |vertex: u64| worker_of(&vertex, 2);
    let crossing: HashSet<(u64, u64)> =
        leading.filter(|(from, to)| home(*from) != home(*to)).collect();
    let given: HashSet<u64> = crossing.iter().map(|(_, to)| *to).collect();
    // What another worker gives a vertex is combined before it is sent. Which vertex it is for is said once or with each value.
    for (shape, bytes_each) in
        [("static", VALUE_BYTES), ("indexed", 2 * VALUE_BYTES), ("keyed", 2 * VALUE_BYTES)]
    {
        let least = bytes_each * given.len() as u64;
        // Beside heads of segments, and a sum.
        let most = least + 1_000;
        let two = bytes(2, shape);
        assert!((least..=most).contains(&two), "{shape}: {two} is not within {least} to {most}");
    }
    // Naos's shapes: for each edge an object and a link to it, or for each vertex an entry in two arrays.
    for (shape, records, bytes_each) in [
        ("naos", crossing.len(), 2 * VALUE_BYTES + LINK_BYTES),
        ("naos-sparse", given.len(), 2 * VALUE_BYTES),
    ] {
        let least = bytes_each * records as u64;
        // Beside heads, and what is left of pages.
        let most = least + least / 10 + 2_000;
        let two = bytes(2, shape);
        assert!((least..=most).contains(&two), "{shape}: {two} is not within {least} to {most}");
    }
}

#[test]
fn variables_stand_in_for_flags() {
    let output = tempfile::NamedTempFile::new().unwrap();
    let variables = [
        ("WEFT_PAGERANK_INPUT", WIKI_VOTE),
        ("WEFT_PAGERANK_WORKERS", "3"),
        ("WEFT_PAGERANK_SKIP_BAD", "1"),
        ("WEFT_PAGERANK_ITERATIONS", "2"),
        ("WEFT_PAGERANK_DAMPING", "0"),
        ("WEFT_PAGERANK_HANG_TIMEOUT", "100"),
        ("WEFT_PAGERANK_LINK", "auto"),
        ("WEFT_PAGERANK_TOP", "4"),
        ("WEFT_PAGERANK_OUTPUT", output.path().to_str().unwrap()),
        ("WEFT_PAGERANK_JSON", "true"),
    ];
    let ended = Job::start_with(["pagerank"], variables).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["vertices"], VERTICES);
    assert_eq!((&report["workers"], &report["iterations"]), (&json!(3), &json!(2)));
    assert_eq!(report["top"].as_array().unwrap().len(), 4);
    let even = 1.0 / VERTICES as f64;
    let top = report["top"][0]["rank"].as_f64().unwrap();
    assert!((top - even).abs() < 1e-12, "nothing follows the edges: {top}");
    assert_eq!(std::fs::read_to_string(output.path()).unwrap().lines().count(), 7_115);

    // A flag goes before its variable, and a variable that is set to nothing counts as unset.
    let emptied = variables.map(|(name, value)| match name {
        "WEFT_PAGERANK_OUTPUT" | "WEFT_PAGERANK_DAMPING" | "WEFT_PAGERANK_JSON" => (name, ""),
        _ => (name, value),
    });
    let ended = Job::start_with(["pagerank", "--workers", "1", "--json"], emptied).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["workers"], 1);
    assert!(report["top"][0]["rank"].as_f64().unwrap() > 2.0 * even, "edges are followed");
}

#[test]
fn values_may_begin_with_a_dash() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("--dash"), "1 2\n2 1\n").unwrap();
    let arguments = ["pagerank", "--input=--dash", "--output=-o1", "--damping=-0.0"];
    let ended = Job::start_in(folder.path(), arguments).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let written = std::fs::read_to_string(folder.path().join("-o1")).unwrap();
    assert_eq!(written.lines().count(), 2);
}

#[test]
fn workers_do_not_read_the_variables_of_the_command() {
    let variables = [("WEFT_PAGERANK_JSON", "junk"), ("WEFT_PAGERANK_TOP", "junk")];
    let arguments = ["pagerank", "--input", WIKI_VOTE, "--iterations", "2", "--json", "--top", "3"];
    let ended = Job::start_with(arguments, variables).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn ranks_are_the_same_over_every_link() {
    let (_, over_tcp) = rank(Path::new(WIKI_VOTE), 3, &["--link", "tcp"]);
    for link in ["shm", "auto"] {
        let (_, ranks) = rank(Path::new(WIKI_VOTE), 3, &["--link", link]);
        assert_equal(&ranks, &over_tcp, 1e-12, link);
    }
}

#[test]
fn people_get_a_table() {
    let ended = run(["pagerank", "--input", WIKI_VOTE, "--iterations", "20", "--top", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("7115 vertices, 103689 edges"), "{}", ended.stdout);
    let last: Vec<&str> = ended.stdout.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(last, ["4037", "0.0046071735"]);
}
