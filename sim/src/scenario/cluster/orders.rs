//! What an operator does to a cluster on purpose: he stops nodes in good order and starts them again, has them leave and stay, and gives some of
//! them no disk.

use std::fmt;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use weft_protocol::Durability;

use super::options::{OnDisk, Options};
use crate::nemesis::{Kind, Swarm};

/// What is drawn of him; nothing where there is none.
#[derive(Clone, PartialEq, Debug)]
pub struct Orders {
    /// How many of the storage nodes, the last ones, keep nothing on disk though others do.
    pub diskless: u32,
    /// What he does, and when.
    pub swarm: Swarm,
}

impl Default for Orders {
    fn default() -> Self {
        let swarm = Swarm {
            kinds: Vec::new(),
            interval: Duration::ZERO,
            lasts_max: Duration::ZERO,
            faults_max: 0,
        };
        Orders { diskless: 0, swarm }
    }
}

impl Orders {
    /// Draws them for a cluster of which all else is drawn. In half of all runs that keep something on disk some nodes keep nothing, but so few that every
    /// table that is there to the end finds as many that do as it is to be on.
    fn draw(random: &mut StdRng, options: &Options) -> Orders {
        let is_kept = |durability| durability != Durability::Memory;
        let default = options.default_table();
        let lasting = options.tables.lasting.iter().chain([&default]);
        let kept = lasting.filter(|table| is_kept(table.durability)).map(|table| table.replicas);
        let needed = kept.map(u32::from).max().unwrap_or(1).min(options.storage_nodes);
        let most = options.storage_nodes - needed;
        let (is_mixed, drawn) = (random.random_bool(0.5), random.random_range(0..=most));
        let is_any = options.on_disk() != OnDisk::Nothing && is_mixed;
        let interval = Duration::from_millis(random.random_range(50..=1500));
        let lasts = Duration::from_millis(random.random_range(50..=5000));
        let count = random.random_range(1..=12);
        let kinds = Kind::ORDERS.to_vec();
        let swarm = Swarm { kinds, interval, lasts_max: lasts, faults_max: count };
        Orders { diskless: if is_any { drawn } else { 0 }, swarm }
    }
}

impl Options {
    /// With the operator that `random` draws. In a third of the runs nothing else ends a process: then what he stops is to lose nothing of what is on disk, soon or at once.
    #[must_use]
    pub fn with_orders(self, random: &mut StdRng) -> Self {
        let orders = Orders::draw(random, &self);
        let mut swarm = self.swarm.clone();
        if random.random_range(0..3) == 0 {
            swarm.kinds.retain(|kind| !kind.ends_processes());
        }
        Options { orders, swarm, ..self }
    }

    /// Whether a storage node of this number keeps what is to be on disk.
    pub fn has_disk(&self, number: u32) -> bool {
        self.on_disk() != OnDisk::Nothing && number < self.storage_nodes - self.orders.diskless
    }
}

impl fmt::Display for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Orders { diskless, swarm } = self;
        if swarm.kinds.is_empty() {
            return write!(f, "no operator");
        }
        write!(f, "an operator: {diskless} nodes without a disk, {swarm}")
    }
}
