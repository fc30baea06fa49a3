//! `shuffle generate`: the same input for the same seed, whole or not there.

use std::path::Path;

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
