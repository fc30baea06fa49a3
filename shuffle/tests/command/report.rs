//! What the command says of a job.

use std::collections::HashSet;
use std::path::Path;

use crate::job::{WIKI_VOTE, run};
use crate::ranks::{rank, text_of};

const VERTICES: u64 = 7_115;
const EDGES: u64 = 103_689;

/// A record that goes to another worker: a vertex and what it is given.
const RECORD_BYTES: u64 = 16;

#[test]
fn the_object_has_what_scripts_rely_on() {
    for workers in [1, 2, 3] {
        let (report, _) = rank(Path::new(WIKI_VOTE), workers, &["--iterations", "5"]);
        let members: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = vec![
            "vertices",
            "edges",
            "iterations",
            "workers",
            "load_seconds",
            "seconds_per_iteration",
            "seconds_per_iteration_p5",
            "seconds_per_iteration_p95",
            "bytes_shuffled_per_iteration",
            "edges_by_worker",
            "top",
        ];
        expected.sort_unstable();
        assert_eq!(members, expected);
        assert_eq!(report["vertices"], VERTICES);
        assert_eq!(report["edges"], EDGES);
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
    let bytes = |workers| {
        let (report, _) = rank(Path::new(WIKI_VOTE), workers, &[]);
        report["bytes_shuffled_per_iteration"].as_u64().unwrap()
    };
    assert_eq!(bytes(1), 0);
    let text = text_of(WIKI_VOTE);
    let edges = text.lines().filter(|line| !line.starts_with('#'));
    let reached: HashSet<&str> = edges.filter_map(|edge| edge.split_whitespace().nth(1)).collect();
    // What goes to a vertex is combined before it is sent: with two workers it is one record or none.
    let (least, most) = (RECORD_BYTES * reached.len() as u64 / 2, 2 * RECORD_BYTES * VERTICES);
    let two = bytes(2);
    assert!((least..=most).contains(&two), "{two} is not within {least} to {most}");
}

#[test]
fn people_get_a_table() {
    let ended = run(["pagerank", "--input", WIKI_VOTE, "--iterations", "20", "--top", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("7115 vertices, 103689 edges"), "{}", ended.stdout);
    let last: Vec<&str> = ended.stdout.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(last, ["4037", "0.0046071735"]);
}
