//! Crashes of a log at every write and sync: what was told to be durable is there, in order, and nothing else.

use rand::RngExt;
use weft_server::durable::{Mode, Planted, State};

use super::log_run::{Counts, FILE_BYTES, Run};

const SEEDS: u64 = 1000;
const PARTITIONS: u16 = 5;

/// Some lives of a log, each ended by a crash or in good order.
fn run(seed: u64, mode: Mode, planted: Option<Planted>) -> Result<Counts, String> {
    let mut run = Run::new(seed, mode, planted);
    let in_seed = |error: String| format!("seed {seed}: {error}");
    for _ in 0..run.random.random_range(2..5) {
        run.restart().map_err(in_seed)?;
        if planted == Some(Planted::AppendWhileOpening) {
            for _ in 0..5 {
                if !run.models.is_empty() {
                    run.act();
                }
            }
        }
        if run.random.random_bool(0.1) {
            for _ in 0..run.random.random_range(0..5) {
                run.step();
            }
            run.die_in_step();
            continue;
        }
        run.open(PARTITIONS);
        if run.random.random_bool(0.1) {
            run.disk.fail_next_sync();
        }
        for _ in 0..run.random.random_range(0..150) {
            run.act();
            for _ in 0..run.random.random_range(0..4) {
                run.step();
            }
        }
        match run.random.random_range(0..4) {
            0 => {
                run.log().close();
                run.drain();
                if *run.log().state() == State::Closed {
                    let recovery = run.recover();
                    assert!(recovery.is_clean(), "seed {seed}");
                } else {
                    run.die();
                }
                run.log = None;
            }
            1 => {
                run.drain();
                run.die();
            }
            _ => run.die_in_step(),
        }
    }
    run.restart().map_err(in_seed)?;
    Ok(run.counts)
}

fn all(mode: Mode, seeds: u64) -> Counts {
    let mut counts = Counts::default();
    for seed in 0..seeds {
        match run(seed, mode, None) {
            Ok(of_one) => counts.add(of_one),
            Err(error) => panic!("{error}"),
        }
    }
    counts
}

#[test]
fn what_an_fsync_log_told_to_be_durable_survives_every_crash_and_nothing_is_invented() {
    let counts = all(Mode::Fsync, SEEDS);
    println!("{counts:?}");
    assert!(counts.crashes > SEEDS && counts.lost_tails > SEEDS / 4, "{counts:?}");
    assert!(counts.snapshots > SEEDS && counts.durable > 10 * SEEDS, "{counts:?}");
}

#[test]
fn a_disk_log_is_complete_after_an_orderly_close_and_only_then() {
    let counts = all(Mode::Disk, SEEDS);
    println!("{counts:?}");
    assert!(counts.crashes > SEEDS && counts.snapshots > SEEDS, "{counts:?}");
}

#[test]
#[ignore = "takes minutes: for the note"]
fn many_more_crashes() {
    println!("{:?}", all(Mode::Fsync, 20_000));
    println!("{:?}", all(Mode::Disk, 5_000));
}

#[test]
fn a_log_has_no_more_than_twice_what_is_live_and_some_files() {
    for seed in 0..20 {
        let mut run = Run::new(seed, Mode::Fsync, None);
        run.restart().unwrap();
        run.open(PARTITIONS);
        let mut most = 0.0_f64;
        for _ in 0..2000 {
            run.act_without_snapshots();
            run.snapshot_if_wanted();
            run.drain();
            // The files besides, the one that is written to, and one partition that is written anew.
            let allowed = 2 * run.live_bytes() + (4 + 1) * FILE_BYTES + 36_000;
            most = most.max(run.log().bytes() as f64 / allowed as f64);
        }
        assert!(most <= 1.0, "seed {seed}: {most}");
        assert!(run.counts.snapshots > 50 && run.counts.entries > 3000, "{:?}", run.counts);
    }
}

/// How many seeds it takes until a planted bug is found.
fn seeds_until_found(mode: Mode, planted: Planted) -> u64 {
    let found = (0..SEEDS).find(|seed| {
        let outcome = std::panic::catch_unwind(|| run(*seed, mode, Some(planted)));
        outcome.is_ok_and(|outcome| outcome.is_err())
    });
    let seeds = found.map_or(SEEDS, |seed| seed + 1);
    println!("{planted:?}: found by seed {seeds}");
    seeds
}

#[test]
fn planted_bugs_are_found_within_200_seeds() {
    let of_fsync = [
        Planted::AcknowledgeBeforeSync,
        Planted::SkipDirectorySync,
        Planted::RemoveBeforeSync,
        Planted::RetrySync,
    ];
    for bug in of_fsync {
        assert!(seeds_until_found(Mode::Fsync, bug) <= 200, "{bug:?}");
    }
    for bug in [Planted::ForgiveUnclean, Planted::AppendWhileOpening] {
        assert!(seeds_until_found(Mode::Disk, bug) <= 200, "{bug:?}");
    }
}
