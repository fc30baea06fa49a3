//! Clients change and read a few keys on a few nodes, while connections are lost, ways are cut and
//! nodes pause or go; then the faults end, every key that has an owner is read once more, and the
//! history is checked, and the account of changes drawn up.
//!
//! Which faults there are, and how bad, is drawn as well. Few keys and concurrent clients make operations
//! meet. Half of the operations are on counters and append lists, in which nothing is overwritten.

mod met;
mod options;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_transport::{SimCrash, Time};

use self::options::{Going, Options};
use super::keys::Keys;
use super::requester::{REQUESTERS_MAX, Requester};
use super::{Caps, Failure, Run, Scenario, Summary, judge, play_on};
use crate::cluster::{MakeHandler, Nodes};
use crate::history::Recorder;
use crate::ledger::Ledger;
use crate::nemesis::{self, Nemesis, Plan};
use crate::world::{MemberId, World};

pub use met::REQUIRED;

/// Runs the scenario with everything drawn from `seed`, but no more of it than `caps` say, on nodes of which
/// `make_handler` makes the handlers.
pub fn run(seed: u64, caps: &Caps, make_handler: &MakeHandler<'_>) -> Run {
    let mut random = StdRng::seed_from_u64(seed);
    let options = Options::draw(&mut random).cap(caps);
    let world = World::new(random.random(), options.network());
    // Drawn by itself, as all that follows, so that a smaller run differs in nothing else.
    let plan = Plan::draw(&mut StdRng::seed_from_u64(random.random()), &options.swarm);
    let plan = plan.without(&caps.without);
    let (drawn, sizes) = (options.to_string(), options.sizes(plan.faults.len()));
    let mut play = Play {
        world,
        options,
        random,
        recorder: Recorder::new(),
        failures: Rc::default(),
        failed: Rc::default(),
        faults: nemesis::Counts::default(),
        gone: None,
        again: Rc::default(),
        doubt: Rc::default(),
    };
    let outcome = play_on(|| play.all(plan, make_handler));
    let history = play.recorder.history();
    let read = outcome.as_ref().map_or_else(|_| BTreeSet::new(), Clone::clone);
    let ledger = Ledger::of(&history, |key| read.iter().any(|read| read == key));
    let outcome = outcome.and_then(|_| judge(&history, &ledger));
    // The last, since what is told wrongly is worse than what is not told.
    let outcome = outcome.and_then(|()| play.doubt.take().map_or(Ok(()), Err));
    let counters = play.world.network().counters();
    let summary = Summary {
        virtual_time: play.world.clock().now().since(Time::ZERO),
        connections_lost: counters.lost,
        unheard: counters.sends_held + counters.connects_held,
        delayed: play.world.delayed(),
        nodes_gone: u64::from(play.gone.is_some()),
        steps: play.world.steps(),
    };
    let sometimes = met::sometimes(&history, &ledger, &summary, &counters, play.again.get());
    let (scenario, caps, faults) = (Scenario::Store, caps.clone(), play.faults);
    Run {
        scenario,
        seed,
        planted: None,
        drawn,
        history,
        summary,
        caps,
        sizes,
        faults,
        sometimes,
        ledger,
        outcome,
    }
}

/// A run under way.
struct Play {
    world: World,
    options: Options,
    random: StdRng,
    recorder: Recorder,
    /// Operations that failed.
    failures: Rc<Cell<u64>>,
    /// Where requesters leave why the run is not as it should be; the first one counts.
    failed: Rc<RefCell<Option<Failure>>>,
    faults: nemesis::Counts,
    gone: Option<MemberId>,
    /// Changes that nodes were asked for again, and answered as before.
    again: Rc<Cell<u64>>,
    /// The first operation that was left in doubt before its time was over.
    doubt: Rc<RefCell<Option<Failure>>>,
}

impl Play {
    /// Returns the keys that were read in the end.
    fn all(
        &mut self,
        plan: Plan,
        make_handler: &MakeHandler<'_>,
    ) -> Result<BTreeSet<Vec<u8>>, Failure> {
        let Options { nodes, partitions, .. } = self.options;
        let seed = self.random.random();
        let mut skews = StdRng::seed_from_u64(self.random.random());
        let options = self.options.clone();
        let mut skew = || Some(options.skew(&mut skews));
        let nodes =
            Nodes::build(&mut self.world, nodes, partitions, seed, &mut skew, make_handler)?;
        let keys = Rc::new({
            let Options { registers, counters, lists, .. } = self.options;
            Keys::new(registers, counters, lists)
        });
        let clients = self.spawn_requesters(&nodes, &keys)?;
        self.disturb(&nodes, clients, plan)?;
        let read = self.read_all(&nodes, &keys)?;
        match self.failed.take() {
            Some(failure) => Err(failure),
            None => Ok(read),
        }
    }

    fn spawn_requesters(
        &mut self,
        nodes: &Nodes,
        keys: &Rc<Keys>,
    ) -> Result<Vec<MemberId>, Failure> {
        let Options { clients, requesters, timeout, operations, think, .. } = self.options;
        let seed: u64 = self.random.random();
        let mut members = Vec::new();
        for client in 0..clients {
            let connector = nodes.client(&mut self.world, client, timeout)?;
            members.push(connector.member());
            for of_client in 0..requesters {
                let number = client * REQUESTERS_MAX + of_client;
                let requester = self.requester(number, keys, timeout);
                let random = StdRng::seed_from_u64(seed.wrapping_add(u64::from(number)));
                let work = requester.work(connector.clone(), operations, think, random);
                self.world.spawn_on(connector.member(), work);
            }
        }
        Ok(members)
    }

    /// Carries out the plan until the clients are done; then nothing is wrong any more.
    fn disturb(
        &mut self,
        nodes: &Nodes,
        clients: Vec<MemberId>,
        plan: Plan,
    ) -> Result<(), Failure> {
        let mut nemesis = Nemesis::new(plan, &self.world, nodes.members().to_vec(), clients);
        let drawn = self.random.random_range(0..nodes.members().len());
        let mut goes = self.options.node_goes.map(|(going, after)| (going, Time::ZERO + after));
        let mut restart =
            |_: &mut World, _, _| unreachable!("no kind of fault has a node come back");
        loop {
            let next = nemesis.next_at().into_iter().chain(goes.map(|(_, at)| at)).min();
            let Some(at) = next else { break };
            if self.world.run_until(at)? {
                break;
            }
            if let Some((going, _)) = goes.take_if(|(_, at)| *at <= self.world.clock().now()) {
                let node = nodes.members()[drawn];
                nemesis.spare(node);
                self.goes(node, going);
            }
            nemesis.act(&mut self.world, self.failures.get(), &mut restart);
        }
        nemesis.heal(&mut self.world, self.failures.get(), &mut restart);
        self.faults = nemesis.counts().clone();
        self.finish()
    }

    fn goes(&mut self, node: MemberId, going: Going) {
        match going {
            Going::Stops => self.world.stop(node),
            Going::Freezes => self.world.pause(node, Duration::MAX),
            Going::Crashes => self.world.crash(node, SimCrash::Process),
        }
        self.gone = Some(node);
    }

    /// Every key of a node that is still there can be read, and what is read has to fit what was told before.
    fn read_all(&mut self, nodes: &Nodes, keys: &Rc<Keys>) -> Result<BTreeSet<Vec<u8>>, Failure> {
        let number = self.options.clients;
        let connector = nodes.client(&mut self.world, number, HEALED_TIMEOUT)?;
        let keys_there =
            keys.all().map(|(_, key)| key).filter(|key| Some(nodes.owner(key)) != self.gone);
        let there: BTreeSet<Vec<u8>> = keys_there.cloned().collect();
        let reader = self.requester(number * REQUESTERS_MAX, keys, HEALED_TIMEOUT);
        // One that is gone would be waited for.
        let again = self.gone.is_none().then(|| Rc::clone(&self.again));
        self.world.spawn(reader.read_all(connector, there.clone(), again));
        self.finish()?;
        Ok(there)
    }

    fn requester(&self, number: u32, keys: &Rc<Keys>, timeout: Duration) -> Requester {
        Requester {
            number,
            keys: Rc::clone(keys),
            recorder: self.recorder.clone(),
            clock: self.world.clock().clone(),
            timeout,
            only_reads: false,
            value_bytes_max: self.options.value_bytes_max,
            versions: RefCell::default(),
            asked_at: Cell::new(Time::ZERO),
            failures: Rc::clone(&self.failures),
            failed: Rc::clone(&self.failed),
            doubt: Rc::clone(&self.doubt),
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let end = self.world.clock().now() + FINISH_TIME_MAX;
        if self.world.run_until(end)? {
            Ok(())
        } else {
            Err(Failure::TooLong { at: end, state: "all nodes are there".to_owned() })
        }
    }
}

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
        let (recorder, ledger) = (Recorder::new(), Ledger::default());
        assert!(matches!(judge(&recorder.history(), &ledger), Err(Failure::NothingDone)));
        recorder.invoke(1, b"key", Action::Get, Time::ZERO);
        assert!(matches!(judge(&recorder.history(), &ledger), Err(Failure::NothingDone)));
    }
}
