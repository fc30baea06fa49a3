//! What cannot be done is said once, on standard error, and by the exit code.

use std::path::Path;

use crate::job::{WIKI_VOTE, run};

const FAILED: i32 = 1;
const USAGE: i32 = 2;

/// Runs `shuffle pagerank` with `arguments`, which has to be refused by a message with all of `words`.
fn check(arguments: &[&str], code: i32, words: &[&str]) {
    let ended = run(["pagerank"].iter().chain(arguments));
    assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
    assert_eq!(ended.stdout, "", "{arguments:?}");
    for word in words {
        assert!(ended.stderr.contains(word), "{arguments:?}: no {word:?} in {:?}", ended.stderr);
    }
    if code == FAILED {
        assert!(ended.stderr.starts_with("shuffle: "), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "it is said once: {}", ended.stderr);
    }
}

/// A file of `text` in `folder`.
fn file(folder: &Path, text: &str) -> String {
    let path = folder.join("graph");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn numbers_out_of_range_are_wrong_usage() {
    for (flag, value) in [
        ("--workers", "0"),
        ("--workers", "x"),
        ("--workers", "-1"),
        ("--workers", "65"),
        ("--iterations", "0"),
        ("--iterations", "1.5"),
        ("--shape", "round"),
        ("--shape", ""),
        ("--damping", "2"),
        ("--damping", "NaN"),
        ("--damping", "half"),
        ("--top", "many"),
        ("--skip-bad", "-1"),
        ("--skip-bad", "all"),
    ] {
        check(&["--input", WIKI_VOTE, &format!("{flag}={value}")], USAGE, &[flag, value]);
    }
    check(&[], USAGE, &["--input"]);
    check(&["--input", WIKI_VOTE, "--colour"], USAGE, &["--colour"]);
}

#[test]
fn an_input_that_is_no_file_is_named() {
    check(&["--input", "no/such/graph"], FAILED, &["no/such/graph", "check the path"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    check(&["--input", path], FAILED, &[path, "is a directory"]);
}

#[test]
fn a_graph_without_edges_has_no_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["", "\n\n", "# only\n# comments\n"] {
        for workers in ["1", "2"] {
            let path = file(folder.path(), text);
            check(&["--input", &path, "--workers", workers], FAILED, &[&path, "has no edges"]);
        }
    }
}

#[test]
fn a_malformed_line_is_named_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    for workers in ["1", "2", "3"] {
        let path = file(folder.path(), "# From To\n1 2\n2 3\n3,4\n4 5\n");
        let words = [&path, "line 4 of", "is no edge", "3,4"];
        check(&["--input", &path, "--workers", workers], FAILED, &words);
    }
}

#[test]
fn damage_to_a_compressed_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.zst");
    let whole = std::fs::read(WIKI_VOTE).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let path = path.to_str().unwrap();
    check(&["--input", path, "--workers", "2"], FAILED, &[path, "cannot read"]);
}

#[test]
fn an_output_that_is_the_input_is_wrong_usage_and_leaves_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = "1 2\n2 3\n";
    let path = file(folder.path(), text);
    let [hard, soft] = ["hard", "soft"].map(|name| folder.path().join(name));
    std::fs::hard_link(&path, &hard).unwrap();
    std::os::unix::fs::symlink(&path, &soft).unwrap();
    let dotted = format!("{}/./graph", folder.path().display());
    for output in [&path, &dotted, hard.to_str().unwrap(), soft.to_str().unwrap()] {
        let words = ["--output", output, "is the same file as --input", &path];
        check(&["--input", &path, "--output", output], USAGE, &words);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_descriptor_of_the_command_is_no_file_of_its_workers() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/stdout", &link).unwrap();
    for path in [
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/fd/1",
        "/dev/../dev/fd/./0",
        "/proc/self/fd/1",
        "/proc/thread-self/fd/1",
        link.to_str().unwrap(),
    ] {
        let words = [path, "is a descriptor of this process"];
        check(&["--input", path], USAGE, &words);
        check(&["--input", WIKI_VOTE, "--output", path], USAGE, &words);
    }
}

#[test]
fn a_link_that_there_is_not_is_wrong_usage() {
    for link in ["rdma", "verbs"] {
        check(&["--input", WIKI_VOTE, "--link", link], USAGE, &["--link", "auto, tcp or shm"]);
    }
}

#[test]
fn an_output_that_cannot_be_written_is_named_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let inside = format!("{path}/no/such/folder/ranks");
    for output in [path, &inside] {
        check(&["--input", WIKI_VOTE, "--output", output], FAILED, &["cannot write", output]);
    }
    let no_folder = format!("{path}/absent/");
    check(&["--input", WIKI_VOTE, "--output", &no_folder], FAILED, &["cannot write", &no_folder]);
    let (absent, part) = (format!("{path}/ranks"), format!("{path}/ranks.part"));
    std::fs::write(&part, "somebody's").unwrap();
    let words = ["cannot write", &absent, &part, "another job is writing there"];
    check(&["--input", WIKI_VOTE, "--output", &absent], FAILED, &words);
    assert_eq!(std::fs::read_to_string(&part).unwrap(), "somebody's");
    check(&["--input", WIKI_VOTE, "--output", "/dev/full"], FAILED, &["cannot write", "/dev/full"]);
}
