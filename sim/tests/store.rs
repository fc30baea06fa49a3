//! The production nodes and clients under faults, and the simulator's own promise: a seed is a run.

use weft_sim::cluster::production;
use weft_sim::history::Counts;
use weft_sim::scenario::store::run;

#[test]
fn what_clients_are_told_is_linearizable_under_faults() {
    let mut counts = Counts::default();
    let (mut connections_lost, mut pauses, mut nodes_gone) = (0, 0, 0);
    for seed in 0..60 {
        let run = run(seed, &production);
        assert!(run.outcome.is_ok(), "{run}");
        let of_run = run.history.counts();
        counts.completed += of_run.completed;
        counts.not_applied += of_run.not_applied;
        counts.unknown += of_run.unknown;
        connections_lost += run.summary.connections_lost;
        pauses += run.summary.pauses;
        nodes_gone += run.summary.nodes_gone;
    }
    // A simulation in which nothing goes wrong shows nothing.
    assert!(counts.completed > 5000, "{counts:?}");
    assert!(counts.not_applied > 50 && counts.unknown > 50, "{counts:?}");
    assert!(connections_lost > 200 && pauses > 50, "{connections_lost} lost, {pauses} pauses");
    assert!(nodes_gone > 2, "{nodes_gone} nodes gone");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        let (first, second) = (run(seed, &production), run(seed, &production));
        assert_eq!(first.history, second.history, "seed {seed}");
        assert_eq!(first.summary, second.summary, "seed {seed}");
    }
}
