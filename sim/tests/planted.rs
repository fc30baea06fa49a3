//! Bugs that are put into the nodes of whole clusters are caught, each within as many seeds as are stated. docs/checks.md has the list for people.

use weft_server::replication::PlantedBug as Replica;
use weft_server::store::PlantedBug as Store;
use weft_sim::planted::{Mistake, Planted};
use weft_sim::scenario::{Caps, cluster};

/// Each bug, a seed that catches it, and within how many seeds from 0 on one has to.
const CAUGHT: &[(Planted, u64, u64)] = &[
    (Planted::Replica(Replica::AcknowledgeBeforeMember), 3, 20),
    (Planted::Replica(Replica::AcknowledgeBeforeSync), 27, 120),
    (Planted::Replica(Replica::TruncateByCommit), 0, 20),
    (Planted::Replica(Replica::ShrinkWithoutCommit), 29, 80),
    (Planted::Replica(Replica::CaughtUpNotCounted), 7, 300),
    (Planted::Store(Store::ForgetCompletions), 1, 20),
    (Planted::Store(Store::RepeatRequests), 1, 20),
    (Planted::Operator(Mistake::ReuseIncarnation), 5, 20),
];

/// How a run with a bug goes wrong, if it does. A panic of production code is a way to be caught.
fn caught(seed: u64, planted: Planted) -> Option<String> {
    let run = cluster::run_with(seed, &Caps::default(), Some(planted));
    run.outcome.err().map(|failure| failure.to_string())
}

/// Tries the seed that is known first: another one does as well, if something has changed what seeds are.
#[expect(clippy::print_stdout, reason = "what came of it is for people")]
fn all_are_caught(bugs: impl Iterator<Item = (Planted, u64, u64)>) {
    let mut missed = Vec::new();
    for (planted, known, within) in bugs {
        let seeds = std::iter::once(known).chain(0..within);
        let found = seeds.into_iter().find_map(|seed| Some((seed, caught(seed, planted)?)));
        match found {
            Some((seed, how)) => println!("{}: seed {seed}: {how:.120}", planted.name()),
            None => missed.push(planted.name()),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}

#[test]
fn planted_bugs_are_caught_1() {
    all_are_caught(CAUGHT.iter().copied().step_by(2));
}

#[test]
fn planted_bugs_are_caught_2() {
    all_are_caught(CAUGHT.iter().copied().skip(1).step_by(2));
}

/// For whom the seeds of the table are from: all bugs whose names contain `WEFT_PLANTED`, over `WEFT_PLANTED_SEEDS` seeds from 0 on, up to the first that catches
/// each.
#[test]
#[ignore = "takes an hour, and says which seeds the other tests are to be given"]
fn which_seed_catches_each_bug() {
    #[expect(clippy::disallowed_methods, reason = "how long a test takes is its caller's to say")]
    let told = |name| std::env::var(name).ok();
    let seeds = told("WEFT_PLANTED_SEEDS").and_then(|text| text.parse().ok()).unwrap_or(100_u64);
    let names = told("WEFT_PLANTED").unwrap_or_default();
    for planted in Planted::ALL.iter().filter(|planted| planted.name().contains(&names)) {
        let found = (0..seeds).find_map(|seed| Some((seed, caught(seed, *planted)?)));
        match found {
            Some((seed, how)) => println!("{}: seed {seed}: {how:.120}", planted.name()),
            None => println!("{}: not in {seeds} seeds", planted.name()),
        }
    }
}
