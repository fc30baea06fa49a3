//! `shuffle generate`: the same input for the same seed, whole or not there.

use std::path::Path;

use serde_json::{Value, json};

use crate::job::run;

/// What standard output got.
fn printed(arguments: &[&str]) -> String {
    let ended = run(["generate"].iter().chain(arguments));
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

#[test]
fn an_input_is_the_same_with_any_number_of_threads_and_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["rmat", "--vertices", "5000", "--edges", "300000"][..],
        &["zipf-words", "--bytes", "3MB", "--words", "1000", "--exponent", "1.2"],
    ] {
        let one = printed(&[arguments, &["--threads", "1"]].concat());
        assert!(one == printed(&[arguments, &["--threads", "3"]].concat()), "{arguments:?}");
        assert!(one != printed(&[arguments, &["--seed", "2"]].concat()), "{arguments:?}");
        let path = folder.path().join(arguments[0]);
        let printed = printed(&[arguments, &["--output", path.to_str().unwrap()]].concat());
        assert!(printed.is_empty() && std::fs::read_to_string(&path).unwrap() == one);
    }
    let path = folder.path().join("records");
    printed(&["terasort", "--records", "20001", "--output", path.to_str().unwrap()]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 2_000_100);
    assert_eq!(names(folder.path()), ["records", "rmat", "zipf-words"]);
}

#[test]
fn a_graph_that_was_made_can_be_ranked() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("graph");
    let graph = graph.to_str().unwrap();
    printed(&["rmat", "--vertices", "300", "--edges", "2000", "--output", graph]);
    let ranked = run(["pagerank", "--input", graph, "--top", "1"].iter());
    assert_eq!(ranked.code, Some(0), "{}", ranked.stderr);
}

/// What jobs make of a graph is the same, in whichever form it is written.
#[test]
fn a_graph_in_binary_is_the_same_graph() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (text, binary) = (path("text"), path("binary"));
    let graph = ["rmat", "--vertices", "3000", "--edges", "100000", "--output"];
    printed(&[&graph[..], &[&text]].concat());
    printed(&[&graph[..], &[&binary, "--format", "binary"]].concat());
    assert_eq!(std::fs::metadata(&binary).unwrap().len(), 24 + 100_000 * 8);
    let report = |job: &[&str], input: &str| -> Value {
        let ended = run(job.iter().copied().chain(["--json", "--workers", "3", "--input", input]));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let components = |input: &str| {
        let report = report(&["components"], input);
        (report["vertices"].clone(), report["components"].clone(), report["top"].clone())
    };
    assert_eq!(components(&binary), components(&text));
    let ranked = ["pagerank", "--iterations", "3", "--top", "5"];
    let (of_binary, of_text) = (report(&ranked, &binary), report(&ranked, &text));
    assert_eq!((&of_binary["edges"], &of_binary["lines_skipped"]), (&of_text["edges"], &json!(0)));
    let top = |report: &Value| -> Vec<Value> {
        report["top"].as_array().unwrap().iter().map(|rank| rank["vertex"].clone()).collect()
    };
    assert_eq!(top(&of_binary), top(&of_text));
    let joined = |left: &str, output: &str| {
        let output = path(output);
        let sides = ["join", "--json", "--left", left, "--right", &text, "--output", &output];
        let ended = run(sides);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str::<Value>(&ended.stdout).unwrap()["joined"].clone()
    };
    assert_eq!(joined(&binary, "of binary"), joined(&text, "of text"));
}

#[test]
fn a_binary_graph_without_edges_has_a_header_and_one_that_is_cut_off_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("graph");
    let path = graph.to_str().unwrap();
    printed(&["rmat", "--edges", "0", "--format", "binary", "--output", path]);
    assert_eq!(std::fs::metadata(&graph).unwrap().len(), 24);
    let refused = |says: &str| {
        let ended = run(["pagerank", "--skip-bad", "9", "--input", path]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let is_said = ended.stderr.contains(path) && ended.stderr.contains(says);
        assert!(is_said && !ended.stderr.contains("--skip-bad"), "{}", ended.stderr);
    };
    refused("has no edges");
    std::fs::OpenOptions::new().write(true).open(&graph).unwrap().set_len(23).unwrap();
    refused("from byte 23 on: 1 bytes are missing");
}

#[test]
fn a_file_that_is_there_is_kept_and_what_cannot_be_written_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    std::fs::write(&path, "mine").unwrap();
    let refused = |path: &Path| {
        let path = path.to_str().unwrap();
        let ended = run(["generate", "rmat", "--edges", "10", "--output", path].iter());
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.starts_with("shuffle: ") && ended.stderr.contains(path));
    };
    refused(&path);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    refused(&folder.path().join("no/such/folder"));
    assert_eq!(names(folder.path()), ["kept"]);
}

#[test]
fn numbers_out_of_range_are_wrong_usage() {
    for (arguments, says) in [
        (&["rmat", "--vertices", "0"][..], "--vertices"),
        (&["rmat", "--vertices", "4294967295"], "--vertices"),
        (&["terasort"], "--records"),
        (&["zipf-words", "--bytes", "much"], "such as 1GB"),
        (&["zipf-words", "--bytes", "1MB", "--words", "0"], "--words"),
        (&["zipf-words", "--bytes", "1MB", "--exponent=-1"], "--exponent"),
        (&["zipf-words", "--bytes", "1MB", "--exponent=NaN"], "not a number from 0 to 10"),
        (&["rmat", "--threads", "0"], "--threads"),
        (&["rmat", "--format", "csv"], "not text or binary"),
    ] {
        let ended = run(["generate"].iter().chain(arguments));
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
