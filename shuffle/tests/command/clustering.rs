//! Centres are those that a plain program finds.

use std::fmt::Write as _;

use serde_json::{Value, json};
use weft_shuffle::job::kmeans::KMeans;

use crate::job::{Ended, run};

const DIMENSIONS: usize = 3;

/// Points around a few places, in an order that has nothing to do with these.
fn points(count: usize) -> Vec<[f64; DIMENSIONS]> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f64 / (1_u64 << 24) as f64
    };
    (0..count)
        .map(|at| {
            [0, 1, 2].map(|dimension| f64::from((at % 6 * (dimension + 3) % 7) as u32) + next())
        })
        .collect()
}

fn text_of(points: &[[f64; DIMENSIONS]]) -> String {
    let mut text = "# x, y, z\n".to_owned();
    points.iter().for_each(|[x, y, z]| writeln!(text, "{x},{y}, {z}").unwrap());
    text
}

fn cluster(text: &str, more: &[&str]) -> Ended {
    let input = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input.path(), text).unwrap();
    let arguments = ["kmeans", "--json", "--input", input.path().to_str().unwrap()];
    run(arguments.iter().chain(more))
}

fn distance(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum()
}

/// Lloyd's method by a plain loop: the centres, how many points each has, and after how many rounds none moves.
fn expected(method: KMeans, points: &[[f64; DIMENSIONS]]) -> (Vec<Vec<f64>>, Vec<u64>, usize) {
    let mut by_priority = points.to_vec();
    by_priority.sort_by_key(|point| method.priority(point));
    let mut centres: Vec<Vec<f64>> =
        by_priority.iter().take(method.clusters).map(|point| point.to_vec()).collect();
    for round in 1..=method.iterations {
        let mut sums = vec![([0.0; DIMENSIONS], 0_u64); centres.len()];
        for point in points {
            let distances = centres.iter().map(|centre| distance(point, centre));
            let (nearest, _) =
                distances.enumerate().min_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
            sums[nearest].0.iter_mut().zip(point).for_each(|(sum, number)| *sum += number);
            sums[nearest].1 += 1;
        }
        let moved: Vec<Vec<f64>> = sums
            .iter()
            .map(|(sums, count)| sums.iter().map(|sum| sum / *count as f64).collect())
            .collect();
        let is_settled =
            moved.iter().zip(&centres).all(|(one, other)| distance(one, other) < 1e-20);
        centres = moved;
        if is_settled {
            return (centres, sums.iter().map(|(_, count)| *count).collect(), round);
        }
    }
    panic!("they move for ever");
}

#[test]
fn centres_are_those_of_a_plain_loop_with_any_number_of_workers() {
    let points = points(20_000);
    let text = text_of(&points);
    for seed in [1, 2] {
        let method = KMeans { clusters: 6, iterations: 200, seed };
        let (centres, sizes, rounds) = expected(method, &points);
        for workers in ["1", "2", "3", "5"] {
            let seed = seed.to_string();
            let ended = cluster(
                &text,
                &["--clusters", "6", "--iterations", "200", "--seed", &seed, "--workers", workers],
            );
            assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
            let report: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!((&report["points"], &report["dimensions"]), (&json!(20_000), &json!(3)));
            assert_eq!(report["is_settled"], true);
            // Sums of another order may make the last round a round late.
            assert!(report["rounds"].as_u64().unwrap().abs_diff(rounds as u64) <= 1, "{report}");
            let found = report["clusters"].as_array().unwrap();
            let found_sizes: Vec<u64> =
                found.iter().map(|one| one["points"].as_u64().unwrap()).collect();
            assert_eq!(found_sizes, sizes);
            let mut cost = 0.0;
            for (found, centre) in found.iter().zip(&centres) {
                let found: Vec<f64> = serde_json::from_value(found["centre"].clone()).unwrap();
                assert!(distance(&found, centre) < 1e-18, "{found:?} {centre:?}");
            }
            for point in &points {
                cost +=
                    centres.iter().map(|centre| distance(point, centre)).fold(f64::MAX, f64::min);
            }
            assert!((report["cost"].as_f64().unwrap() / cost - 1.0).abs() < 1e-9, "{report}");
        }
    }
}

#[test]
fn rounds_are_bounded_and_the_output_has_the_centres() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("centres");
    let ended = cluster(
        &text_of(&points(1000)),
        &["--clusters", "5", "--iterations", "1", "--output", output.to_str().unwrap()],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["rounds"], &report["is_settled"]), (&json!(1), &json!(false)));
    let written = std::fs::read_to_string(&output).unwrap();
    let written: Vec<Vec<f64>> = written
        .lines()
        .map(|line| line.split(',').map(|number| number.parse().unwrap()).collect())
        .collect();
    let told: Vec<Vec<f64>> = report["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| serde_json::from_value(one["centre"].clone()).unwrap())
        .collect();
    assert_eq!(written, told);
}

#[test]
fn what_cannot_be_clustered_is_told() {
    for (text, more, words) in [
        ("1,2\n1,2\n1.0,2e0\n", &["--clusters", "2"][..], &["1 distinct places", "2 centres"][..]),
        ("", &["--clusters", "1"], &["0 distinct places"]),
        ("1e200,1\n3,4\n", &["--clusters", "1"], &["too far apart", "scale them"]),
        ("-1.5e308,0\n-1.6e308,0\n1,1\n", &["--clusters", "1"], &["too far apart"]),
        ("-0,1\n0,1\n", &["--clusters", "2"], &["1 distinct places"]),
        (
            "1,2\n3\n",
            &["--clusters", "1"],
            &[
                "line 2 of",
                "is no point: expected numbers",
                "2 as the first point has",
                "--skip-bad",
            ],
        ),
    ] {
        let ended = cluster(text, more);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        words.iter().for_each(|words| assert!(ended.stderr.contains(words), "{}", ended.stderr));
    }
    let ended = cluster("1,2\n3\n", &["--clusters", "1", "--skip-bad", "1"]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["points"], &report["lines_skipped"]), (&json!(1), &json!(1)));
}

/// A worker adds its points up in the same order wherever they lie, so sums are the same to the last bit. No chunk ends with a point.
#[test]
fn points_that_memory_has_no_room_for_are_clustered_too() {
    let digits = |point: u64| (0..63_u64).map(move |at| (point / 3 * (at + 7) + point) % 10);
    let mut text = String::new();
    for point in 0..80_000_u64 {
        let numbers: Vec<String> = digits(point).map(|digit| digit.to_string()).collect();
        text += &numbers.join(",");
        text += "\n";
    }
    let asked = ["--clusters", "4", "--iterations", "2", "--workers", "1"];
    let clustered = |more: &[&str]| {
        let ended = cluster(&text, &[&asked[..], more].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        serde_json::from_str::<Value>(&ended.stdout).unwrap()
    };
    let (in_memory, by_files) = (clustered(&[]), clustered(&["--memory", "56MiB"]));
    for member in ["points", "rounds", "cost", "clusters"] {
        assert_eq!(in_memory[member], by_files[member], "{member}");
    }
    assert_eq!(in_memory["bytes_spilled"], 0);
    assert!(by_files["bytes_spilled"].as_u64().unwrap() > 4 << 20, "{by_files}");
    let peak = by_files["peak_memory_bytes"].as_u64().unwrap();
    assert!(peak < (56 << 20) * 21 / 20, "{peak}");
}

#[test]
fn memory_for_points_is_looked_at_before_anything_is_done() {
    let little = cluster("1,2\n", &["--clusters", "1", "--memory", "20MiB"]);
    assert_eq!(little.code, Some(2));
    assert!(little.stderr.contains("--memory"), "{}", little.stderr);
    let nowhere = cluster("1,2\n", &["--clusters", "1", "--spill-dir", "/no/such/folder"]);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.stderr.contains("/no/such/folder"), "{}", nowhere.stderr);
}
