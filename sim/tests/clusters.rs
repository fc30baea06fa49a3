//! Whole clusters under every fault: coordinators, nodes and clients as production has them.

use weft_sim::scenario::{Caps, cluster};

const SEEDS: u64 = 40;

#[test]
fn clusters_keep_their_word_whatever_breaks() {
    let (mut completed, mut gone) = (0, 0);
    for seed in 0..SEEDS {
        let run = cluster::run(seed, &Caps::default());
        assert!(run.outcome.is_ok(), "{run}");
        completed += run.history.counts().completed;
        gone += run.summary.nodes_gone;
    }
    assert!(completed > 1000 && gone > 20, "{completed} operations, {gone} nodes died");
}

#[test]
fn the_same_seed_is_the_same_run_of_a_cluster() {
    for seed in 0..3 {
        let run = || cluster::run(seed, &Caps::default());
        let (one, other) = (run(), run());
        assert_eq!(one.history, other.history, "seed {seed}");
        assert_eq!(one.summary, other.summary, "seed {seed}");
    }
}
