//! Everything that runs in one simulation: a network, endpoints, tasks and one virtual time.
//!
//! Production code runs in it unchanged: endpoints are [`Endpoint::simulated`], and futures wait
//! for replies and timers as they do anywhere. Virtual time stands still while anything can go on,
//! and then jumps to the next thing that is due; so a run of minutes takes milliseconds, and
//! nothing in it depends on the machine.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use weft_transport::{
    Clock, Endpoint, EndpointConfig, EndpointError, Handler, ManualClock, SimConfig, SimNetwork,
    Time,
};

use crate::executor::Executor;
use crate::limits::STEPS_A_MOMENT_MAX;

/// A simulated world.
pub struct World {
    clock: Clock,
    hand: ManualClock,
    network: SimNetwork,
    /// By number; an endpoint that was stopped leaves its place empty.
    members: Vec<Option<Member>>,
    executor: Executor,
    random: StdRng,
    steps: u64,
}

struct Member {
    endpoint: Endpoint,
    /// It does nothing before then.
    paused_until: Time,
}

/// An endpoint of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberId(usize);

/// Why a world does not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stuck {
    /// Tasks wait, and nothing is due that could wake them.
    #[error("{tasks} tasks wait at {} us, and nothing is under way and no timer is set", .at.nanos() / 1000)]
    Deadlock {
        /// How many wait.
        tasks: usize,
        /// Since when.
        at: Time,
    },
    /// Something goes on for ever without time passing.
    #[error("no end of things to do at {} us", .at.nanos() / 1000)]
    Livelock {
        /// When.
        at: Time,
    },
}

impl World {
    /// An empty world at the beginning of time. `network` says how its network behaves; its seed is
    /// drawn from `seed`, from which everything random follows.
    pub fn new(seed: u64, network: SimConfig) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (clock, hand) = Clock::manual();
        let network = SimConfig { seed: random.random(), ..network };
        World {
            clock,
            network: SimNetwork::new(network, hand.clone()),
            hand,
            members: Vec::new(),
            executor: Executor::new(random.random()),
            random,
            steps: 0,
        }
    }

    /// The world's time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The world's network.
    pub fn network(&self) -> &SimNetwork {
        &self.network
    }

    /// How many passes over endpoints and tasks there have been.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds an endpoint, which lives in the world's time whatever clock `config` names.
    ///
    /// # Errors
    /// See [`Endpoint::simulated`].
    pub fn add(
        &mut self,
        config: EndpointConfig,
        handler: Arc<dyn Handler>,
    ) -> Result<(MemberId, Endpoint), EndpointError> {
        let config = EndpointConfig { clock: self.clock.clone(), ..config };
        let endpoint = Endpoint::simulated(config, handler, &self.network)?;
        self.members.push(Some(Member { endpoint: endpoint.clone(), paused_until: Time::ZERO }));
        Ok((MemberId(self.members.len() - 1), endpoint))
    }

    /// Adds a task.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        self.executor.spawn(future);
    }

    /// Keeps an endpoint from doing anything for a while, as the scheduler or a debugger would:
    /// bytes still reach it. [`Duration::MAX`] is for good.
    pub fn pause(&mut self, member: MemberId, duration: Duration) {
        let until = self.clock.now() + duration;
        if let Some(member) = &mut self.members[member.0] {
            member.paused_until = until.max(member.paused_until);
        }
    }

    /// Stops an endpoint in good order, if nobody else holds it: it says goodbye, and nobody
    /// listens any more.
    pub fn stop(&mut self, member: MemberId) {
        self.members[member.0] = None;
    }

    /// Goes on until all tasks have ended, or until `end`. Returns whether they have.
    ///
    /// # Errors
    /// See [`Stuck`].
    pub fn run_until(&mut self, end: Time) -> Result<bool, Stuck> {
        loop {
            self.settle()?;
            let (tasks, at) = (self.executor.running(), self.clock.now());
            if tasks == 0 {
                return Ok(true);
            }
            if at >= end {
                return Ok(false);
            }
            match self.next_event() {
                None => return Err(Stuck::Deadlock { tasks, at }),
                Some(next) if next <= at => return Err(Stuck::Livelock { at }),
                Some(next) => self.hand.advance_to(next.min(end)),
            }
        }
    }

    /// Does all that can be done at this moment.
    fn settle(&mut self) -> Result<(), Stuck> {
        for _ in 0..STEPS_A_MOMENT_MAX {
            if !self.step() {
                return Ok(());
            }
        }
        Err(Stuck::Livelock { at: self.clock.now() })
    }

    /// A drawn number of tasks, then a turn of each endpoint, in a drawn order. Returns whether
    /// anything happened.
    fn step(&mut self) -> bool {
        self.steps += 1;
        let mut active = false;
        for _ in 0..self.random.random_range(1..=TASKS_A_STEP_MAX) {
            active |= self.executor.step();
        }
        let now = self.clock.now();
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        order.shuffle(&mut self.random);
        for member in order.into_iter().filter_map(|index| self.members[index].as_ref()) {
            active |= member.paused_until <= now && member.endpoint.turn();
        }
        active
    }

    /// When something is due next.
    fn next_event(&self) -> Option<Time> {
        let now = self.clock.now();
        let members = self.members.iter().flatten().filter_map(|member| {
            if member.paused_until > now {
                Some(member.paused_until)
            } else {
                member.endpoint.next_timer()
            }
        });
        members.chain(self.network.next_event()).filter(|next| *next < Time::MAX).min()
    }
}

/// Few tasks in a step interleave them finely with the endpoints, many let requests gather into
/// batches; both happen.
const TASKS_A_STEP_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::SocketAddr;
    use std::rc::Rc;

    use weft_transport::{Batch, Incarnation, IncomingKind, Memory, MemoryConfig, NodeId};

    use super::*;

    struct Echo;

    impl Handler for Echo {
        fn handle(&self, batch: &mut Batch<'_>) {
            while let Some(incoming) = batch.next() {
                if let IncomingKind::Call(call) = incoming.kind {
                    batch.reply(call, incoming.body);
                }
            }
        }
    }

    const DELAY: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn empty() -> World {
        World::new(7, SimConfig { seed: 0, delay: DELAY..DELAY, loss: 0.0, partial: 0.0 })
    }

    /// A world with a server that echoes, and a client.
    fn world() -> (World, MemberId, Endpoint) {
        let mut world = empty();
        let mut add = |node| {
            let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
            let config = EndpointConfig::new(NodeId(node), Incarnation(1), memory);
            world.add(config, Arc::new(Echo)).unwrap()
        };
        let ((server, listening), (_, client)) = (add(1), add(2));
        listening.listen(address()).unwrap();
        drop(listening);
        (world, server, client)
    }

    fn address() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 7400))
    }

    /// Spawns a client that calls once; afterwards the time at which it was answered can be read.
    fn call_once(world: &mut World, client: Endpoint) -> Rc<Cell<Option<Time>>> {
        let answered = Rc::new(Cell::new(None));
        let told = Rc::clone(&answered);
        world.spawn(async move {
            let deadline = Time::ZERO + 100 * SECOND;
            let connection = client.connect(address(), deadline).await.unwrap();
            let reply = connection.call(&b"hello"[..], deadline).await.unwrap();
            assert_eq!(&*reply, b"hello");
            told.set(Some(client.clock().now()));
        });
        answered
    }

    #[test]
    fn time_passes_only_on_the_network() {
        let (mut world, _, client) = world();
        let answered = call_once(&mut world, client);
        assert_eq!(world.run_until(Time::ZERO + SECOND), Ok(true));
        let took = answered.get().unwrap().since(Time::ZERO);
        assert!(took.as_nanos().is_multiple_of(DELAY.as_nanos()), "{took:?}");
        assert!(took >= 3 * DELAY && took <= 5 * DELAY, "{took:?}");
    }

    #[test]
    fn a_paused_endpoint_answers_when_it_goes_on() {
        let (mut world, server, client) = world();
        world.pause(server, 4 * SECOND);
        // The longest pause counts.
        world.pause(server, SECOND);
        let answered = call_once(&mut world, client);
        assert_eq!(world.run_until(Time::ZERO + 2 * SECOND), Ok(false));
        assert_eq!(answered.get(), None);
        assert_eq!(world.run_until(Time::ZERO + 20 * SECOND), Ok(true));
        assert!(answered.get().unwrap() > Time::ZERO + 4 * SECOND);
    }

    #[test]
    fn a_stopped_endpoint_is_refused_and_one_paused_for_good_never_answers() {
        for stopped in [true, false] {
            let (mut world, server, client) = world();
            if stopped {
                world.stop(server);
            } else {
                world.pause(server, Duration::MAX);
            }
            let failed_at = Rc::new(Cell::new(None));
            let told = Rc::clone(&failed_at);
            world.spawn(async move {
                let connected = client.connect(address(), Time::ZERO + SECOND).await;
                assert!(connected.is_err());
                told.set(Some(client.clock().now()));
            });
            assert_eq!(world.run_until(Time::ZERO + 20 * SECOND), Ok(true));
            let expected = if stopped { Time::ZERO } else { Time::ZERO + SECOND };
            assert_eq!(failed_at.get(), Some(expected), "stopped: {stopped}");
        }
    }

    #[test]
    fn a_task_that_waits_for_nothing_is_found() {
        let mut world = empty();
        world.spawn(std::future::pending());
        let stuck = world.run_until(Time::ZERO + SECOND);
        assert_eq!(stuck, Err(Stuck::Deadlock { tasks: 1, at: Time::ZERO }));
    }

    #[test]
    fn a_task_that_never_waits_is_found() {
        let mut world = empty();
        world.spawn(std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }));
        let stuck = world.run_until(Time::ZERO + SECOND);
        assert_eq!(stuck, Err(Stuck::Livelock { at: Time::ZERO }));
    }
}
