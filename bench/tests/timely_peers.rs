//! A fast wrong answer is no figure: the programs for Timely find what plain ones do, and so does the one whose messages are encoded.

#![expect(clippy::disallowed_methods, reason = "the tests start the programs on files they make")]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should panic")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::NamedTempFile;
use weft_shuffle::generate::{Generator, Rmat, ZipfWords};

const WORD_COUNT: &str = env!("CARGO_BIN_EXE_timely_wordcount");
const PAGERANK: &str = env!("CARGO_BIN_EXE_timely_pagerank");
const ENCODED_PAGERANK: &str = env!("CARGO_BIN_EXE_encoded_pagerank");
const CSR_PAGERANK: &str = env!("CARGO_BIN_EXE_csr_pagerank");

const WAYS: [(&str, &[&str]); 6] = [
    ("1", &[]),
    ("1", &["--combine"]),
    ("2", &[]),
    ("2", &["--combine"]),
    ("3", &[]),
    ("3", &["--combine"]),
];

#[test]
fn words_are_counted_as_a_plain_count_has_them() {
    let text = made(&Generator::ZipfWords(ZipfWords::new(4_000_000, 5_000, 1.0, 1)));
    let mut plain: HashMap<&str, u64> = HashMap::new();
    for word in text.split_ascii_whitespace() {
        *plain.entry(word).or_default() += 1;
    }
    let file = file_of(&text);
    for (workers, flags) in WAYS {
        let mut run = Command::new(WORD_COUNT);
        run.args(["--workers", workers, "--top", "10000", "--input"]).arg(file.path()).args(flags);
        let found = printed(run.output().unwrap());
        let top = found["top"].as_array().unwrap();
        let counts: HashMap<&str, u64> = top
            .iter()
            .map(|entry| (entry["word"].as_str().unwrap(), entry["count"].as_u64().unwrap()))
            .collect();
        assert_eq!(counts, plain, "{workers} workers, {flags:?}");
        assert_eq!(found["words"], plain.values().sum::<u64>());
        assert_eq!(found["distinct"], plain.len());
        assert_eq!(found["bytes"], text.len());
        let sum = plain.iter().map(|(word, n)| u64::from(crc32fast::hash(word.as_bytes())) * n);
        assert_eq!(found["checksum"], sum.fold(0, u64::wrapping_add));
    }
}

#[test]
fn lines_and_words_lie_anywhere() {
    // Of three parts, the second begins within the long line, and the third has none.
    let text = format!("  one\ttwo\r\n\n{} two", "three ".repeat(1000));
    let file = file_of(&text);
    for (workers, flags) in WAYS {
        let mut run = Command::new(WORD_COUNT);
        run.args(["--workers", workers, "--input"]).arg(file.path()).args(flags);
        let found = printed(run.output().unwrap());
        let expected = serde_json::json!([
            {"word": "three", "count": 1000}, {"word": "two", "count": 2}, {"word": "one", "count": 1},
        ]);
        assert_eq!(found["top"], expected, "{workers} workers, {flags:?}");
    }
}

#[test]
fn ranks_are_those_of_a_plain_program() {
    // It has loops, parallel edges, vertices that lead nowhere and some to which nothing leads.
    let text = made(&Generator::Rmat(Rmat::new(1 << 10, 1 << 12, 1)));
    let file = file_of(&text);
    let plain = plain_ranks(&text, 20);
    let mut csr = Command::new(CSR_PAGERANK);
    let csr = printed(csr.arg("--input").arg(file.path()).output().unwrap());
    for (workers, flags) in WAYS {
        let mut run = Command::new(PAGERANK);
        run.args(["--workers", workers, "--top", "2000", "--input"]).arg(file.path()).args(flags);
        let found = printed(run.output().unwrap());
        let top = found["top"].as_array().unwrap();
        assert_eq!(top.len(), plain.len(), "{workers} workers, {flags:?}");
        for entry in top {
            let expected = plain[&entry["vertex"].as_u64().unwrap()];
            let apart = (entry["rank"].as_f64().unwrap() - expected).abs() / expected;
            assert!(apart < 1e-9, "{workers} workers, {flags:?}: {entry}, expected {expected}");
        }
        for what in ["vertices", "edges"] {
            assert_eq!(found[what], csr[what]);
        }
        assert_eq!(top[0]["vertex"], csr["top"]["vertex"]);
        let apart = top[0]["rank"].as_f64().unwrap() / csr["top"]["rank"].as_f64().unwrap() - 1.0;
        assert!(apart.abs() < 1e-9, "{}, and by csr_pagerank {}", top[0], csr["top"]);
        assert_eq!(found["seconds"].as_array().unwrap().len(), 20);
    }
}

#[test]
fn ranks_are_the_same_however_messages_are_encoded() {
    let text = made(&Generator::Rmat(Rmat::new(1 << 12, 1 << 16, 1)));
    let file = file_of(&text);
    let plain = plain_ranks(&text, 20);
    for format in ["bitcode", "rkyv"] {
        for message in ["objects", "values", "arrays"] {
            for workers in ["1", "2", "3"] {
                let what = ["--format", format, "--message", message, "--workers", workers];
                let mut run = Command::new(ENCODED_PAGERANK);
                run.args(["--top", "10000", "--input"]).arg(file.path()).args(what);
                let found = printed(run.output().unwrap());
                let top = found["top"].as_array().unwrap();
                assert_eq!(top.len(), plain.len(), "{what:?}");
                for entry in top {
                    let expected = plain[&entry["vertex"].as_u64().unwrap()];
                    let apart = (entry["rank"].as_f64().unwrap() - expected).abs() / expected;
                    assert!(apart < 1e-9, "{what:?}: {entry}, expected {expected}");
                }
            }
        }
    }
}

#[test]
fn what_a_worker_fails_with_is_told_and_ends_all() {
    let malformed = file_of(&format!("{}1 x\n", "1 2\n".repeat(1 << 19)));
    let long_word = file_of(&format!("a b\n{}", "c".repeat(3 << 20)));
    for (program, input, expected) in [
        (WORD_COUNT, "/nowhere".as_ref(), "cannot open /nowhere"),
        (WORD_COUNT, long_word.path(), "byte 4 begins a word of more than 1048576 bytes"),
        (PAGERANK, malformed.path(), "line 524289"),
    ] {
        let mut run = Command::new(program);
        let output = run.args(["--workers", "3", "--input"]).arg(input).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

fn made(generator: &Generator) -> String {
    let mut text = Vec::new();
    for chunk in 0..generator.chunks() {
        generator.write_chunk(chunk, &mut text);
    }
    String::from_utf8(text).unwrap()
}

fn file_of(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn printed(output: Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The definition, vertex by vertex.
fn plain_ranks(edges: &str, iterations: usize) -> BTreeMap<u64, f64> {
    let mut targets: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for line in edges.lines() {
        let (from, to) = line.split_once(char::is_whitespace).unwrap();
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        targets.entry(from).or_default().insert(to);
        targets.entry(to).or_default();
    }
    let n = targets.len() as f64;
    let mut ranks: BTreeMap<u64, f64> = targets.keys().map(|vertex| (*vertex, 1.0 / n)).collect();
    for _ in 0..iterations {
        let mut given: BTreeMap<u64, f64> = targets.keys().map(|vertex| (*vertex, 0.0)).collect();
        let mut dangling = 0.0;
        for (vertex, targets) in &targets {
            if targets.is_empty() {
                dangling += ranks[vertex];
            }
            for to in targets {
                *given.get_mut(to).unwrap() += ranks[vertex] / targets.len() as f64;
            }
        }
        let to_all = (1.0 - 0.85 + 0.85 * dangling) / n;
        ranks = given.into_iter().map(|(vertex, sum)| (vertex, to_all + 0.85 * sum)).collect();
    }
    ranks
}
