//! Clients put, get and delete a few keys on a few nodes, while connections are lost and nodes
//! pause or go; then the faults end, every key that has an owner is read once more, and the history
//! is checked.
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

use self::options::{Going, Options};
use self::requester::Requester;
use super::{Failure, Run, Scenario, Summary};
use crate::cluster::{MakeHandler, Nodes};
use crate::history::{History, Recorder};
use crate::linearizability;
use crate::world::{MemberId, World};

/// Runs the scenario with everything drawn from `seed`, on nodes of which `make_handler` makes the
/// handlers.
pub fn run(seed: u64, make_handler: &MakeHandler<'_>) -> Run {
    let mut random = StdRng::seed_from_u64(seed);
    let options = Options::draw(&mut random);
    let world = World::new(random.random(), options.network());
    let (drawn, recorder) = (options.to_string(), Recorder::new());
    let mut play = Play { world, options, random, recorder, pauses: 0, gone: None };
    let outcome = play.all(make_handler).and_then(|()| judge(&play.recorder.history()));
    let summary = Summary {
        virtual_time: play.world.clock().now().since(Time::ZERO),
        connections_lost: play.world.network().lost(),
        pauses: play.pauses,
        nodes_gone: u64::from(play.gone.is_some()),
        steps: play.world.steps(),
    };
    let history = play.recorder.history();
    Run { scenario: Scenario::Store, seed, drawn, history, summary, outcome }
}

/// An empty history is linearizable, and proves nothing.
fn judge(history: &History) -> Result<(), Failure> {
    if history.counts().completed == 0 {
        return Err(Failure::NothingDone);
    }
    Ok(linearizability::check(history)?)
}

/// A run under way.
struct Play {
    world: World,
    options: Options,
    random: StdRng,
    recorder: Recorder,
    pauses: u64,
    gone: Option<MemberId>,
}

impl Play {
    fn all(&mut self, make_handler: &MakeHandler<'_>) -> Result<(), Failure> {
        let Options { nodes, partitions, keys, .. } = self.options;
        let seed = self.random.random();
        let nodes = Nodes::build(&mut self.world, nodes, partitions, seed, make_handler)?;
        let keys: Rc<[Vec<u8>]> = (0..keys).map(|key| format!("key-{key}").into()).collect();
        let failed = Rc::new(RefCell::new(None));
        self.spawn_requesters(&nodes, &keys, &failed)?;
        self.disturb(&nodes)?;
        self.read_all(&nodes, &keys, &failed)?;
        match failed.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    fn spawn_requesters(
        &mut self,
        nodes: &Nodes,
        keys: &Rc<[Vec<u8>]>,
        failed: &Rc<RefCell<Option<Failure>>>,
    ) -> Result<(), Failure> {
        let Options { clients, requesters, timeout, .. } = self.options;
        for client in 0..clients {
            let connector = nodes.client(&mut self.world, client, timeout)?;
            for number in client * requesters..(client + 1) * requesters {
                let requester = self.requester(number, keys, timeout, failed);
                let random = StdRng::seed_from_u64(self.random.random());
                let Options { operations, think, .. } = self.options;
                self.world.spawn(requester.work(connector.clone(), operations, think, random));
            }
        }
        Ok(())
    }

    /// Injects faults until the clients are done, or for long enough; without faults, the clients
    /// get done.
    fn disturb(&mut self, nodes: &Nodes) -> Result<(), Failure> {
        let Some(interval) = self.options.fault_interval else { return self.finish() };
        let goes_at = self.random.random_range(0..FAULTS_BEFORE_GOING_MAX);
        for fault in 0..FAULTS_MAX {
            let wait = self.random.random_range(Duration::ZERO..interval * 2);
            if self.world.run_until(self.world.clock().now() + wait)? {
                return Ok(());
            }
            let drawn = self.random.random_range(0..nodes.members().len());
            let node = nodes.members()[drawn];
            if fault == goes_at
                && let Some(going) = self.options.node_goes
            {
                match going {
                    Going::Stops => self.world.stop(node),
                    Going::Freezes => self.world.pause(node, Duration::MAX),
                }
                self.gone = Some(node);
            } else if !self.options.pause_max.is_zero() && self.random.random_bool(0.5) {
                let pause = self.random.random_range(Duration::ZERO..self.options.pause_max);
                self.world.pause(node, pause);
                self.pauses += 1;
            } else {
                self.world.network().lose_one();
            }
        }
        self.world.network().configure(|config| config.loss = 0.0);
        self.finish()
    }

    /// Ends the faults. Then every key of a node that is still there can be read, and what is read
    /// has to fit what was told before.
    fn read_all(
        &mut self,
        nodes: &Nodes,
        keys: &Rc<[Vec<u8>]>,
        failed: &Rc<RefCell<Option<Failure>>>,
    ) -> Result<(), Failure> {
        self.world.network().configure(|config| config.loss = 0.0);
        let number = self.options.clients * self.options.requesters;
        let connector = nodes.client(&mut self.world, number, HEALED_TIMEOUT)?;
        let there = keys.iter().filter(|key| Some(nodes.owner(key)) != self.gone).cloned();
        let reader = self.requester(number, &there.collect(), HEALED_TIMEOUT, failed);
        self.world.spawn(reader.read_all(connector));
        self.finish()
    }

    fn requester(
        &self,
        number: u32,
        keys: &Rc<[Vec<u8>]>,
        timeout: Duration,
        failed: &Rc<RefCell<Option<Failure>>>,
    ) -> Requester {
        Requester {
            number,
            keys: Rc::clone(keys),
            recorder: self.recorder.clone(),
            clock: self.world.clock().clone(),
            timeout,
            value_bytes_max: self.options.value_bytes_max,
            failed: Rc::clone(failed),
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let end = self.world.clock().now() + FINISH_TIME_MAX;
        if self.world.run_until(end)? { Ok(()) } else { Err(Failure::TooLong { at: end }) }
    }
}

/// Faults a run: they may come faster than a client can connect, so there has to be an end of them.
const FAULTS_MAX: u32 = 300;

/// Few enough that clients still have something to ask when a node goes.
const FAULTS_BEFORE_GOING_MAX: u32 = 10;

/// Longer than the operations of any run take by far: every one has a deadline.
const FINISH_TIME_MAX: Duration = Duration::from_secs(3600);

/// Longer than any pause that may still last.
const HEALED_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Action;

    #[test]
    fn a_run_in_which_nothing_was_completed_is_a_failure() {
        let recorder = Recorder::new();
        assert!(matches!(judge(&recorder.history()), Err(Failure::NothingDone)));
        recorder.invoke(1, b"key", Action::Get, Time::ZERO);
        assert!(matches!(judge(&recorder.history()), Err(Failure::NothingDone)));
    }
}
