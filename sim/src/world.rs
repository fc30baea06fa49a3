//! Everything that runs in one simulation: a network, hosts with endpoints and tasks, and one
//! virtual time.
//!
//! Production code runs in it unchanged: endpoints are [`Endpoint::simulated`], and futures wait
//! for replies and timers as they do anywhere. Virtual time stands still while anything can go on,
//! and then jumps to the next thing that is due; so a run of minutes takes milliseconds, and
//! nothing in it depends on the machine.
//!
//! A member of a world is a host with a life: it can be paused, and then neither its endpoints nor its
//! tasks do anything; it can crash, and then all that it had is gone at once but for its disk; and
//! it can be started again. Its clock may be wrong.

mod host;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use weft_transport::{
    Clock, Endpoint, EndpointConfig, EndpointError, Handler, ManualClock, SimConfig, SimCrash,
    SimNetwork, Skew, Time,
};

use crate::disk::Disk;
use crate::executor::{Ending, Executor, Owner};
use crate::limits::STEPS_A_MOMENT_MAX;

pub use host::DiskFate;
use host::{Host, Seat};

/// A simulated world.
pub struct World {
    clock: Clock,
    hand: ManualClock,
    network: SimNetwork,
    /// By number; one that was stopped stays as a dead one.
    hosts: Vec<Host>,
    /// Those of them that are paused.
    paused: Vec<usize>,
    executor: Executor,
    random: StdRng,
    steps: u64,
    moments: u64,
    delayed: u64,
    watcher: Option<Box<Watcher>>,
}

/// Who is shown a world each time that nothing is left to be done at a moment. He changes nothing in it, and a world without him is the same.
pub type Watcher = dyn FnMut(&World);

/// A host of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
            hosts: Vec::new(),
            paused: Vec::new(),
            executor: Executor::new(random.random()),
            random,
            steps: 0,
            moments: 0,
            delayed: 0,
            watcher: None,
        }
    }

    /// From now on it is shown to `watcher`, and to nobody else.
    pub fn show_to(&mut self, watcher: Box<Watcher>) {
        self.watcher = Some(watcher);
    }

    /// The world's time, which is the true one.
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

    /// How many pauses have kept a host from doing what it had to do.
    pub fn delayed(&self) -> u64 {
        self.delayed
    }

    /// How often disks that there are now did something late, or not at all.
    pub fn disks_failed_or_late(&self) -> u64 {
        self.hosts.iter().map(|host| host.disk.lock().failed_or_late()).sum()
    }

    /// Adds a host with one endpoint, which lives in the world's time whatever clock `config` names.
    ///
    /// # Errors
    /// See [`Endpoint::simulated`].
    pub fn add(
        &mut self,
        config: EndpointConfig,
        handler: Arc<dyn Handler>,
    ) -> Result<(MemberId, Endpoint), EndpointError> {
        let [low, high, ..] = self.hosts.len().to_le_bytes();
        let member = self.add_host(Ipv4Addr::new(10, 9, high, low).into(), None);
        let endpoint = self.add_endpoint(member, config, handler)?;
        Ok((member, endpoint))
    }

    /// Adds a host at an address, which no other has. It lives in the world's time, or by a clock of
    /// its own that shows zero at the beginning of each life.
    pub fn add_host(&mut self, address: IpAddr, skew: Option<Skew>) -> MemberId {
        let disk_seed = self.random.random();
        self.hosts.push(Host::new(address, skew, &self.hand, &self.network, disk_seed));
        MemberId(self.hosts.len() - 1)
    }

    /// Adds an endpoint to a host that lives, by that host's clock whatever `config` names.
    ///
    /// # Errors
    /// See [`Endpoint::simulated`].
    pub fn add_endpoint(
        &mut self,
        member: MemberId,
        config: EndpointConfig,
        handler: Arc<dyn Handler>,
    ) -> Result<Endpoint, EndpointError> {
        let host = &mut self.hosts[member.0];
        let config = EndpointConfig { clock: host.clock.clone(), ..config };
        let endpoint = Endpoint::simulated(config, handler, &host.network)?;
        host.seats.push(Seat { endpoint: endpoint.clone(), is_active: true });
        Ok(endpoint)
    }

    /// Where faults of the network find a host.
    pub fn address(&self, member: MemberId) -> IpAddr {
        self.hosts[member.0].address
    }

    /// What a host takes for the time, in the life that it is in.
    pub fn clock_of(&self, member: MemberId) -> &Clock {
        &self.hosts[member.0].clock
    }

    /// A host's disk. It stays through lives, unless it is [wiped](DiskFate::Wiped).
    pub fn disk(&self, member: MemberId) -> Arc<Mutex<Disk>> {
        Arc::clone(&self.hosts[member.0].disk)
    }

    /// Which life a host is in, or was in last, from 1.
    pub fn life(&self, member: MemberId) -> u64 {
        self.hosts[member.0].life
    }

    /// Whether a host has neither crashed nor been stopped.
    pub fn is_up(&self, member: MemberId) -> bool {
        self.hosts[member.0].is_up
    }

    /// Adds a task that is no host's.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        self.executor.spawn(None, Ending::Awaited, future);
    }

    /// Adds a task of a host: it does not go on while that is paused, and is dropped where it is when that
    /// crashes or is stopped.
    pub fn spawn_on(&mut self, member: MemberId, future: impl Future<Output = ()> + 'static) {
        self.executor.spawn(Some(Owner(member.0)), Ending::Awaited, future);
    }

    /// The same for what goes on for as long as its host lives: nobody waits for its end.
    pub fn spawn_background(
        &mut self,
        member: MemberId,
        future: impl Future<Output = ()> + 'static,
    ) {
        self.executor.spawn(Some(Owner(member.0)), Ending::Background, future);
    }

    /// Keeps a host from doing anything for a while, as the scheduler or a debugger would:
    /// bytes still reach it, and its clock goes on. [`Duration::MAX`] is for good.
    pub fn pause(&mut self, member: MemberId, duration: Duration) {
        let until = self.clock.now() + duration;
        let host = &mut self.hosts[member.0];
        if host.is_up && until > host.paused_until {
            host.paused_until = until;
            self.executor.stop(Owner(member.0));
            if !self.paused.contains(&member.0) {
                self.paused.push(member.0);
            }
        }
    }

    /// Ends the pause of a host, if it is paused.
    pub fn resume(&mut self, member: MemberId) {
        if !self.paused.contains(&member.0) {
            return;
        }
        let seats = &mut self.hosts[member.0].seats;
        // What has arrived is told once, so they are remembered to have to look.
        seats.iter_mut().for_each(|seat| seat.is_active |= seat.endpoint.is_due());
        self.delayed += u64::from(seats.iter().any(|seat| seat.is_active));
        self.hosts[member.0].paused_until = Time::ZERO;
        self.paused.retain(|paused| *paused != member.0);
        self.executor.go_on(Owner(member.0));
    }

    /// Stops a host in good order, if nobody else holds its endpoints: they say goodbye, and nobody
    /// listens any more. Its tasks are dropped.
    pub fn stop(&mut self, member: MemberId) {
        self.executor.drop_tasks(Owner(member.0));
        self.resume(member);
        let host = &mut self.hosts[member.0];
        host.is_up = false;
        host.seats.clear();
    }

    /// Ends all endpoints that a host has in good order: they say goodbye, and nobody listens any more. Its tasks go on.
    pub fn end_endpoints(&mut self, member: MemberId) {
        for seat in std::mem::take(&mut self.hosts[member.0].seats) {
            seat.endpoint.shutdown();
        }
    }

    /// All that a host has is gone at once, without a word, but for its disk.
    pub fn crash(&mut self, member: MemberId, what: SimCrash) {
        let host = &mut self.hosts[member.0];
        host.is_up = false;
        // First, so that nothing of what is dropped here is heard.
        self.network.crash(host.address, what);
        self.executor.drop_tasks(Owner(member.0));
        for seat in std::mem::take(&mut self.hosts[member.0].seats) {
            seat.endpoint.shutdown();
        }
        self.resume(member);
    }

    /// Begins another life of a host that has crashed or been stopped; `make` gives it what it is to
    /// have in that, such as endpoints and tasks.
    pub fn restart<T>(
        &mut self,
        member: MemberId,
        fate: DiskFate,
        make: impl FnOnce(&mut World) -> T,
    ) -> T {
        let host = &mut self.hosts[member.0];
        assert!(!host.is_up, "a host has one life at a time");
        host.begin_life(&self.hand, fate);
        self.network.restart(host.address);
        make(self)
    }

    /// Goes on until all tasks that are waited for have ended, or until `end`. Returns whether they have.
    ///
    /// # Errors
    /// See [`Stuck`].
    pub fn run_until(&mut self, end: Time) -> Result<bool, Stuck> {
        loop {
            self.settle()?;
            let (tasks, at) = (self.executor.awaited(), self.clock.now());
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

    /// Goes on until `end`, whether or not anybody is waited for, or anything is due.
    ///
    /// # Errors
    /// [`Stuck::Livelock`].
    pub fn go_on_until(&mut self, end: Time) -> Result<(), Stuck> {
        loop {
            self.settle()?;
            let at = self.clock.now();
            if at >= end {
                return Ok(());
            }
            let next = self.next_event().unwrap_or(end);
            if next <= at {
                return Err(Stuck::Livelock { at });
            }
            self.hand.advance_to(next.min(end));
        }
    }

    /// Does all that can be done at this moment.
    fn settle(&mut self) -> Result<(), Stuck> {
        let now = self.clock.now();
        let over = self.paused.iter().copied();
        let over: Vec<_> = over.filter(|host| self.hosts[*host].paused_until <= now).collect();
        over.into_iter().for_each(|host| self.resume(MemberId(host)));
        for _ in 0..STEPS_A_MOMENT_MAX {
            if !self.step() {
                self.moments += 1;
                debug_assert!(
                    !self.moments.is_multiple_of(MOMENTS_A_LOOK) || self.is_quiet(),
                    "an endpoint had something to do that nobody knew of"
                );
                if let Some(mut watcher) = self.watcher.take() {
                    watcher(self);
                    self.watcher = Some(watcher);
                }
                return Ok(());
            }
        }
        Err(Stuck::Livelock { at: now })
    }

    /// A drawn number of tasks, then a turn of each endpoint that has something to do, in a drawn order.
    /// Returns whether anything happened.
    fn step(&mut self) -> bool {
        self.steps += 1;
        let mut active = false;
        for _ in 0..self.random.random_range(1..=TASKS_A_STEP_MAX) {
            active |= self.executor.step();
        }
        let now = self.clock.now();
        let mut due = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            if host.paused_until <= now {
                let seats = host.seats.iter().enumerate().filter(|(_, seat)| seat.is_due());
                due.extend(seats.map(|(seat, _)| (index, seat)));
            }
        }
        due.shuffle(&mut self.random);
        for (host, seat) in &due {
            self.hosts[*host].seats[*seat].turn();
        }
        // A turn in which only a timer was seen to may have left something to do.
        active || !due.is_empty()
    }

    /// Whether no endpoint finds anything to do, due or not.
    fn is_quiet(&mut self) -> bool {
        let now = self.clock.now();
        let awake = self.hosts.iter_mut().filter(|host| host.paused_until <= now);
        !awake.flat_map(|host| &mut host.seats).any(Seat::turn)
    }

    /// When something is due next.
    fn next_event(&self) -> Option<Time> {
        let now = self.clock.now();
        let hosts = self.hosts.iter().filter_map(|host| host.next_event(now));
        hosts.chain(self.network.next_event()).filter(|next| *next < Time::MAX).min()
    }
}

/// Few tasks in a step interleave them finely with the endpoints, many let requests gather into
/// batches; both happen.
const TASKS_A_STEP_MAX: usize = 8;

/// In builds for tests every so many moments all endpoints are looked at, to see that none is forgotten.
const MOMENTS_A_LOOK: u64 = 16;
