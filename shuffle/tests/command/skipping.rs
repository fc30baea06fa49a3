//! Malformed lines of an input, as many as a job is told to skip.

use std::path::{Path, PathBuf};

use crate::job::run;
use crate::ranks::{assert_equal, rank};

/// Lines of a graph large enough that each of three workers has some of them.
const LINES: usize = 400_000;

/// A graph in `folder`, in which the lines `malformed`, counted from 1, are none of a graph.
fn graph(folder: &Path, malformed: &[usize]) -> PathBuf {
    let path = folder.join("graph");
    let line = |number| match malformed.contains(&number) {
        true => "no edge\n".to_owned(),
        false => format!("{} {}\n", number % 100, number % 997),
    };
    std::fs::write(&path, (1..=LINES).map(line).collect::<String>()).unwrap();
    path
}

/// One malformed line at the beginning, in the middle and at the end: those of several workers.
const MALFORMED: [usize; 3] = [2, LINES / 2, LINES];

#[test]
fn skipped_lines_are_counted_over_all_workers_and_change_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let whole = graph(folder.path(), &[]);
    let (report, expected) = rank(&whole, 2, &["--iterations", "3"]);
    assert_eq!(report["lines_skipped"], 0);
    let path = graph(folder.path(), &MALFORMED);
    for (workers, limit) in [(1, "3"), (2, "3"), (3, "1000")] {
        let (report, ranks) = rank(&path, workers, &["--iterations", "3", "--skip-bad", limit]);
        assert_eq!(report["lines_skipped"], 3);
        assert_equal(&ranks, &expected, 1e-9, "skipped lines have edges that others have too");
    }
    let input = path.to_str().unwrap();
    let ended = run(["pagerank", "--input", input, "--iterations", "1", "--skip-bad", "3"]);
    assert!(ended.stdout.contains("skipped           3 malformed lines\n"), "{}", ended.stdout);
}

#[test]
fn more_malformed_lines_than_may_be_skipped_end_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let path = graph(folder.path(), &MALFORMED);
    let input = path.to_str().unwrap();
    let check = |workers, limit, words: &[&str]| {
        let ended = run([
            "pagerank",
            "--input",
            input,
            "--workers",
            workers,
            "--skip-bad",
            limit,
            "--json",
        ]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        for word in words.iter().chain(&[input, "; --skip-bad N skips up to N malformed lines\n"]) {
            assert!(ended.stderr.contains(word), "no {word:?} in {}", ended.stderr);
        }
        assert_eq!(ended.stderr.lines().count(), 1, "it is said once: {}", ended.stderr);
    };
    check("1", "0", &["line 2 of", "is no edge", "it reads \"no edge\";"]);
    check("1", "1", &["line 200000 of", "; 1 malformed line before it was skipped;"]);
    check("1", "2", &["line 400000 of", "; 2 malformed lines before it were skipped;"]);
    // No worker has more than it may skip, and all together have.
    check("3", "2", &["has 3 malformed lines, where 2 may be skipped"]);
}

#[test]
fn what_is_no_malformed_line_is_never_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    let header = "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n";
    for (content, words) in
        [(header.as_bytes(), "begins a Matrix Market file"), (b"\x1f\x8bwords", "cannot read")]
    {
        std::fs::write(&path, content).unwrap();
        let input = path.to_str().unwrap();
        let ended = run(["pagerank", "--input", input, "--skip-bad", "1000"]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        assert!(!ended.stderr.contains("--skip-bad"), "{}", ended.stderr);
    }
}
