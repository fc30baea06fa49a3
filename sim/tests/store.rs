//! The production nodes and clients under faults, and the simulator's own promise: a seed is a run.

use weft_sim::cluster::production;
use weft_sim::history::Counts;
use weft_sim::ledger::Ledger;
use weft_sim::nemesis::{self, Kind};
use weft_sim::scenario::{Caps, Run, store};
use weft_sim::sometimes::Sometimes;

/// They take some milliseconds each.
const SEEDS: u64 = 1500;

fn run(seed: u64) -> Run {
    store::run(seed, &Caps::default(), &production)
}

#[test]
fn what_clients_are_told_is_linearizable_under_faults_and_no_change_is_lost() {
    let (mut counts, mut ledger) = (Counts::default(), Ledger::default());
    let (mut faults, mut sometimes) = (nemesis::Counts::default(), Sometimes::new());
    for seed in 0..SEEDS {
        let run = run(seed);
        assert!(run.outcome.is_ok(), "{run}");
        let of_run = run.history.counts();
        counts.completed += of_run.completed;
        counts.not_applied += of_run.not_applied;
        counts.unknown += of_run.unknown;
        ledger.add(&run.ledger);
        faults.add(&run.faults);
        sometimes.add(&run.sometimes);
    }
    // A simulation in which nothing goes wrong shows nothing.
    assert!(counts.completed > 140_000, "{counts:?}");
    assert!(counts.not_applied > 50 && counts.unknown > 50, "{counts:?}");
    assert_eq!(ledger.wrong(), [0; 4]);
    assert!(ledger.acknowledged > 2000 && ledger.unknown_applied > 5, "{ledger}");
    for kind in [Kind::Lose, Kind::Pause, Kind::Isolate, Kind::CutPair, Kind::CutOneWay] {
        assert!(faults.of(kind).bit > 5, "{kind:?}: {faults}");
    }
    assert_eq!(sometimes.missing(store::REQUIRED), [""; 0], "{sometimes}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.history, second.history, "seed {seed}");
        assert_eq!(first.summary, second.summary, "seed {seed}");
        assert_eq!(first.faults, second.faults, "seed {seed}");
    }
}

#[test]
fn a_run_that_is_made_smaller_has_no_more_than_that() {
    let caps = Caps {
        clients: Some(2),
        operations: Some(3),
        keys: Some(1),
        faults: Some(4),
        without: vec![0, 2],
        ..Caps::default()
    };
    for seed in 0..10 {
        let run = store::run(seed, &caps, &production);
        assert!(run.outcome.is_ok(), "{run}");
        assert!(run.sizes.clients <= 2 && run.sizes.faults <= 2, "{:?}", run.sizes);
        assert!(run.history.by_key().len() <= 3);
        assert!(
            run.history.operations().len() <= 2 * 3 * 3 + 3,
            "{}",
            run.history.operations().len()
        );
    }
}
