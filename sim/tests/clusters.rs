//! Whole clusters under every fault: coordinators, nodes and clients as production has them.
//!
//! The seeds are shared among several tests, so that all processors have some.

use std::time::Instant;

use weft_sim::history::Counts;
use weft_sim::ledger::Ledger;
use weft_sim::nemesis;
use weft_sim::scenario::{Caps, Scenario, cluster};
use weft_sim::sometimes::Sometimes;

/// Seeds of each part.
const SEEDS: u64 = 150;

#[expect(clippy::print_stdout, reason = "what came of it is for people")]
#[expect(clippy::disallowed_methods, reason = "how much faster than the clock it was")]
fn seeds_are_well(scenario: Scenario, first: u64) {
    let began = Instant::now();
    let (mut counts, mut ledger) = (Counts::default(), Ledger::default());
    let (mut faults, mut sometimes) = (nemesis::Counts::default(), Sometimes::new());
    let (mut gone, mut virtual_seconds) = (0, 0.0);
    for seed in first..first + SEEDS {
        let run = scenario.run(seed, &Caps::default(), None);
        assert!(run.outcome.is_ok(), "{run}");
        counts.completed += run.history.counts().completed;
        counts.unknown += run.history.counts().unknown;
        gone += run.summary.nodes_gone;
        virtual_seconds += run.summary.virtual_time.as_secs_f64();
        ledger.add(&run.ledger);
        faults.add(&run.faults);
        sometimes.add(&run.sometimes);
    }
    let (hours, real) = (virtual_seconds / 3600.0, began.elapsed().as_secs_f64());
    println!("{SEEDS} seeds: {hours:.2} simulated hours, {:.1} an hour", virtual_seconds / real);
    println!("{} operations told, {gone} nodes gone; ledger: {ledger}", counts.completed);
    println!("{faults}\n     times  situation\n{sometimes}");
    // A simulation in which nothing happens shows nothing.
    assert!(counts.completed > 50 * SEEDS as usize && counts.unknown > 0, "{counts:?}");
    assert!(gone > SEEDS / 2, "{gone} nodes died");
    assert_eq!(ledger.wrong(), [0; 4]);
    assert_eq!(sometimes.missing(scenario.required()), [""; 0], "{sometimes}");
}

#[test]
fn clusters_keep_their_word_whatever_breaks_1() {
    seeds_are_well(Scenario::Cluster, 0);
}

#[test]
fn clusters_keep_their_word_whatever_breaks_2() {
    seeds_are_well(Scenario::Cluster, 150);
}

#[test]
fn clusters_keep_their_word_whatever_breaks_3() {
    seeds_are_well(Scenario::Cluster, 900);
}

#[test]
fn clusters_keep_their_word_whatever_breaks_4() {
    seeds_are_well(Scenario::Cluster, 1050);
}

/// Every node that was stopped and closed its logs finds all of it, also of tables of `disk`, and whoever keeps nothing on disk is given nothing that is to be
/// kept there.
#[test]
fn clusters_keep_their_word_though_nodes_are_stopped() {
    seeds_are_well(Scenario::Operated, 0);
}

/// Seeds that did not end well once: the leader of the coordinators lost its disk before the others' nodes knew of each other; a disk that had been full took
/// nothing any more, and its node was the one that partitions were to be given to; a coordinator that had been told of no other could answer none;
/// a node that was told of the cluster before it was of it did not find those who came after. In 11854 disks are full, and in 32301 one fails, when nodes start.
#[test]
fn what_was_found_once_stays_mended() {
    // They were found when there was no table but `default`.
    let caps = Caps { tables: Some(0), ..Caps::default() };
    for seed in [479, 694, 3810, 11854, 13636, 32301] {
        let run = cluster::run(seed, &caps);
        assert!(run.outcome.is_ok(), "{run}");
    }
}

/// A table was made between where a learner began and what it was told of tables; and a learner that failed was one for ever.
#[test]
fn what_was_found_once_of_tables_stays_mended() {
    let run = cluster::run(400_170, &Caps::default());
    assert!(run.outcome.is_ok(), "{run}");
}

/// The greeting of a connection that had been given up came after a split had healed, in the place of the connection that both nodes went on by. And an order to
/// leave was carried out behind the last one to stay, as its first answer was lost: the operator waits now for what he has asked for. And where the table
/// that is always there could not be held yet, another one's partitions were placed before its own, by which clients know of which kind it is.
/// And a log whose disk had been full before its node was told to end, and that was told so after that, was taken for one that failed of nothing.
#[test]
fn what_was_found_once_of_operated_clusters_stays_mended() {
    for seed in [3380, 1_200_854, 1_202_261, 1_411_195] {
        let run = Scenario::Operated.run(seed, &Caps::default(), None);
        assert!(run.outcome.is_ok(), "{run}");
    }
}

#[test]
fn the_same_seed_is_the_same_run_of_a_cluster() {
    for scenario in [Scenario::Cluster, Scenario::Operated] {
        for seed in 0..5 {
            let run = || scenario.run(seed, &Caps::default(), None);
            let (one, other) = (run(), run());
            assert_eq!(one.history, other.history, "seed {seed}");
            assert_eq!(one.summary, other.summary, "seed {seed}");
            assert_eq!(one.faults, other.faults, "seed {seed}");
        }
    }
}
