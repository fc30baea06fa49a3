//! Many seeds, and each planted bug found within a stated number of them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Plan, Report, run};
use crate::coordinator::raft::planted::PlantedBug;

/// Seeds of the test that all builds run; `WEFT_RAFT_SEEDS` and `WEFT_RAFT_FIRST_SEED` ask for others.
const SEEDS: u64 = 600;

fn number(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test that is told how long to run")]
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn plan(seed: u64, bug: Option<PlantedBug>) -> Plan {
    Plan { seed, nodes: [3, 3, 5, 3, 1][(seed % 5) as usize], bug }
}

/// A panic of raft-rs is a violation like any other.
fn try_run(plan: Plan) -> Report {
    catch_unwind(AssertUnwindSafe(|| run(plan))).unwrap_or_else(|panic| {
        let told = panic.downcast_ref::<String>().cloned();
        let told = told.or_else(|| panic.downcast_ref::<&str>().map(|told| (*told).to_owned()));
        Report {
            violations: vec![format!("panicked: {}", told.unwrap_or_default())],
            ..Report::default()
        }
    })
}

#[test]
fn members_agree_whatever_breaks() {
    let first = number("WEFT_RAFT_FIRST_SEED").unwrap_or(0);
    let seeds = number("WEFT_RAFT_SEEDS").unwrap_or(SEEDS);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut bad = Vec::new();
    for seed in first..first + seeds {
        let report = try_run(plan(seed, None));
        for (what, count) in report.counts {
            *counts.entry(what).or_default() += count;
        }
        if !report.violations.is_empty() {
            bad.push((seed, report.violations));
        }
    }
    println!("{seeds} seeds: {counts:#?}");
    assert!(bad.is_empty(), "{} of {seeds} seeds: {:#?}", bad.len(), &bad[..bad.len().min(8)]);
    if seeds >= SEEDS {
        for what in HAPPENS {
            assert!(counts.contains_key(what), "`{what}` never happened");
        }
    }
}

/// What must have happened in that many seeds, or it was not tried.
const HAPPENS: &[&str] = &[
    "admitted",
    "crashed at a write",
    "cut a pair",
    "cut one way",
    "disk failed",
    "disk lost",
    "disk stalled",
    "fate unknown",
    "heard a former member",
    "heard an earlier life",
    "killed",
    "leader isolated",
    "messages doubled",
    "messages lost",
    "paused",
    "power lost",
    "power lost at a vote",
    "power lost everywhere",
    "promoted",
    "read at a follower",
    "reads",
    "removed",
    "restored",
    "split",
    "transfers",
    "writes",
    "writes lost",
];

#[test]
fn a_run_follows_from_its_seed() {
    for seed in 0..20 {
        assert_eq!(run(plan(seed, None)), run(plan(seed, None)), "seed {seed}");
    }
}

/// The first seed that finds a bug; what it found.
fn caught(bug: PlantedBug, seeds: u64) -> Option<(u64, String)> {
    let found = (0..seeds).find_map(|seed| {
        let plan = Plan { nodes: 3, ..plan(seed, Some(bug)) };
        let violation = try_run(plan).violations.into_iter().next();
        violation.map(|violation| (seed, violation))
    });
    println!("{bug:?}: {found:?}");
    found
}

#[test]
fn a_vote_that_is_not_synced_is_found() {
    assert!(caught(PlantedBug::VoteWithoutSync, 2000).is_some());
}

#[test]
fn a_promise_before_it_is_written_is_found() {
    assert!(caught(PlantedBug::MessagesBeforeWrite, 500).is_some());
}

#[test]
fn a_snapshot_apart_from_its_hard_state_is_found() {
    assert!(caught(PlantedBug::SnapshotWithoutHardState, 500).is_some());
}

#[test]
fn a_read_before_its_index_is_applied_is_found() {
    assert!(caught(PlantedBug::ReadBeforeApplied, 500).is_some());
}

#[test]
fn a_raft_id_that_is_used_again_is_found() {
    assert!(caught(PlantedBug::ReusedRaftId, 500).is_some());
}

#[test]
fn a_commit_index_that_is_not_persisted_is_found() {
    assert!(caught(PlantedBug::CommitNotPersisted, 500).is_some());
}
