//! What a whole cluster is like.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use weft_protocol::{Durability, TableOptions};
use weft_transport::{SimConfig, Skew};

use super::orders::Orders;
use super::tables::Tables;
use crate::nemesis::{Kind, Swarm};
use crate::scenario::{Caps, Sizes, capped};

/// What of all that is acknowledged is on disks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnDisk {
    /// Nothing.
    Nothing,
    /// Something, or all of it some time later.
    Something,
    /// Everything.
    Everything,
}

/// Everything that is drawn once a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Hosts that decide.
    pub coordinators: u32,
    /// Hosts that hold objects.
    pub storage_nodes: u32,
    /// Partitions of the map.
    pub partitions: u16,
    /// How many hosts hold each object.
    pub replicas: u32,
    /// What of `default` is on disk before it is acknowledged.
    pub durability: Durability,
    /// Tables besides `default`.
    pub tables: Tables,
    /// Hosts that ask.
    pub clients: u32,
    /// Tasks that use one client at the same time.
    pub requesters: u32,
    /// Operations of each such task.
    pub operations: u32,
    /// Keys of each kind: registers, counters, append lists.
    pub keys: u32,
    /// The longest pause of a requester between two operations.
    pub think: Duration,
    /// How long an operation may take.
    pub timeout: Duration,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
    /// How long bytes are under way.
    pub delay: Range<Duration>,
    /// The probability that a send loses its connection.
    pub loss: f64,
    /// The probability that a send or receive is cut short.
    pub partial: f64,
    /// By how much a clock may go wrong, in millionths.
    pub skew_ppm_max: u32,
    /// How long a disk takes for one thing.
    pub disk_takes: Range<Duration>,
    /// After how many bytes a file of a log is followed by the next.
    pub file_bytes: u64,
    /// How many bytes of entries a primary keeps for those that lack them.
    pub tail_bytes: usize,
    /// After how many entries a coordinator makes a snapshot of its state.
    pub snapshot_entries: u64,
    /// What disturbs it.
    pub swarm: Swarm,
    /// What is done to it on purpose.
    pub orders: Orders,
    /// For how long clients may go on after everything is healed.
    pub finish_time_max: Duration,
}

impl Options {
    /// Draws them, with no table but `default`.
    pub fn draw(random: &mut StdRng) -> Self {
        let storage_nodes = random.random_range(3..=5);
        let delay = Duration::from_micros(random.random_range(20..=200));
        // Clients that ask often meet in moments that others seldom see; those that think for long are there for many faults.
        let (think_ms, often) = [(5, 5), (50, 3), (400, 1)][random.random_range(0..3)];
        let mean = Duration::from_millis(random.random_range(50..=1500));
        let lasts = Duration::from_millis(random.random_range(50..=5000));
        let faults = random.random_range(0..=20);
        Options {
            coordinators: 3,
            storage_nodes,
            partitions: random.random_range(1..=6),
            replicas: [1, 2, 3, 3, 3][random.random_range(0..5)],
            durability: Durability::ALL[random.random_range(0..Durability::ALL.len())],
            tables: Tables::default(),
            clients: random.random_range(2..=4),
            requesters: random.random_range(1..=3),
            operations: often * random.random_range(20..=100),
            keys: random.random_range(1..=3),
            think: Duration::from_millis(random.random_range(1..=think_ms)),
            timeout: Duration::from_millis(random.random_range(500..=10_000)),
            value_bytes_max: [16, 100, 4000][random.random_range(0..3)],
            delay: delay..delay + Duration::from_micros(random.random_range(1..=5000)),
            loss: if random.random_bool(0.5) { 0.0 } else { random.random_range(0.0..0.01) },
            partial: if random.random_bool(0.5) { 0.0 } else { random.random_range(0.0..0.8) },
            // Half of what two clocks may differ by while leases are safe, or none.
            skew_ppm_max: [0, 1000, 4900][random.random_range(0..3)],
            disk_takes: Duration::from_micros(20)
                ..Duration::from_micros([500, 5000, 50_000][random.random_range(0..3)]),
            file_bytes: [16 << 10, 128 << 10, 64 << 20][random.random_range(0..3)],
            tail_bytes: [16 << 10, 256 << 10, 64 << 20][random.random_range(0..3)],
            snapshot_entries: [10, 100, 8192][random.random_range(0..3)],
            swarm: Swarm::draw(random, &Kind::ALL, mean, lasts, faults),
            orders: Orders::default(),
            finish_time_max: Duration::from_secs(600),
        }
    }

    /// With the tables besides `default` that `random` draws.
    #[must_use]
    pub fn with_tables(self, random: &mut StdRng) -> Self {
        Options { tables: Tables::draw(random, self.durability), ..self }
    }

    /// Makes a run smaller than it was drawn.
    #[must_use]
    pub fn cap(mut self, caps: &Caps) -> Self {
        self.clients = capped(self.clients, caps.clients);
        self.requesters = capped(self.requesters, caps.requesters);
        self.operations = capped(self.operations, caps.operations);
        self.keys = capped(self.keys, caps.keys);
        if let Some(tables) = caps.tables {
            self.tables.cap(tables as usize);
        }
        if let Some(faults) = caps.faults {
            self.swarm.faults_max = self.swarm.faults_max.min(faults as usize);
        }
        self
    }

    /// What `default` is like.
    pub fn default_table(&self) -> TableOptions {
        let (replicas, durability) = (self.replicas as u8, self.durability);
        TableOptions { replicas, durability, ..TableOptions::default() }
    }

    /// See [`OnDisk`].
    pub fn on_disk(&self) -> OnDisk {
        let are_all = |durability| {
            self.durability == durability
                && self.tables.all().all(|table| table.durability == durability)
        };
        if are_all(Durability::Memory) {
            OnDisk::Nothing
        } else if are_all(Durability::Fsync) {
            OnDisk::Everything
        } else {
            OnDisk::Something
        }
    }

    /// How the network behaves; the world draws its seed.
    pub fn network(&self) -> SimConfig {
        SimConfig { seed: 0, delay: self.delay.clone(), loss: self.loss, partial: self.partial }
    }

    /// A clock.
    pub(super) fn skew(&self, random: &mut StdRng) -> Skew {
        let max = self.skew_ppm_max;
        let rate_ppm = random.random_range(1_000_000 - max..=1_000_000 + max);
        Skew { rate_ppm, ..Skew::NONE }
    }

    pub(super) fn sizes(&self, faults: usize) -> Sizes {
        Sizes {
            clients: self.clients,
            requesters: self.requesters,
            operations: self.operations,
            keys: self.keys,
            tables: self.tables.count() as u32,
            faults: u32::try_from(faults).unwrap_or(u32::MAX),
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { coordinators, storage_nodes, partitions, replicas, durability, .. } = self;
        let Options { clients, requesters, operations, keys, think, timeout, .. } = self;
        let Options { value_bytes_max, delay, loss, partial, skew_ppm_max, swarm, .. } = self;
        let Options {
            disk_takes, file_bytes, tail_bytes, snapshot_entries, tables, orders, ..
        } = self;
        write!(f, "{coordinators} coordinators, {storage_nodes} storage nodes, ")?;
        write!(f, "{partitions} partitions, {replicas} replicas, {durability}; {tables}; ")?;
        write!(f, "{clients} clients of {requesters} requesters, {keys} keys of each kind, ")?;
        write!(f, "{operations} operations each; think {think:?}, timeout {timeout:?}, ")?;
        write!(f, "values to {value_bytes_max} B; delay {delay:?}, loss {loss:.4}, ")?;
        write!(f, "disks take {disk_takes:?}, files to {file_bytes} B, tails to {tail_bytes} B, ")?;
        write!(
            f,
            "a snapshot every {snapshot_entries} entries, partial {partial:.2}; clocks wrong by up to {skew_ppm_max} millionths; {swarm}; {orders}"
        )
    }
}
