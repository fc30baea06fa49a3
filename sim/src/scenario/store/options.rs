//! What a run of the scenario is like.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use weft_transport::SimConfig;

/// Everything that is drawn once a run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Options {
    pub(super) nodes: u8,
    pub(super) partitions: u16,
    pub(super) clients: u32,
    /// Tasks that use one client at the same time.
    pub(super) requesters: u32,
    pub(super) keys: u32,
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
    /// Mean time between two faults.
    pub(super) fault_interval: Option<Duration>,
    /// The longest pause of a node; zero is none.
    pub(super) pause_max: Duration,
    /// How one of several nodes goes, after a drawn number of faults.
    pub(super) node_goes: Option<Going>,
}

/// How a node goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Going {
    /// In good order.
    Stops,
    /// Without a word: its peers are left to find out.
    Freezes,
}

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
            keys: random.random_range(1..=6),
            operations: random.random_range(5..=operations_max),
            think: micros(random, 1, 20_000),
            // Long enough for a round trip, or nothing would ever be told.
            timeout: 3 * delay_max + micros(random, 1000, 2_000_000),
            value_bytes_max,
            delay: delay_min..delay_max,
            loss: sometimes(random, 0.05),
            partial: sometimes(random, 0.8),
            fault_interval: random.random_bool(0.7).then(|| micros(random, 1000, 200_000)),
            pause_max: if random.random_bool(0.5) {
                micros(random, 1000, 3_000_000)
            } else {
                Duration::ZERO
            },
            node_goes: match random.random_range(0..5) {
                0 if nodes > 1 => Some(Going::Stops),
                1 if nodes > 1 => Some(Going::Freezes),
                _ => None,
            },
        }
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
            "{} nodes with {} partitions, {} clients of {} requesters, {} keys, {} operations each; \
             think {:?}, timeout {:?}, values to {} B; delay {:?}, loss {:.4}, partial {:.2}",
            self.nodes,
            self.partitions,
            self.clients,
            self.requesters,
            self.keys,
            self.operations,
            self.think,
            self.timeout,
            self.value_bytes_max,
            self.delay,
            self.loss,
            self.partial,
        )?;
        if let Some(interval) = self.fault_interval {
            write!(f, "; a fault every {interval:?}, pauses to {:?}", self.pause_max)?;
        }
        match self.node_goes {
            Some(Going::Stops) => write!(f, "; a node stops"),
            Some(Going::Freezes) => write!(f, "; a node freezes"),
            None => Ok(()),
        }
    }
}
