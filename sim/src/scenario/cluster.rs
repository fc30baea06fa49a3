//! Whole clusters: coordinators, storage nodes and clients, all of which may crash, come back and lose
//! their disks, under every fault that there is.
//!
//! How a node is built, and how a client works, is the builder's: it is given a host and what was drawn, and
//! gives that host endpoints and tasks, in every life anew. Here nothing knows a protocol; `nodes` builds what production
//! runs, and the tests try that hosts live, die and come back around whatever a builder makes.

mod brief_losses;
mod coordinating;
mod host;
mod judging;
mod leaving;
mod losses;
mod met;
mod nodes;
mod options;
mod orders;
mod run;
mod sparing;
mod stopping;
mod tables;
#[cfg(test)]
mod tests;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_transport::{SimCrash, Time};

use super::{Caps, Failure, Sizes};
use crate::cluster::BuildError;
use crate::nemesis::{self, Nemesis, Plan, Spares};
use crate::world::{DiskFate, MemberId, Watcher, World};

pub use met::{REQUIRED, REQUIRED_OF_OPERATED};
pub use options::{OnDisk, Options};
pub use orders::Orders;
pub use run::{run, run_operated, run_with};
pub use tables::Tables;

/// What a host is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It decides who is what.
    Coordinator,
    /// It holds objects.
    Storage,
    /// It asks for them.
    Client,
}

/// A host to be given what it runs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Where.
    pub member: MemberId,
    /// As what.
    pub role: Role,
    /// Its number among those of its role, from 0.
    pub number: u32,
    /// How it came to this life.
    pub begins: Begins,
}

/// How a life of a host begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// It is the first.
    Anew,
    /// After another, of whose disk this is left.
    Again(DiskFate),
}

/// How far what a host runs has come with ending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stands {
    /// It ends.
    Ending,
    /// It has ended, and is to be started again.
    Ended,
    /// It was not told to end in this life, or was taken down.
    Elsewhere,
}

/// Makes hosts nodes and clients of one kind or another.
pub trait Builder {
    /// Gives a host what it runs in this life: [`World::add_endpoint`], [`World::spawn_background`], and for a
    /// client [`World::spawn_on`], whose end is waited for.
    ///
    /// # Errors
    /// See [`BuildError`].
    fn build(
        &mut self,
        world: &mut World,
        place: Place,
        options: &Options,
    ) -> Result<(), BuildError>;

    /// Which faults hosts are spared: those that nothing could come back from.
    fn spares(&self) -> Box<Spares> {
        Box::new(|_, _, _| false)
    }

    /// Who is to be shown the world at every moment, if anybody.
    fn watcher(&self) -> Option<Box<Watcher>> {
        None
    }

    /// Tells what a host runs to end in good order. Returns whether it can be told so.
    ///
    /// # Errors
    /// See [`BuildError`].
    fn stop(&mut self, _: &mut World, _: MemberId) -> Result<bool, BuildError> {
        Ok(false)
    }

    /// Tells a host to leave. Returns whether it can be told so.
    fn leave(&mut self, _: &mut World, _: MemberId) -> bool {
        false
    }

    /// Tells it to stay after all, and how far that has come: where it has [ended](Stands::Ended) to be one of the cluster, it is to be started again.
    fn stay(&mut self, _: &mut World, _: MemberId) -> Stands {
        Stands::Elsewhere
    }

    /// How far it has come with ending.
    fn stands(&self, _: &World, _: MemberId) -> Stands {
        Stands::Elsewhere
    }

    /// How many operations have failed so far, which tells which faults were felt.
    fn failed(&self) -> u64;

    /// How everything is, for people.
    fn state(&self, options: &Options) -> String;

    /// The faults are over: starts whoever does not run any more, as an operator would.
    ///
    /// # Errors
    /// See [`Failure`].
    fn start_ended(&mut self, _: &mut World, _: &Options) -> Result<(), Failure> {
        Ok(())
    }

    /// Everything is healed and everybody is back, and clients have done what they had to do: the cluster is
    /// to become what it should be, and is judged by that.
    ///
    /// # Errors
    /// What is wrong.
    fn converge(&mut self, world: &mut World, options: &Options) -> Result<(), Failure>;
}

/// A run under way, or over.
pub struct Play {
    /// Where it plays.
    pub world: World,
    /// What was drawn.
    pub options: Options,
    /// How much of everything there is.
    pub sizes: Sizes,
    /// What disturbed it.
    pub faults: nemesis::Counts,
    plan: Plan,
    places: Vec<Place>,
}

impl Play {
    /// Draws a run from `seed`, but no more of it than `caps` say.
    pub fn draw(seed: u64, caps: &Caps) -> Self {
        Self::draw_with(seed, caps, false)
    }

    /// The same, with an operator who does something too, if there `is_operated`.
    pub fn draw_with(seed: u64, caps: &Caps, is_operated: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        // Tables by themselves, so that a run without them is drawn as one was before there were any.
        let mut of_tables = StdRng::seed_from_u64(!seed);
        let options = Options::draw(&mut random).with_tables(&mut of_tables);
        // So is what an operator does.
        let mut of_orders = StdRng::seed_from_u64(seed ^ ORDERS);
        let options = if is_operated { options.with_orders(&mut of_orders) } else { options };
        let options = options.cap(caps);
        let mut world = World::new(random.random(), options.network());
        let plan = Plan::draw(&mut StdRng::seed_from_u64(random.random()), &options.swarm);
        let orders = Plan::draw(&mut of_orders, &options.orders.swarm);
        let plan = plan.and(orders).first(caps.faults).without(&caps.without);
        let sizes = options.sizes(plan.faults.len());
        let mut places = Vec::new();
        let roles = [
            (Role::Coordinator, options.coordinators),
            (Role::Storage, options.storage_nodes),
            (Role::Client, options.clients),
        ];
        // Each by itself, so that who is left of a smaller run has the clock that it had.
        let skew_seed: u64 = random.random();
        for (net, (role, count)) in (0_u8..).zip(roles) {
            for number in 0..count {
                let [host, ..] = number.to_le_bytes();
                let mut random = StdRng::seed_from_u64(
                    skew_seed.wrapping_add(u64::from(net) << 8 | u64::from(host)),
                );
                let skew = options.skew(&mut random);
                let member = world.add_host([10, 0, net, host + 1].into(), Some(skew));
                places.push(Place { member, role, number, begins: Begins::Anew });
            }
        }
        Play { world, options, sizes, faults: nemesis::Counts::default(), plan, places }
    }

    /// The hosts of a role.
    pub fn members(&self, role: Role) -> impl Iterator<Item = MemberId> {
        self.places.iter().filter(move |place| place.role == role).map(|place| place.member)
    }

    /// Builds everything, disturbs it until the clients are done, heals it, waits for the clients, and has the
    /// cluster converge.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(&mut self, builder: &mut dyn Builder) -> Result<(), Failure> {
        if let Some(watcher) = builder.watcher() {
            self.world.show_to(watcher);
        }
        for place in self.places.clone() {
            builder.build(&mut self.world, place, &self.options)?;
        }
        let nodes = self.members(Role::Coordinator).chain(self.members(Role::Storage)).collect();
        let clients = self.members(Role::Client).collect();
        let plan = std::mem::take(&mut self.plan);
        let nemesis = Nemesis::new(plan, &self.world, nodes, clients);
        let mut nemesis = nemesis.sparing(builder.spares());
        while let Some(at) = nemesis.next_at() {
            if self.world.run_until(at)? {
                break;
            }
            self.rebuilding(builder, |world, failed, hand| nemesis.act(world, failed, hand))?;
        }
        self.rebuilding(builder, |world, failed, hand| nemesis.heal(world, failed, hand))?;
        self.faults = nemesis.counts().clone();
        builder.start_ended(&mut self.world, &self.options)?;
        let end = self.world.clock().now() + self.options.finish_time_max;
        if !self.world.run_until(end)? {
            return Err(Failure::TooLong { at: end, state: builder.state(&self.options) });
        }
        builder.converge(&mut self.world, &self.options)
    }

    /// Lets the nemesis do something, for which hosts may have to be built again.
    fn rebuilding(
        &mut self,
        builder: &mut dyn Builder,
        act: impl FnOnce(&mut World, u64, &mut dyn nemesis::Hand),
    ) -> Result<(), Failure> {
        let Play { world, options, places, .. } = self;
        let failed = builder.failed();
        let mut hand = Rebuilding { builder, options, places, built: Ok(()) };
        act(world, failed, &mut hand);
        Ok(hand.built?)
    }

    /// The world's time since its beginning.
    pub fn passed(&self) -> std::time::Duration {
        self.world.clock().now().since(Time::ZERO)
    }
}

/// What tells the seed of an operator from that of all else.
const ORDERS: u64 = 0x0bde_0bde;

/// Has a builder do what is to be done to hosts.
struct Rebuilding<'p> {
    builder: &'p mut dyn Builder,
    options: &'p Options,
    places: &'p [Place],
    /// The first that could not be built.
    built: Result<(), BuildError>,
}

impl nemesis::Hand for Rebuilding<'_> {
    fn restart(&mut self, world: &mut World, member: MemberId, fate: DiskFate) {
        let place = self.places.iter().find(|place| place.member == member);
        let Some(place) = place.copied() else { return };
        let place = Place { begins: Begins::Again(fate), ..place };
        let again =
            world.restart(member, fate, |world| self.builder.build(world, place, self.options));
        if self.built.is_ok() {
            self.built = again;
        }
    }

    fn stop(&mut self, world: &mut World, member: MemberId) -> bool {
        let told = self.builder.stop(world, member);
        told.unwrap_or_else(|error| {
            self.built = Err(error);
            false
        })
    }

    fn start(&mut self, world: &mut World, member: MemberId) -> bool {
        let stands = self.builder.stands(world, member);
        self.go_on(world, member, stands)
    }

    fn leave(&mut self, world: &mut World, member: MemberId) -> bool {
        self.builder.leave(world, member)
    }

    fn stay(&mut self, world: &mut World, member: MemberId) -> bool {
        let stands = self.builder.stay(world, member);
        self.go_on(world, member, stands)
    }
}

impl Rebuilding<'_> {
    /// Starts again what has ended. Returns whether there is nothing left to do.
    fn go_on(&mut self, world: &mut World, member: MemberId, stands: Stands) -> bool {
        match stands {
            Stands::Ending => return false,
            Stands::Elsewhere => {}
            Stands::Ended => {
                world.crash(member, SimCrash::Process);
                nemesis::Hand::restart(self, world, member, DiskFate::Kept);
            }
        }
        true
    }
}
