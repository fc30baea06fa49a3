//! Which faults there are to be, and when.

use std::fmt;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A connection is lost.
    Lose,
    /// A host does nothing for a while, as after SIGSTOP.
    Pause,
    /// A host hears nobody, and nobody hears it.
    Isolate,
    /// Hosts are on two sides, clients too: each hears its own side only.
    Split,
    /// Two hosts do not hear each other; both hear the others.
    CutPair,
    /// One host does not hear another, which hears it.
    CutOneWay,
    /// Bytes between two hosts take much longer.
    Slow,
    /// A process dies, and is started again.
    CrashProcess,
    /// A machine loses power, with what its disk had not been made to keep.
    CrashMachine,
    /// A machine loses power, and comes back with an empty disk.
    Replace,
    /// All machines that are up lose power at once, and come back.
    PowerCut,
    /// A disk takes longer.
    DiskSlow,
    /// A disk has no more room.
    DiskFull,
    /// A sync or a write of a disk fails, and the process is started again some time later.
    DiskFails,
    /// A node is told to end, closes its logs in good order, and is started again.
    Stop,
    /// The same of a node whose disk has had no more room for a while, and has none until it has ended.
    StopFull,
    /// A node is told to leave, and to stay after all.
    Leave,
}

impl Kind {
    /// What an operator does, on purpose. Drawn by itself, so that what else there is stays as it is.
    pub const ORDERS: [Kind; 3] = [Kind::Stop, Kind::StopFull, Kind::Leave];

    /// What nobody has asked for.
    pub const ALL: [Kind; 14] = [
        Kind::Lose,
        Kind::Pause,
        Kind::Isolate,
        Kind::Split,
        Kind::CutPair,
        Kind::CutOneWay,
        Kind::Slow,
        Kind::CrashProcess,
        Kind::CrashMachine,
        Kind::Replace,
        Kind::PowerCut,
        Kind::DiskSlow,
        Kind::DiskFull,
        Kind::DiskFails,
    ];

    /// Whether processes end by it, without having been told to.
    pub fn ends_processes(self) -> bool {
        match self {
            Kind::CrashProcess
            | Kind::CrashMachine
            | Kind::Replace
            | Kind::PowerCut
            | Kind::DiskFails => true,
            Kind::Lose
            | Kind::Pause
            | Kind::Isolate
            | Kind::Split
            | Kind::CutPair
            | Kind::CutOneWay
            | Kind::Slow
            | Kind::DiskSlow
            | Kind::DiskFull
            | Kind::Stop
            | Kind::StopFull
            | Kind::Leave => false,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Lose => "connection lost",
            Kind::Pause => "host paused",
            Kind::Isolate => "host cut off from all",
            Kind::Split => "hosts split into two sides",
            Kind::CutPair => "two hosts cut off from each other",
            Kind::CutOneWay => "one way cut",
            Kind::Slow => "slow way",
            Kind::CrashProcess => "process crashed",
            Kind::CrashMachine => "machine crashed",
            Kind::Replace => "machine crashed, disk replaced",
            Kind::PowerCut => "all machines lost power",
            Kind::DiskSlow => "slow disk",
            Kind::DiskFull => "full disk",
            Kind::DiskFails => "disk failed, process started again",
            Kind::Stop => "node stopped in good order",
            Kind::StopFull => "node stopped with a full disk",
            Kind::Leave => "node told to leave, and to stay after all",
        }
    }
}

/// Which kinds a run has, and how many faults.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swarm {
    /// Drawn from these; none is no faults.
    pub kinds: Vec<Kind>,
    /// Mean time between two faults.
    pub interval: Duration,
    /// The longest that one lasts.
    pub lasts_max: Duration,
    /// No more faults than this.
    pub faults_max: usize,
}

impl Swarm {
    /// Draws a subset of `kinds`, of which each is in half of the runs.
    pub fn draw(
        random: &mut StdRng,
        kinds: &[Kind],
        interval: Duration,
        lasts_max: Duration,
        faults_max: usize,
    ) -> Self {
        let kinds = kinds.iter().copied().filter(|_| random.random_bool(0.5)).collect();
        Swarm { kinds, interval, lasts_max, faults_max }
    }
}

/// A fault to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When it begins, from the beginning of the plan.
    pub after: Duration,
    /// Of which kind it is.
    pub kind: Kind,
    /// How long it lasts, where it does.
    pub lasts: Duration,
    /// What is drawn from: whom it hits.
    pub seed: u64,
}

/// Faults to be, in the order of their beginnings.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The faults.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Draws the faults of a run.
    pub fn draw(random: &mut StdRng, swarm: &Swarm) -> Self {
        let mut after = Duration::ZERO;
        let count = if swarm.kinds.is_empty() { 0 } else { swarm.faults_max };
        let faults = (0..count).map(|_| {
            after += random.random_range(Duration::ZERO..=swarm.interval * 2);
            let kind = swarm.kinds[random.random_range(0..swarm.kinds.len())];
            let lasts = random.random_range(Duration::ZERO..=swarm.lasts_max);
            Fault { after, kind, lasts, seed: random.random() }
        });
        Plan { faults: faults.collect() }
    }

    /// With the faults of another plan, each when it would be there.
    #[must_use]
    pub fn and(mut self, other: Plan) -> Self {
        self.faults.extend(other.faults);
        // Two at one moment stay in this order.
        self.faults.sort_by_key(|fault| fault.after);
        self
    }

    /// The first ones only.
    #[must_use]
    pub fn first(mut self, count: Option<u32>) -> Self {
        self.faults.truncate(count.map_or(usize::MAX, |count| count as usize));
        self
    }

    /// The same plan without the faults at these places.
    #[must_use]
    pub fn without(self, places: &[usize]) -> Self {
        let kept = self.faults.into_iter().enumerate();
        let kept = kept.filter(|(place, _)| !places.contains(place));
        Plan { faults: kept.map(|(_, fault)| fault).collect() }
    }
}

impl fmt::Display for Swarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Swarm { kinds, interval, lasts_max, faults_max } = self;
        if kinds.is_empty() || *faults_max == 0 {
            return write!(f, "no faults");
        }
        write!(f, "{faults_max} faults, one every {interval:?}, to {lasts_max:?} long, of: ")?;
        for (index, kind) in kinds.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, kind.name())?;
        }
        Ok(())
    }
}
