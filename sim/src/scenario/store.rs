//! Clients put, get and delete a few keys on a few nodes, while connections are lost and nodes
//! pause; then the faults end, every key is read once more, and the history is checked.
//!
//! Which faults there are, and how bad, is drawn as well: a run with every fault at once hides what
//! only a quiet one shows ("Swarm testing", Groce et al., ISSTA 2012). Few keys and concurrent
//! clients make operations meet.

mod options;
mod requester;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_transport::Time;

use self::options::Options;
use self::requester::Requester;
use super::{Failure, Run, Scenario, Summary};
use crate::cluster::{MakeHandler, Nodes};
use crate::history::Recorder;
use crate::linearizability;
use crate::world::World;

/// Runs the scenario with everything drawn from `seed`, on nodes of which `make_handler` makes the
/// handlers.
pub fn run(seed: u64, make_handler: &MakeHandler<'_>) -> Run {
    let mut random = StdRng::seed_from_u64(seed);
    let options = Options::draw(&mut random);
    let recorder = Recorder::new();
    let mut world = World::new(random.random(), options.network());
    let mut pauses = 0;
    let outcome = play(&mut world, &options, &mut random, &recorder, &mut pauses, make_handler)
        .and_then(|()| Ok(linearizability::check(&recorder.history())?));
    let summary = Summary {
        virtual_time: world.clock().now().since(Time::ZERO),
        connections_lost: world.network().lost(),
        pauses,
        steps: world.steps(),
    };
    let (drawn, history) = (options.to_string(), recorder.history());
    Run { scenario: Scenario::Store, seed, drawn, history, summary, outcome }
}

fn play(
    world: &mut World,
    options: &Options,
    random: &mut StdRng,
    recorder: &Recorder,
    pauses: &mut u64,
    make_handler: &MakeHandler<'_>,
) -> Result<(), Failure> {
    let nodes =
        Nodes::build(world, options.nodes, options.partitions, random.random(), make_handler)?;
    let keys: Rc<[Vec<u8>]> = (0..options.keys).map(|key| format!("key-{key}").into()).collect();
    let mut number = 0;
    for client in 0..options.clients {
        let connector = nodes.client(world, client, options.timeout)?;
        for _ in 0..options.requesters {
            let requester = Requester {
                number,
                keys: Rc::clone(&keys),
                recorder: recorder.clone(),
                clock: world.clock().clone(),
                value_bytes_max: options.value_bytes_max,
            };
            number += 1;
            world.spawn(requester.work(
                connector.clone(),
                options.operations,
                options.think,
                StdRng::seed_from_u64(random.random()),
            ));
        }
    }
    disturb(world, options, random, &nodes, pauses)?;
    heal(world, &nodes, number, &keys, recorder)
}

/// Injects faults until the clients are done, or for long enough; without faults, the clients get
/// done.
fn disturb(
    world: &mut World,
    options: &Options,
    random: &mut StdRng,
    nodes: &Nodes,
    pauses: &mut u64,
) -> Result<(), Failure> {
    if let Some(interval) = options.fault_interval {
        for _ in 0..FAULTS_MAX {
            let next = world.clock().now() + random.random_range(Duration::ZERO..interval * 2);
            if world.run_until(next)? {
                return Ok(());
            }
            if !options.pause_max.is_zero() && random.random_bool(0.5) {
                let node = nodes.members()[random.random_range(0..nodes.members().len())];
                world.pause(node, random.random_range(Duration::ZERO..options.pause_max));
                *pauses += 1;
            } else {
                world.network().lose_one();
            }
        }
        world.network().configure(|config| config.loss = 0.0);
    }
    finish(world)
}

fn finish(world: &mut World) -> Result<(), Failure> {
    let end = world.clock().now() + FINISH_TIME_MAX;
    if world.run_until(end)? { Ok(()) } else { Err(Failure::TooLong { at: end }) }
}

/// Ends the faults. Then every key can be read, and what is read has to fit what was told before.
fn heal(
    world: &mut World,
    nodes: &Nodes,
    number: u32,
    keys: &Rc<[Vec<u8>]>,
    recorder: &Recorder,
) -> Result<(), Failure> {
    world.network().configure(|config| config.loss = 0.0);
    let connector = nodes.client(world, number, HEALED_TIMEOUT)?;
    let reader = Requester {
        number,
        keys: Rc::clone(keys),
        recorder: recorder.clone(),
        clock: world.clock().clone(),
        value_bytes_max: 0,
    };
    let failed = Rc::new(RefCell::new(None));
    world.spawn({
        let failed = Rc::clone(&failed);
        async move { *failed.borrow_mut() = reader.read_all(connector).await.err() }
    });
    finish(world)?;
    match failed.take() {
        Some(error) => Err(Failure::NotHealed(error)),
        None => Ok(()),
    }
}

/// Faults a run: they may come faster than a client can connect, so there has to be an end of them.
const FAULTS_MAX: u32 = 300;

/// Longer than the operations of any run take by far: every one has a deadline.
const FINISH_TIME_MAX: Duration = Duration::from_secs(3600);

/// Longer than any pause that may still last.
const HEALED_TIMEOUT: Duration = Duration::from_secs(60);
