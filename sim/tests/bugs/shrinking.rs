//! Runs that a bug has fail are made smaller, and fail in the same way.

use std::sync::Arc;

use weft_sim::scenario::{Caps, Failure, Run, store};
use weft_sim::shrink::shrink;

use crate::toy::{Bug, Toy};

fn run(seed: u64, caps: &Caps) -> Run {
    store::run(seed, caps, &|options| Ok(Arc::new(Toy::new(&options, Bug::StaleRead))))
}

#[test]
fn a_stale_read_is_shown_by_a_small_run() {
    let (mut before, mut after, mut shrunk) = (0, 0, 0);
    for seed in 0..30 {
        let failed = run(seed, &Caps::default());
        if !matches!(failed.outcome, Err(Failure::Linearizability(_) | Failure::Ledger(_))) {
            continue;
        }
        let operations = failed.history.operations().len();
        let smallest = shrink(failed, 100, |caps| run(seed, caps));
        assert!(matches!(smallest.outcome, Err(Failure::Linearizability(_) | Failure::Ledger(_))));
        // What the command is told has it run the same.
        let again = run(seed, &smallest.caps);
        assert_eq!(again.history, smallest.history, "seed {seed}");
        before += operations;
        after += smallest.history.operations().len();
        shrunk += 1;
    }
    assert!(shrunk > 5, "{shrunk} seeds failed");
    assert!(after * 2 < before, "{before} operations before, {after} after, of {shrunk} runs");
}
