//! Workers: what commands do to them, and when the leader lets them go.

use std::time::Duration;

use weft_protocol::TableOptions;
use weft_protocol::limits::{ADDRESS_MAX, WORKER_BUILD_MAX, WORKERS_MAX};

use super::world::World;
use super::{apply, cluster};
use crate::coordinator::{
    Applied, ClusterState, Command, Outcome, Proposal, ProposalId, Rejection, WorkerDescription,
    WorkerId,
};
use crate::limits::PROPOSALS_MAX;

const TICK: Duration = Duration::from_millis(50);

pub(super) fn description(address: &str) -> WorkerDescription {
    let (address, build) = (address.to_owned(), "1f".to_owned());
    WorkerDescription { address, slots: 4, build, process: 77 }
}

fn register(state: &mut ClusterState, former: Option<u64>) -> Applied {
    let (former, description) = (former.map(WorkerId), description("loom:9"));
    apply(state, Command::RegisterWorker { former, description })
}

const fn registered(worker: u64) -> Applied {
    Ok(Outcome::WorkerRegistered { worker: WorkerId(worker) })
}

fn numbers(state: &ClusterState) -> Vec<u64> {
    state.workers().map(|(worker, _)| worker.0).collect()
}

#[test]
fn a_number_is_given_out_once_and_the_eldest_has_the_lowest() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let version = state.version();
    for worker in 1..=3 {
        assert_eq!(register(&mut state, None), registered(worker));
    }
    for (worker, left) in [(3, vec![1, 2]), (1, vec![2])] {
        let leave = Command::UnregisterWorker { worker: WorkerId(worker) };
        assert_eq!(apply(&mut state, leave.clone()), Ok(Outcome::Done));
        assert_eq!(numbers(&state), left);
        assert_eq!(apply(&mut state, leave), Ok(Outcome::Done), "it has left");
    }
    assert_eq!(register(&mut state, None), registered(4), "3 was given out before");
    assert_eq!(state.version(), version, "nodes have nothing to learn of it");
}

#[test]
fn a_registration_that_comes_twice_is_done_once_however_often_others_are_renewed() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let description = description("loom:9");
    let register = Proposal {
        id: ProposalId(7),
        command: Command::RegisterWorker { former: None, description },
    };
    assert_eq!(state.apply(&register), registered(1));
    for id in 100..100 + PROPOSALS_MAX as u128 {
        let renew = Command::RenewWorker { worker: WorkerId(1) };
        assert_eq!(
            state.apply(&Proposal { id: ProposalId(id), command: renew }),
            Ok(Outcome::Done)
        );
    }
    assert_eq!(state.apply(&register), registered(1));
    assert_eq!(numbers(&state), [1]);
}

#[test]
fn a_renewal_saves_a_worker_and_one_that_is_gone_is_told_so() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let worker = WorkerId(1);
    let renew = Command::RenewWorker { worker };
    let unknown = Err(Rejection::WorkerUnknown { worker });
    assert_eq!(apply(&mut state, renew.clone()), unknown);
    register(&mut state, None).unwrap();
    let expire = |renewal| Command::ExpireWorker { worker, renewal };
    assert_eq!(apply(&mut state, renew.clone()), Ok(Outcome::Done));
    assert_eq!(apply(&mut state, expire(1)), Err(Rejection::WorkerRenewed { worker }));
    assert_eq!(apply(&mut state, expire(2)), Ok(Outcome::Done));
    assert_eq!(apply(&mut state, expire(2)), unknown);
    assert_eq!(apply(&mut state, renew), unknown);
    assert!(numbers(&state).is_empty());
}

#[test]
fn who_was_forgotten_may_have_its_number_again_and_nobody_another_ones() {
    let mut state = cluster(1, TableOptions::default(), 1);
    for never in [0, 1, u64::MAX] {
        let refused = Err(Rejection::WorkerUnknown { worker: WorkerId(never) });
        assert_eq!(register(&mut state, Some(never)), refused);
    }
    register(&mut state, None).unwrap();
    register(&mut state, None).unwrap();
    let worker = WorkerId(1);
    let expire = |renewal| Command::ExpireWorker { worker, renewal };
    apply(&mut state, expire(1)).unwrap();
    assert_eq!(register(&mut state, Some(1)), registered(1));
    assert_eq!(numbers(&state), [1, 2], "it is the eldest again");
    let refused = Err(Rejection::WorkerRenewed { worker });
    assert_eq!(apply(&mut state, expire(1)), refused, "what was planned before does not end it");
    // One that is still there is as good as renewed.
    assert_eq!(register(&mut state, Some(1)), registered(1));
    assert_eq!(apply(&mut state, expire(3)), refused);
    assert_eq!(register(&mut state, None), registered(3));
}

#[test]
fn what_a_worker_says_is_bounded_and_so_is_how_many_there_are() {
    let mut state = cluster(1, TableOptions::default(), 1);
    let (address, build) = ("a".repeat(ADDRESS_MAX + 1), "b".repeat(WORKER_BUILD_MAX + 1));
    for (address, build) in [("", "b"), (&*address, "b"), ("a", &*build)] {
        let description = WorkerDescription { build: build.to_owned(), ..description(address) };
        let command = Command::RegisterWorker { former: None, description };
        assert_eq!(apply(&mut state, command), Err(Rejection::WorkerLength));
    }
    for worker in 1..=WORKERS_MAX as u64 {
        assert_eq!(register(&mut state, None), registered(worker));
    }
    assert_eq!(register(&mut state, None), Err(Rejection::TooManyWorkers));
    assert_eq!(register(&mut state, Some(1)), registered(1), "it is one of them");
    apply(&mut state, Command::UnregisterWorker { worker: WorkerId(1) }).unwrap();
    assert_eq!(register(&mut state, None), registered(WORKERS_MAX as u64 + 1));
    assert_eq!(register(&mut state, Some(1)), Err(Rejection::TooManyWorkers));
}

/// The leader has just looked, and looks again when the worker has been forgotten and is there again: that is not what it was.
#[test]
fn a_worker_that_comes_back_between_two_looks_has_its_time() {
    let mut world = World::new(1, 2, TableOptions::default());
    world.start(1, "");
    let register = |world: &mut World, former| {
        let command = Command::RegisterWorker { former, description: description("loom:9") };
        world.apply(&command).unwrap();
    };
    register(&mut world, None);
    while world.state.workers().len() > 0 {
        world.step(TICK);
    }
    register(&mut world, Some(WorkerId(1)));
    let lifetime = world.planner.settings().worker_lifetime;
    for _ in 0..(lifetime - TICK).div_duration_f64(TICK) as u32 {
        world.step(TICK);
    }
    assert_eq!(numbers(&world.state), [1]);
}

/// Who renews stays, who does not is gone when its lifetime is over, and a new leader begins to count anew.
#[test]
fn a_worker_that_says_nothing_is_let_go_and_a_new_leader_gives_it_its_time() {
    let mut world = World::new(1, 2, TableOptions::default());
    world.start(1, "");
    let run_for = |world: &mut World, duration: Duration, renewed: &[u64]| {
        for _ in 0..duration.div_duration_f64(TICK) as u32 {
            for worker in renewed {
                world.apply(&Command::RenewWorker { worker: WorkerId(*worker) }).unwrap();
            }
            world.step(TICK);
        }
    };
    run_for(&mut world, Duration::from_secs(2), &[]);
    for address in ["loom:1", "loom:2"] {
        let description = description(address);
        world.apply(&Command::RegisterWorker { former: None, description }).unwrap();
    }
    let lifetime = world.planner.settings().worker_lifetime;
    run_for(&mut world, lifetime - TICK, &[2]);
    assert_eq!(numbers(&world.state), [1, 2]);
    world.lead_anew();
    run_for(&mut world, lifetime - TICK, &[2]);
    assert_eq!(numbers(&world.state), [1, 2]);
    run_for(&mut world, Duration::from_secs(1), &[2]);
    assert_eq!(numbers(&world.state), [2]);
    run_for(&mut world, lifetime + Duration::from_secs(1), &[]);
    assert!(numbers(&world.state).is_empty());
}
