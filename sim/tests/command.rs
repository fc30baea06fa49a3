//! The command line: what it prints, and how it exits.

#![expect(clippy::disallowed_methods, reason = "the tests run the program")]

use std::error::Error;
use std::process::{Command, Output};

use weft_sim::cluster::production;
use weft_sim::scenario::{Caps, Failure, store};
use weft_sim::world::Stuck;
use weft_transport::Time;

fn weft_sim(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft-sim"))
        .args(line.split_whitespace())
        .output()
        .expect("the binary was built with this test")
}

#[test]
fn seeds_that_are_well_are_summed_up() {
    let output = weft_sim("--seed 3 --seeds 4");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.starts_with("4 seeds from 3: linearizable\n"), "{stdout}");
}

#[test]
fn seeds_come_to_the_same_on_several_threads() {
    let sums = ["", " --jobs 3"].map(|jobs| {
        let output = weft_sim(&format!("--seed 3 --seeds 12{jobs}"));
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{stdout}");
        // All but how long it took.
        stdout.lines().filter(|line| !line.contains("real seconds")).collect::<Vec<_>>().join("\n")
    });
    assert_eq!(sums[0], sums[1]);
    for expected in ["ledger: ", "0 lost, 0 duplicated, 0 phantom", "fault\n", "situation\n"] {
        assert!(sums[0].contains(expected), "{}", sums[0]);
    }
}

#[test]
fn a_run_can_be_made_smaller() {
    let output = weft_sim("--seed 3 --clients 1 --operations 2 --faults 3 --without-faults 0,1");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    let options = " --clients 1 --operations 2 --faults 3 --without-faults 0,1";
    assert!(stdout.contains(&format!("made smaller:{options}\n")), "{stdout}");
    let replay = format!("replay: weft-sim --scenario store --seed 3{options} --history");
    assert!(stdout.contains(&replay), "{stdout}");
}

#[test]
fn one_seed_prints_what_was_drawn_and_on_request_its_history() {
    let output = weft_sim("--seed 3 --history");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("seed 3 of scenario store: linearizable\ndrawn: "), "{stdout}");
    assert!(stdout.contains(" put "), "{stdout}");
}

#[test]
fn a_failure_names_its_seed_and_how_to_replay_it() {
    let mut run = store::run(5, &Caps::default(), &production);
    run.outcome = Err(Failure::Stuck(Stuck::Livelock { at: Time::from_nanos(2000) }));
    let cause = run.outcome.as_ref().err().and_then(Error::source);
    assert!(cause.is_none(), "the message has said it already");
    let text = run.to_string();
    assert!(text.starts_with("seed 5 of scenario store: stuck: no end of things"), "{text}");
    assert!(text.ends_with("replay: weft-sim --scenario store --seed 5 --history"), "{text}");
}

/// Of nodes with a bug, for there to be one.
#[test]
fn a_run_that_panics_is_a_failure_like_any_other() {
    let bug = "--scenario cluster --planted replica:TruncateByCommit";
    let output = weft_sim(&format!("{bug} --seed 2 --clients 2"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.starts_with("seed 2 of scenario cluster: it panicked: "), "{stdout}");
    let replay = "replay: weft-sim --scenario cluster --seed 2 --clients 2 --planted replica:TruncateByCommit --history";
    assert!(stdout.contains(replay), "{stdout}");
    let said = |jobs: &str| {
        let output = weft_sim(&format!("{bug} --seed 12 --seeds 8{jobs}"));
        String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
    };
    assert_eq!(said(""), said(" --jobs 4"));
}

#[test]
fn an_unknown_scenario_is_wrong_usage() {
    let output = weft_sim("--scenario weather");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("[possible values: store, cluster, operated]"), "{stderr}");
}

#[test]
fn seeds_that_are_none_are_wrong_usage() {
    for (line, expected) in [
        ("--seed x", "give a whole number from 0 to 18446744073709551615"),
        ("--seed 5 --seeds 0", "give a whole number from 1 to 18446744073709551615"),
        ("--seed 18446744073709551615 --seeds 2", "no 2 seeds from 18446744073709551615 on"),
    ] {
        let output = weft_sim(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(expected), "{line}: {stderr}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn the_last_seed_there_is_runs() {
    let output = weft_sim("--seed 18446744073709551615");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.starts_with("seed 18446744073709551615 of scenario store: linear"), "{stdout}");
}
