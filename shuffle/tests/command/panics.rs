//! A job that panics says where, and stops.
//!
//! No job that ships does: programs built for tests have a flag that makes one.

#![cfg(debug_assertions)]

use crate::accounts::Accounted;
use crate::death::workers_with;
use crate::job::Job;

#[test]
fn a_panic_is_told_with_worker_partition_stage_and_place_and_not_tried_again() {
    let job = Accounted::new();
    // The word is in the second chunk, which is of worker 1, and much comes after it, which nobody waits for.
    let mut text = "some words of no interest\n".repeat(50_000);
    text += "fault\n";
    text += &"some words of no interest\n".repeat(400_000);
    let input = job.file("text", &text);
    let (output, report) = (job.path("counts"), job.path("account"));
    let arguments = ["wordcount", "--input", &input, "--workers", "3", "--panic-on", "fault"];
    let arguments = arguments.into_iter().chain(["--output", &output, "--report", &report]);
    // With a backtrace, there is more on standard error.
    let ended = Job::start_with(arguments, [("RUST_BACKTRACE", "0")]).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "it is said once: {}", ended.stderr);
    let begin =
        "shuffle: worker 1: a panic in stage 0 (reduce_by_key), on partition 1: what is fault? at ";
    assert!(ended.stderr.starts_with(begin), "{}", ended.stderr);
    assert!(ended.stderr.contains("fault.rs:"), "{}", ended.stderr);
    assert!(workers_with(job.folder.path()).is_empty(), "the others were stopped");
    let account = job.account();
    assert_eq!(account["outcome"], "failed");
    let error = account["error"].as_str().unwrap();
    assert_eq!(ended.stderr, format!("shuffle: {error}\n"));
    let attempts = account["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "it would come again");
    assert_eq!(attempts[0]["end"], "failed");
    let failure = &attempts[0]["failure"];
    assert_eq!((&failure["worker"], &failure["partition"]), (&1.into(), &1.into()), "{failure}");
    assert_eq!((&failure["stage"], &failure["verb"]), (&0.into(), &"reduce_by_key".into()));
    let stage = &account["stages"][0];
    assert_eq!((&stage["verb"], &stage["end"]), (&"reduce_by_key".into(), &"failed".into()));
    let mut left: Vec<String> = std::fs::read_dir(job.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["account.html", "account.json", "text"]);
}
