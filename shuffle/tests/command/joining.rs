//! Pairs are joined as a plain program joins them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::job::run;

type Pairs = Vec<(u64, u64)>;

/// What is reported, and what is written, in order.
fn join(left: &Pairs, right: &Pairs, more: &[&str]) -> (Value, Vec<(u64, u64, u64)>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    for (name, pairs) in [("left", left), ("right", right)] {
        let mut text = String::new();
        pairs.iter().for_each(|(key, value)| writeln!(text, "{key}\t{value}").unwrap());
        std::fs::write(path(name), text).unwrap();
    }
    let arguments = [
        "join",
        "--json",
        "--left",
        &path("left"),
        "--right",
        &path("right"),
        "--output",
        &path("joined"),
    ];
    let ended = run(arguments.iter().chain(more));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let mut found = Vec::new();
    for file in std::fs::read_dir(path("joined")).unwrap() {
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let numbers: Vec<u64> =
                line.split('\t').map(|number| number.parse().unwrap()).collect();
            found.push((numbers[0], numbers[1], numbers[2]));
        }
    }
    found.sort_unstable();
    (serde_json::from_str(&ended.stdout).unwrap(), found)
}

fn expected(left: &Pairs, right: &Pairs) -> Vec<(u64, u64, u64)> {
    let mut by_key: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    right.iter().for_each(|(key, value)| by_key.entry(*key).or_default().push(*value));
    let of = |(key, value): &(u64, u64)| {
        let (key, value) = (*key, *value);
        by_key
            .get(&key)
            .into_iter()
            .flatten()
            .map(move |other| (key, value, *other))
            .collect::<Vec<_>>()
    };
    let mut joined: Vec<_> = left.iter().flat_map(of).collect();
    joined.sort_unstable();
    joined
}

/// Keys of which one side, both or none has some, once or often.
fn sides() -> (Pairs, Pairs) {
    let left = (0..5000).map(|at| (at * 7 % 3000, at)).chain([(u64::MAX, 1), (9, 9)]).collect();
    let right = (0..4000)
        .map(|at| (at * 11 % 2500 + 1000, at * 3))
        .chain([(u64::MAX, 2), (u64::MAX, 2)])
        .collect();
    (left, right)
}

#[test]
fn pairs_are_joined_with_any_number_of_workers_and_whichever_side_is_small() {
    let (left, right) = sides();
    let expected = expected(&left, &right);
    for workers in ["1", "2", "3", "5"] {
        for more in [&[][..], &["--small-right"]] {
            let (report, found) = join(&left, &right, &[&["--workers", workers], more].concat());
            assert!(found == expected, "{workers} {more:?}");
            assert_eq!(
                (&report["left"], &report["right"]),
                (&json!(left.len()), &json!(right.len()))
            );
            assert_eq!(report["joined"], expected.len());
            let parts = report["joined_by_worker"].as_array().unwrap();
            assert_eq!(
                parts.iter().map(|part| part.as_u64().unwrap()).sum::<u64>(),
                expected.len() as u64
            );
        }
    }
}

#[test]
fn an_empty_side_joins_with_nothing() {
    let (left, right) = sides();
    for (left, right) in [(&left, &Vec::new()), (&Vec::new(), &right), (&Vec::new(), &Vec::new())] {
        for more in [&[][..], &["--small-right"]] {
            assert_eq!(join(left, right, more).1, []);
        }
    }
}

/// Each job writes the same with tabs between and as objects.
#[test]
fn outputs_can_be_lines_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    std::fs::write(path("edges"), "1 2\n2 3\n18446744073709551615 7\n1 7\n").unwrap();
    std::fs::write(path("text"), "a \"b\" a größe\n").unwrap();
    let lines = |output: &str| -> Vec<String> {
        let written = std::path::PathBuf::from(output);
        let files: Vec<_> = match written.is_dir() {
            true => std::fs::read_dir(written).unwrap().map(|file| file.unwrap().path()).collect(),
            false => vec![written],
        };
        let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
        let mut lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        lines.sort();
        lines
    };
    let (edges, text) = (path("edges"), path("text"));
    for (job, members) in [
        (&["components", "--input", &edges][..], &["vertex", "component"][..]),
        (&["join", "--left", &edges, "--right", &edges], &["key", "left", "right"]),
        (&["pagerank", "--input", &edges], &["vertex", "rank"]),
        (&["wordcount", "--input", &text], &["word", "count"]),
    ] {
        let write = |more: &[&str], name: &str| {
            let output = path(&format!("{}-{name}", job[0]));
            let ended = run(job.iter().chain(&["--output", &output]).chain(more));
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            lines(&output)
        };
        let tsv = write(&[], "default");
        if job[0] != "pagerank" {
            assert_eq!(tsv, write(&["--format", "tsv"], "tsv"));
        }
        let mut from_json = Vec::new();
        for line in write(&["--format", "json"], "json") {
            let object: serde_json::Map<String, Value> = serde_json::from_str(&line).unwrap();
            assert_eq!(object.len(), members.len(), "{line}");
            let value = |member: &&str| match &object[*member] {
                Value::String(text) => text.clone(),
                Value::Number(number) if *member == "rank" => {
                    format!("{:.12}", number.as_f64().unwrap())
                }
                number => number.to_string(),
            };
            from_json.push(members.iter().map(value).collect::<Vec<_>>().join("\t"));
        }
        let mut expected: Vec<String> = match job[0] {
            "pagerank" => tsv
                .iter()
                .map(|line| {
                    let (vertex, rank) = line.split_once('\t').unwrap();
                    format!("{vertex}\t{:.12}", rank.parse::<f64>().unwrap())
                })
                .collect(),
            _ => tsv,
        };
        from_json.sort();
        expected.sort();
        assert_eq!(from_json, expected, "{job:?}");
    }
    let wrong = run(["wordcount", "--input", &text, "--format", "csv"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("not tsv or json"), "{}", wrong.stderr);
}
