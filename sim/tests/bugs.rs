//! Whether the simulator and the checker would notice: clusters with a bug put in, each of which
//! must be caught.
//!
//! Two kinds: production nodes put together wrongly (two that take each other for one, one that
//! forgets all), and a node of a few lines that knows put, get, exists, delete, append and increment and
//! can do each of them wrongly. Without a bug that node passes, so what is caught is the bug.

#[path = "bugs/shrinking.rs"]
mod shrinking;
#[path = "bugs/toy.rs"]
mod toy;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_protocol::Member;
use weft_server::handler::{NodeHandler, NodeOptions};
use weft_server::memory::NodeMemory;
use weft_sim::cluster::Seat;
use weft_sim::linearizability::CheckError;
use weft_sim::scenario::{Caps, Failure, store};
use weft_transport::{Batch, Handler};

use toy::{Bug, Toy};

const SEEDS: u64 = 30;

/// In how many of the first seeds the checker found a violation.
fn caught(make: impl Fn(Seat) -> Arc<dyn Handler>) -> u64 {
    (0..SEEDS)
        .filter(|seed| {
            let run = store::run(*seed, &Caps::default(), &|seat| Ok(make(seat)));
            match run.outcome {
                // The node of a few lines refuses what it does not know, and so what is in doubt.
                Ok(()) | Err(Failure::Doubt { .. }) => false,
                Err(Failure::Linearizability(
                    CheckError::NotLinearizable(_) | CheckError::OutOfOrder(_),
                )) => true,
                Err(Failure::Ledger(_)) => true,
                Err(other) => panic!("seed {seed}: {other}"),
            }
        })
        .count() as u64
}

fn assert_caught(bug: Bug) {
    let seeds = caught(|seat| Arc::new(Toy::new(&seat, bug)));
    assert!(seeds >= SEEDS / 5, "{bug:?} was caught in {seeds} of {SEEDS} seeds");
}

#[test]
fn a_node_without_a_bug_passes() {
    assert_eq!(caught(|seat| Arc::new(Toy::new(&seat, Bug::None))), 0);
}

#[test]
fn a_stale_read_is_caught() {
    assert_caught(Bug::StaleRead);
}

#[test]
fn a_write_that_is_acknowledged_and_not_applied_is_caught() {
    assert_caught(Bug::AcknowledgeWithoutApplying);
}

#[test]
fn a_write_that_is_refused_and_applied_is_caught() {
    assert_caught(Bug::ApplyRefused);
}

#[test]
fn a_write_that_is_applied_a_second_time_later_is_caught() {
    assert_caught(Bug::ApplyTwice);
}

#[test]
fn a_delete_that_is_acknowledged_and_not_applied_is_caught() {
    assert_caught(Bug::LoseDelete);
}

#[test]
fn a_version_that_is_given_out_again_after_a_delete_is_caught() {
    assert_caught(Bug::ReuseVersion);
}

#[test]
fn a_value_under_the_version_of_another_is_caught() {
    assert_caught(Bug::MixedVersion);
}

#[test]
fn a_changed_byte_is_caught() {
    assert_caught(Bug::ChangedByte);
}

#[test]
fn a_mutation_that_is_done_again_when_it_is_asked_again_is_caught() {
    assert_caught(Bug::ForgetNumbers);
}

/// Two nodes that each take themselves for the owner, as after a failover without fencing: batches
/// go to one or the other.
struct SplitBrain {
    nodes: [NodeHandler; 2],
    batches: AtomicU64,
}

impl Handler for SplitBrain {
    fn handle(&self, batch: &mut Batch<'_>) {
        // Mostly the one, so that the other is behind, not just different.
        let turn = self.batches.fetch_add(1, Ordering::Relaxed);
        self.nodes[usize::from(turn % 5 == 4)].handle(batch);
    }
}

#[test]
fn two_owners_at_once_are_caught() {
    let seeds = caught(|seat| {
        let nodes = [production_like(&seat), production_like(&seat)];
        Arc::new(SplitBrain { nodes, batches: AtomicU64::new(0) })
    });
    assert!(seeds >= SEEDS / 2, "caught in {seeds} of {SEEDS} seeds");
}

/// A node that restarts without what it held, under the name of the one that held it.
struct Amnesia {
    lives: [NodeHandler; 2],
    batches: AtomicU64,
}

impl Handler for Amnesia {
    fn handle(&self, batch: &mut Batch<'_>) {
        let batches = self.batches.fetch_add(1, Ordering::Relaxed);
        self.lives[usize::from(batches >= 40)].handle(batch);
    }
}

#[test]
fn a_node_that_forgets_what_it_acknowledged_is_caught() {
    let seeds = caught(|seat| {
        let lives = [production_like(&seat), production_like(&seat)];
        Arc::new(Amnesia { lives, batches: AtomicU64::new(0) })
    });
    assert!(seeds >= SEEDS / 3, "caught in {seeds} of {SEEDS} seeds");
}

fn production_like(seat: &Seat) -> NodeHandler {
    let NodeOptions { node, incarnation, clock, seed, .. } = &seat.options;
    let me = Member { node: *node, incarnation: *incarnation };
    let memory = NodeMemory::divide(64 << 20).expect("64 MiB of address space are to be had");
    let options = NodeOptions::new(me, memory, clock.clone(), *seed);
    let seat = Seat { options, map: seat.map.clone() };
    seat.handler().expect("the memory has room for the partitions")
}
