//! Words are counted as a plain program counts them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::death::{kill, workers_with};
use crate::job::{Ended, Job, run, wait_for};

/// A folder with a text.
struct Text {
    folder: tempfile::TempDir,
}

impl Text {
    fn of(bytes: impl AsRef<[u8]>) -> Text {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("text"), bytes).unwrap();
        Text { folder }
    }

    fn input(&self) -> PathBuf {
        self.folder.path().join("text")
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("counts")
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let (input, output) = (self.input(), self.output());
        let paths = ["--input", input.to_str().unwrap(), "--output", output.to_str().unwrap()];
        ["wordcount"].iter().chain(&paths).chain(more).map(|word| (*word).to_owned()).collect()
    }

    /// What is reported of a job that ends well.
    fn count(&self, more: &[&str]) -> Value {
        let ended = run(self.arguments(&[more, &["--json"]].concat()));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// What was written, each word once; removes it.
    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for file in std::fs::read_dir(self.output()).unwrap() {
            for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
                let (word, count) = line.split_once('\t').unwrap();
                let before = counts.insert(word.to_owned(), count.parse().unwrap());
                assert_eq!(before, None, "{word} is there once");
            }
        }
        std::fs::remove_dir_all(self.output()).unwrap();
        counts
    }

    /// The same by a plain program.
    fn expected(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for word in std::fs::read_to_string(self.input()).unwrap().split_whitespace() {
            *counts.entry(word.to_owned()).or_insert(0) += 1;
        }
        counts
    }

    /// The job failed, said why, and left nothing.
    fn assert_nothing_is_left(&self, ended: &Ended, words: &[&str]) {
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "it is said once: {}", ended.stderr);
        for word in words {
            assert!(ended.stderr.contains(word), "no {word:?} in {:?}", ended.stderr);
        }
        let left = std::fs::read_dir(self.folder.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "text"), "{left:?}");
    }
}

/// Several chunks of words: some frequent, some there once, long ones, and such as are not ASCII; white space of all kinds between.
fn text() -> String {
    let mut text = String::new();
    for number in 0..150_000_u64 {
        let blank = [" ", "\t", "  ", "\u{a0}", "\u{2003}", "\u{b}"][number as usize % 6];
        let end = ["", "\n", "\r\n", "\n\n"][number as usize % 7 % 4];
        write!(
            text,
            "{}{blank}größe{}{blank}{}{end}",
            number % 100,
            number % 7_000,
            number * number
        )
        .unwrap();
        if number % 5_000 == 0 {
            write!(text, "\n{}\n", "long".repeat(number as usize % 999)).unwrap();
        }
    }
    text
}

fn top(of: &BTreeMap<String, u64>, len: usize) -> Value {
    let mut words: Vec<_> = of.iter().collect();
    words.sort_by_key(|(word, count)| (std::cmp::Reverse(**count), *word));
    let top = words.into_iter().take(len);
    top.map(|(word, count)| json!({"word": word, "count": count})).collect()
}

#[test]
fn words_are_counted_as_a_plain_program_does_with_any_number_of_workers() {
    let text = Text::of(text());
    let expected = text.expected();
    let words: u64 = expected.values().sum();
    for workers in ["1", "2", "3", "5"] {
        let report = text.count(&["--workers", workers, "--top", "50"]);
        assert_eq!(report["workers"].to_string(), workers);
        let said = (&report["words"], &report["distinct"], &report["lines_skipped"]);
        assert_eq!(said, (&json!(words), &json!(expected.len()), &json!(0)));
        assert_eq!(report["bytes_spilled"], 0);
        assert_eq!(report["top"], top(&expected, 50), "{workers}");
        assert!(text.counts() == expected, "{workers}");
    }
}

#[test]
fn words_that_memory_has_no_room_for_are_counted_too() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("text");
    let generate = ["generate", "zipf-words", "--words", "3000000", "--exponent", "0.1"];
    let more = ["--bytes", "10MB", "--output", input.to_str().unwrap()];
    assert_eq!(run(generate.iter().chain(&more)).code, Some(0));
    let text = Text { folder };
    let expected = text.expected();
    let report = text.count(&["--workers", "1", "--memory", "56MiB", "--top", "3"]);
    assert!(report["bytes_spilled"].as_u64().unwrap() > 3_000_000, "{report}");
    let peak = report["peak_memory_bytes"].as_u64().unwrap();
    assert!((16 << 20..(56 << 20) * 105 / 100).contains(&peak), "{peak} of 56 MiB");
    assert_eq!(report["top"], top(&expected, 3));
    assert!(text.counts() == expected);
}

#[test]
fn an_empty_text_has_no_words() {
    let text = Text::of("\n \n");
    let report = text.count(&[]);
    assert_eq!((&report["words"], &report["distinct"]), (&json!(0), &json!(0)));
    assert_eq!(report["top"], json!([]));
    assert_eq!(text.counts(), BTreeMap::new());
}

#[test]
fn what_is_printed_names_the_most_frequent_words() {
    let text = Text::of("b a b\nc\u{1b}[31m c a b");
    let input = text.input();
    let ended = run(["wordcount", "--input", input.to_str().unwrap(), "--top", "3"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let printed: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(printed[0].split(", by").next(), Some("7 words, 4 of them distinct"));
    let top = ["                   3  b", "                   2  a", "                   1  c"];
    assert_eq!(printed[printed.len() - 3..], top);
    let all = run(["wordcount", "--input", input.to_str().unwrap()]);
    assert!(all.stdout.contains("c\\u{1b}[31m\n"), "a terminal is told nothing: {}", all.stdout);
}

#[test]
fn a_line_that_is_no_text_is_named_or_skipped() {
    let text = Text::of(b"one two\none \xff\none\n");
    let ended = run(text.arguments(&[]));
    text.assert_nothing_is_left(&ended, &["line 2 of ", "UTF-8", "one \\xff", "--skip-bad"]);
    let report = text.count(&["--skip-bad", "1"]);
    assert_eq!((&report["lines_skipped"], &report["words"]), (&json!(1), &json!(3)));
}

#[test]
fn what_cannot_be_counted_is_said_and_leaves_nothing() {
    let text = Text::of("one");
    let nowhere = ["--spill-dir", "/no/such/folder"];
    text.assert_nothing_is_left(
        &run(text.arguments(&nowhere)),
        &["/no/such/folder", "--spill-dir"],
    );
    let little = run(text.arguments(&["--memory", "20MiB"]));
    assert_eq!(little.code, Some(2));
    assert!(little.stderr.contains("each of 2 workers needs 64MiB"), "{}", little.stderr);
    std::fs::create_dir(text.output()).unwrap();
    let there = run(text.arguments(&[]));
    assert_eq!(there.code, Some(1));
    assert!(there.stderr.contains("counts is there already"), "{}", there.stderr);
    std::fs::remove_dir(text.output()).unwrap();
    std::fs::remove_file(text.input()).unwrap();
    text.assert_nothing_is_left(&run(text.arguments(&[])), &["cannot open", "check the path"]);
}

#[test]
fn a_killed_worker_ends_the_job_and_nothing_is_left() {
    let text = Text::of(text().repeat(20));
    let job = Job::start(text.arguments(&["--max-attempts", "1"]));
    let workers = wait_for("the workers", || {
        let workers = workers_with(Path::new(text.folder.path()));
        (workers.len() == 2).then_some(workers)
    });
    kill(workers[1].id);
    text.assert_nothing_is_left(&job.end(), &["worker"]);
}
