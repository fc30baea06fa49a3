//! What a run of the scenario is like.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use weft_transport::{SimConfig, Skew};

use crate::nemesis::{Kind, Swarm};
use crate::scenario::{Caps, Sizes, capped};

/// Everything that is drawn once a run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Options {
    pub(super) nodes: u8,
    pub(super) partitions: u16,
    pub(super) clients: u32,
    /// Tasks that use one client at the same time.
    pub(super) requesters: u32,
    /// Keys that are put, deleted, compared and set.
    pub(super) registers: u32,
    /// Keys that are counted up.
    pub(super) counters: u32,
    /// Keys that are appended to.
    pub(super) lists: u32,
    /// Operations of a requester.
    pub(super) operations: u32,
    /// The longest pause of a requester between two operations.
    pub(super) think: Duration,
    /// How long an operation may take.
    pub(super) timeout: Duration,
    pub(super) value_bytes_max: usize,
    pub(super) delay: Range<Duration>,
    pub(super) loss: f64,
    pub(super) partial: f64,
    /// Mean time between two faults; zero or none of them in some runs.
    pub(super) swarm: Swarm,
    /// How one of several nodes goes, and when.
    pub(super) node_goes: Option<(Going, Duration)>,
    /// By how much a node's clock may go wrong, in millionths.
    pub(super) skew_ppm_max: u32,
}

/// How a node goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Going {
    /// In good order.
    Stops,
    /// Without a word: its peers are left to find out.
    Freezes,
    /// At once, with all that it had to say.
    Crashes,
}

/// What may happen to nodes that hold everything in memory and nowhere else: nothing that they would not come
/// back from.
const KINDS: [Kind; 6] =
    [Kind::Lose, Kind::Pause, Kind::Isolate, Kind::CutPair, Kind::CutOneWay, Kind::Slow];

/// Faults a run: they may come faster than a client can connect, so there has to be an end of them.
const FAULTS_MAX: usize = 300;

impl Options {
    pub(super) fn draw(random: &mut StdRng) -> Self {
        let nodes = random.random_range(1..=4);
        let delay_min = micros(random, 1, 200);
        let delay_max = delay_min + micros(random, 1, 20_000);
        // Large values fill links, and replies of several parts; histories hold every one of them.
        let value_bytes_max = [16, 100, 4000, 100_000, 300_000][random.random_range(0..5)];
        let operations_max = if value_bytes_max > 4000 { 20 } else { 60 };
        Options {
            nodes,
            partitions: u16::from(nodes) * random.random_range(1..=8),
            clients: random.random_range(1..=5),
            requesters: random.random_range(1..=3),
            registers: random.random_range(1..=4),
            counters: random.random_range(1..=2),
            lists: random.random_range(1..=2),
            operations: random.random_range(5..=operations_max),
            think: micros(random, 1, 20_000),
            // Long enough for a round trip, or nothing would ever be told.
            timeout: 3 * delay_max + micros(random, 1000, 2_000_000),
            value_bytes_max,
            delay: delay_min..delay_max,
            loss: sometimes(random, 0.05),
            partial: sometimes(random, 0.8),
            swarm: {
                let (interval, lasts) =
                    (micros(random, 1000, 200_000), micros(random, 1000, 3_000_000));
                let faults_max = if random.random_bool(0.8) { FAULTS_MAX } else { 0 };
                Swarm::draw(random, &KINDS, interval, lasts, faults_max)
            },
            node_goes: {
                let after = micros(random, 100, 300_000);
                match random.random_range(0..6) {
                    0 if nodes > 1 => Some((Going::Stops, after)),
                    1 if nodes > 1 => Some((Going::Freezes, after)),
                    2 if nodes > 1 => Some((Going::Crashes, after)),
                    _ => None,
                }
            },
            skew_ppm_max: [0, 100, 10_000, 500_000][random.random_range(0..4)],
        }
    }

    /// Makes a run smaller than it was drawn.
    pub(super) fn cap(mut self, caps: &Caps) -> Self {
        let keys = |drawn| capped(drawn, caps.keys);
        self.clients = capped(self.clients, caps.clients);
        self.requesters = capped(self.requesters, caps.requesters);
        self.operations = capped(self.operations, caps.operations);
        (self.registers, self.counters) = (keys(self.registers), keys(self.counters));
        self.lists = keys(self.lists);
        if let Some(faults) = caps.faults {
            self.swarm.faults_max = self.swarm.faults_max.min(faults as usize);
        }
        self
    }

    pub(super) fn sizes(&self, faults: usize) -> Sizes {
        Sizes {
            clients: self.clients,
            requesters: self.requesters,
            operations: self.operations,
            keys: self.registers.max(self.counters).max(self.lists),
            tables: 0,
            faults: u32::try_from(faults).unwrap_or(u32::MAX),
        }
    }

    /// The clock of one node.
    pub(super) fn skew(&self, random: &mut StdRng) -> Skew {
        let max = self.skew_ppm_max;
        let rate_ppm = random.random_range(1_000_000 - max..=1_000_000 + max);
        Skew { rate_ppm, ..Skew::NONE }
    }

    pub(super) fn network(&self) -> SimConfig {
        // The world draws the seed.
        SimConfig { seed: 0, delay: self.delay.clone(), loss: self.loss, partial: self.partial }
    }
}

/// Between two bounds, of which each order of magnitude is as likely.
fn micros(random: &mut StdRng, min: u64, max: u64) -> Duration {
    let exponent = random.random_range((min as f64).ln()..=(max as f64).ln());
    Duration::from_micros(exponent.exp() as u64)
}

/// Zero in every third run.
fn sometimes(random: &mut StdRng, max: f64) -> f64 {
    if random.random_range(0..3) == 0 { 0.0 } else { random.random_range(0.0..max) }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} nodes with {} partitions, {} clients of {} requesters, {} registers, {} counters, \
             {} lists, {} operations each; think {:?}, timeout {:?}, values to {} B; delay {:?}, loss {:.4}, partial {:.2}",
            self.nodes,
            self.partitions,
            self.clients,
            self.requesters,
            self.registers,
            self.counters,
            self.lists,
            self.operations,
            self.think,
            self.timeout,
            self.value_bytes_max,
            self.delay,
            self.loss,
            self.partial,
        )?;
        write!(f, "; clocks wrong by up to {} millionths; {}", self.skew_ppm_max, self.swarm)?;
        match self.node_goes {
            Some((Going::Stops, after)) => write!(f, "; a node stops after {after:?}"),
            Some((Going::Freezes, after)) => write!(f, "; a node freezes after {after:?}"),
            Some((Going::Crashes, after)) => write!(f, "; a node crashes after {after:?}"),
            None => Ok(()),
        }
    }
}
