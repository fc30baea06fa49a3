//! What disturbs a run: a plan of faults, drawn before the run, so that a run without some of them is
//! the same run otherwise.
//!
//! Each run enables some kinds of faults only: a run with every fault at once hides what only a quiet
//! one shows ("Swarm testing", Groce et al., ISSTA 2012). Faults overlap. In the end everything is
//! healed, and whoever is down comes back. A fault that nobody noticed has tried nothing, so it is counted
//! how many bit.

mod hand;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use weft_transport::{SimCounters, SimCrash, Time};

pub use hand::Hand;
pub use plan::{Fault, Kind, Plan, Swarm};

use crate::world::{DiskFate, MemberId, World};

/// Faults under way.
pub struct Nemesis {
    plan: Plan,
    began: Time,
    /// The next of the plan.
    next: usize,
    ongoing: Vec<Ongoing>,
    targets: Vec<MemberId>,
    /// Hosts that no fault but those between hosts concerns, such as clients'.
    bystanders: Vec<MemberId>,
    counts: Counts,
    spares: Box<Spares>,
}

/// Whether a host is spared a fault that it could not come back from.
pub type Spares = dyn FnMut(&World, MemberId, Kind) -> bool;

/// How often faults of each kind were injected, and how often they bit.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Counts(pub BTreeMap<Kind, Count>);

/// Of one kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Count {
    /// Times that it was injected.
    pub injected: u64,
    /// Times that an operation failed meanwhile, or something was lost or late because of it.
    pub bit: u64,
}

/// A fault that is to end.
struct Ongoing {
    ends_at: Time,
    kind: Kind,
    undo: Undo,
    before: Harm,
}

enum Undo {
    /// It ended as it began.
    Nothing,
    Ways(Vec<(MemberId, MemberId)>),
    Speed(Vec<(MemberId, MemberId)>),
    Deaths(Vec<MemberId>, DiskFate),
    /// The disk is as it should be again.
    Disk(MemberId),
    /// So is the disk, and the process, which has to be started again, is another.
    Process(MemberId),
    /// What was told to end has ended, and is started again.
    Stop(MemberId),
    /// What has no more room on its disk is told to end.
    Fill(MemberId),
    /// It has ended, and has room again.
    StopFull(MemberId),
    /// What was told to leave stays.
    Leave(MemberId),
}

/// What faults have done so far, in all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Harm {
    network: SimCounters,
    /// What disks did late or not at all.
    disks: u64,
    delayed: u64,
    failed: u64,
}

impl Nemesis {
    /// Carries out `plan` from now on. `targets` are the hosts that crash and pause; ways are cut between
    /// them and to `bystanders`.
    pub fn new(
        plan: Plan,
        world: &World,
        targets: Vec<MemberId>,
        bystanders: Vec<MemberId>,
    ) -> Self {
        let began = world.clock().now();
        let (ongoing, counts) = (Vec::new(), Counts::default());
        let spares = Box::new(|_: &World, _, _| false);
        Nemesis { plan, began, next: 0, ongoing, targets, bystanders, counts, spares }
    }

    /// The same, but what `spares` says is not done.
    #[must_use]
    pub fn sparing(self, spares: impl FnMut(&World, MemberId, Kind) -> bool + 'static) -> Self {
        Nemesis { spares: Box::new(spares), ..self }
    }

    /// When it has something to do next.
    pub fn next_at(&self) -> Option<Time> {
        let ends = self.ongoing.iter().map(|ongoing| ongoing.ends_at);
        let begins = self.plan.faults.get(self.next).map(|fault| self.began + fault.after);
        ends.chain(begins).min()
    }

    /// Begins and ends what is due. `failed` is how many operations have failed so far.
    pub fn act(&mut self, world: &mut World, failed: u64, hand: &mut dyn Hand) {
        let now = world.clock().now();
        self.end_where(world, failed, hand, |ongoing| ongoing.ends_at <= now);
        while let Some(fault) = self.plan.faults.get(self.next).cloned()
            && self.began + fault.after <= now
        {
            self.next += 1;
            self.begin(world, failed, hand, &fault);
        }
    }

    /// Ends everything: ways are healed, nobody is paused, everybody lives, but for those that were told to end and have not yet. Nothing begins any more.
    pub fn heal(&mut self, world: &mut World, failed: u64, hand: &mut dyn Hand) {
        self.next = self.plan.faults.len();
        self.end_where(world, failed, hand, |_| true);
        for Ongoing { undo, .. } in std::mem::take(&mut self.ongoing) {
            if let Undo::StopFull(member) = undo {
                world.disk(member).lock().repair();
            }
        }
        world.network().heal_all();
        world.network().configure(|config| config.loss = 0.0);
        for member in self.targets.iter().chain(&self.bystanders) {
            world.resume(*member);
        }
    }

    /// Leaves a host alone from now on: it is gone for good.
    pub fn spare(&mut self, member: MemberId) {
        self.targets.retain(|target| *target != member);
        self.bystanders.retain(|bystander| *bystander != member);
    }

    /// What was injected so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn begin(&mut self, world: &mut World, failed: u64, hand: &mut dyn Hand, fault: &Fault) {
        // What it hits follows from the fault alone, whatever other faults there are.
        let mut random = StdRng::seed_from_u64(fault.seed);
        let before = harm(world, failed);
        let Some((undo, lasts)) = self.inject(world, hand, fault, &mut random) else { return };
        self.counts.0.entry(fault.kind).or_default().injected += 1;
        let ends_at = world.clock().now() + lasts;
        self.ongoing.push(Ongoing { ends_at, kind: fault.kind, undo, before });
    }

    /// Returns what ends it, unless there is nobody to hit.
    fn inject(
        &mut self,
        world: &mut World,
        hand: &mut dyn Hand,
        fault: &Fault,
        random: &mut StdRng,
    ) -> Option<(Undo, Duration)> {
        let victim = self.victim(world, random)?;
        if (self.spares)(world, victim, fault.kind) {
            return None;
        }
        let lasts = fault.lasts;
        let undo = match fault.kind {
            Kind::Lose => {
                world.network().lose_one().then_some(())?;
                // Who loses it takes a moment to notice.
                return Some((Undo::Nothing, AFTERMATH));
            }
            Kind::Pause => {
                world.pause(victim, lasts);
                return Some((Undo::Nothing, lasts + AFTERMATH));
            }
            Kind::Isolate => {
                let others = self.others(victim);
                let ways = others.flat_map(|other| [(victim, other), (other, victim)]).collect();
                Self::cut(world, ways)
            }
            Kind::Split => {
                // The victim is on one of the sides, so that this is not nobody's.
                let (here, there): (Vec<MemberId>, Vec<MemberId>) =
                    self.others(victim).partition(|_| random.random_bool(0.5));
                let here = here.into_iter().chain([victim]);
                let ways = here.flat_map(|one| {
                    there.iter().flat_map(move |other| [(one, *other), (*other, one)])
                });
                Self::cut(world, ways.collect())
            }
            Kind::CutPair => {
                let other = self.another(victim, random)?;
                Self::cut(world, vec![(victim, other), (other, victim)])
            }
            Kind::CutOneWay => {
                let other = self.another(victim, random)?;
                let from_victim = random.random_bool(0.5);
                Self::cut(world, vec![if from_victim { (victim, other) } else { (other, victim) }])
            }
            Kind::Slow => {
                let other = self.another(victim, random)?;
                let ways = vec![(victim, other), (other, victim)];
                let extra = Duration::from_millis(1)..Duration::from_millis(200);
                for (from, to) in &ways {
                    let (from, to) = (world.address(*from), world.address(*to));
                    world.network().slow(from, to, Some(extra.clone()));
                }
                Undo::Speed(ways)
            }
            Kind::CrashProcess => {
                world.crash(victim, SimCrash::Process);
                Undo::Deaths(vec![victim], DiskFate::Kept)
            }
            Kind::CrashMachine => {
                world.crash(victim, SimCrash::Machine);
                Undo::Deaths(vec![victim], DiskFate::Torn)
            }
            Kind::Replace => {
                world.crash(victim, SimCrash::Machine);
                Undo::Deaths(vec![victim], DiskFate::Wiped)
            }
            Kind::PowerCut => {
                let up = self.targets.iter().copied().filter(|target| world.is_up(*target));
                let up: Vec<MemberId> = up.collect();
                up.iter().for_each(|member| world.crash(*member, SimCrash::Machine));
                Undo::Deaths(up, DiskFate::Torn)
            }
            Kind::DiskSlow => {
                let most = Duration::from_millis(random.random_range(10..=500));
                world.disk(victim).lock().slow(Duration::from_millis(1)..most);
                Undo::Disk(victim)
            }
            Kind::DiskFull => {
                world.disk(victim).lock().fill();
                Undo::Disk(victim)
            }
            Kind::DiskFails => {
                let disk = world.disk(victim);
                if random.random_bool(0.5) {
                    disk.lock().fail_next_sync();
                } else {
                    disk.lock().fail_next_append();
                }
                Undo::Process(victim)
            }
            Kind::Stop => {
                hand.stop(world, victim).then_some(())?;
                Undo::Stop(victim)
            }
            Kind::StopFull => {
                world.disk(victim).lock().fill();
                Undo::Fill(victim)
            }
            Kind::Leave => {
                hand.leave(world, victim).then_some(())?;
                Undo::Leave(victim)
            }
        };
        Some((undo, lasts))
    }

    fn cut(world: &World, ways: Vec<(MemberId, MemberId)>) -> Undo {
        for (from, to) in &ways {
            world.network().cut(world.address(*from), world.address(*to));
        }
        Undo::Ways(ways)
    }

    fn end_where(
        &mut self,
        world: &mut World,
        failed: u64,
        hand: &mut dyn Hand,
        is_over: impl Fn(&Ongoing) -> bool,
    ) {
        let (over, ongoing) =
            std::mem::take(&mut self.ongoing).into_iter().partition::<Vec<_>, _>(is_over);
        self.ongoing = ongoing;
        for Ongoing { kind, undo, before, .. } in over {
            let is_over = match undo {
                Undo::Stop(member) => hand.start(world, member),
                // What it holds alone may be more by now.
                Undo::Fill(member)
                    if !(self.spares)(world, member, kind) && hand.stop(world, member) =>
                {
                    let ends_at = world.clock().now() + LOOK_AGAIN;
                    let undo = Undo::StopFull(member);
                    self.ongoing.push(Ongoing { ends_at, kind, undo, before });
                    continue;
                }
                // He makes room before it starts, and not while it ends.
                Undo::StopFull(member) => hand.start(world, member),
                Undo::Leave(member) => hand.stay(world, member),
                _ => true,
            };
            if !is_over {
                let ends_at = world.clock().now() + LOOK_AGAIN;
                self.ongoing.push(Ongoing { ends_at, kind, undo, before });
                continue;
            }
            let has_bitten = harm(world, failed) != before;
            self.counts.0.entry(kind).or_default().bit += u64::from(has_bitten);
            self.undo(world, undo, hand);
        }
    }

    fn undo(&self, world: &mut World, undo: Undo, hand: &mut dyn Hand) {
        match undo {
            Undo::Nothing | Undo::Stop(_) | Undo::Leave(_) => {}
            Undo::Ways(ways) => {
                for way in ways.into_iter().filter(|way| !self.is_cut_otherwise(*way)) {
                    world.network().heal(world.address(way.0), world.address(way.1));
                }
            }
            Undo::Speed(ways) => {
                for (from, to) in ways {
                    world.network().slow(world.address(from), world.address(to), None);
                }
            }
            Undo::Deaths(members, fate) => {
                members.into_iter().for_each(|member| hand.restart(world, member, fate));
            }
            Undo::Disk(member) | Undo::Fill(member) | Undo::StopFull(member) => {
                world.disk(member).lock().repair();
            }
            Undo::Process(member) => {
                world.disk(member).lock().repair();
                // Whoever is down is started again by what took it down.
                if world.is_up(member) {
                    world.crash(member, SimCrash::Process);
                    hand.restart(world, member, DiskFate::Kept);
                }
            }
        }
    }

    /// Whether another fault keeps a way cut.
    fn is_cut_otherwise(&self, way: (MemberId, MemberId)) -> bool {
        let cuts =
            |ongoing: &Ongoing| matches!(&ongoing.undo, Undo::Ways(ways) if ways.contains(&way));
        self.ongoing.iter().any(cuts)
    }

    /// Somebody who lives.
    fn victim(&self, world: &World, random: &mut StdRng) -> Option<MemberId> {
        let living = self.targets.iter().filter(|target| world.is_up(**target));
        living.copied().collect::<Vec<_>>().choose(random).copied()
    }

    fn another(&self, than: MemberId, random: &mut StdRng) -> Option<MemberId> {
        self.others(than).collect::<Vec<_>>().choose(random).copied()
    }

    fn others(&self, than: MemberId) -> impl Iterator<Item = MemberId> {
        self.targets.iter().chain(&self.bystanders).copied().filter(move |other| *other != than)
    }
}

fn harm(world: &World, failed: u64) -> Harm {
    let (network, delayed) = (world.network().counters(), world.delayed());
    Harm { network, disks: world.disks_failed_or_late(), delayed, failed }
}

/// How long after a fault of a moment its effects are looked for.
const AFTERMATH: Duration = Duration::from_millis(100);
/// How often it is looked whether what was told to end has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        for (kind, Count { injected, bit }) in &other.0 {
            let count = self.0.entry(*kind).or_default();
            count.injected += injected;
            count.bit += bit;
        }
    }

    /// Of one kind.
    pub fn of(&self, kind: Kind) -> Count {
        self.0.get(&kind).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counts {
    /// A table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  injected       bit  fault")?;
        for (kind, Count { injected, bit }) in &self.0 {
            write!(f, "\n{injected:>10}{bit:>10}  {}", kind.name())?;
        }
        Ok(())
    }
}
