//! Reads a table, each worker the partitions that are its own.

mod assignment;
mod beside;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_client::{Object, ScanOptions, Slot, TablePartition};

use self::assignment::assign;
use self::beside::is_beside;
use crate::cluster_table::ClusterTable;
use crate::dataset::{Dataset, records};
use crate::error::JobError;
use crate::worker::Worker;

/// One worker's part of a table; see [`ClusterTable::share`].
#[derive(Debug)]
pub struct TableShare<'t> {
    table: &'t ClusterTable,
    /// Of its partitions, in order.
    slots: Vec<RangeInclusive<Slot>>,
    /// How many of these are served by a node on this machine.
    beside: usize,
}

/// An object of a table.
#[derive(Clone, Debug)]
pub struct TableObject {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value, where it was received.
    pub value: Object,
}

/// See [`TableShare::objects`].
#[derive(Debug)]
pub struct TableObjects<'s> {
    share: &'s TableShare<'s>,
    slots_read: &'s AtomicU64,
}

impl<'t> TableShare<'t> {
    /// What the counters given to [`objects`](Self::objects) by all workers grow by together.
    pub const SLOTS_TO_READ: u64 = Slot::COUNT as u64;

    pub(crate) fn of(table: &'t ClusterTable, worker: &Worker) -> Result<TableShare<'t>, JobError> {
        // Maps differ while nodes change roles: that of worker 0 counts.
        let own = table.client.partitions();
        let told = if worker.id().0 == 0 { own.iter().flat_map(encoded).collect() } else { vec![] };
        let told = records::<Vec<u64>>(told).broadcast().to_vec(worker)?;
        let partitions: Vec<Partition> =
            told.as_chunks().0.iter().filter_map(Partition::decode).collect();
        let mut nodes: Vec<u64> =
            partitions.iter().filter_map(|partition| partition.node).collect();
        nodes.sort_unstable();
        nodes.dedup();

        // A node that this worker has not heard of counts as one elsewhere.
        let addresses: BTreeMap<u64, &str> = own
            .iter()
            .filter_map(|partition| partition.primary.as_ref())
            .map(|(id, address)| (id.0, address.as_str()))
            .collect();
        let is_here = |node: &u64| addresses.get(node).is_some_and(|address| is_beside(address));
        let here = (0..).zip(&nodes).filter(|(_, node)| is_here(node));
        let here = here.map(|(index, _): (u64, _)| (worker.id().0 as u64) << 32 | index);
        let here = records(here.collect::<Vec<u64>>()).broadcast().to_vec(worker)?;
        let is_beside = |worker: usize, node: u64| {
            nodes
                .binary_search(&node)
                .is_ok_and(|index| here.contains(&((worker as u64) << 32 | index as u64)))
        };

        let served: Vec<_> = partitions.iter().map(|partition| partition.node).collect();
        let given = assign(&served, worker.workers(), is_beside);
        let mine = || partitions.iter().zip(&given).filter(|(_, to)| **to == worker.id().0);
        let is_near = |node: Option<u64>| node.is_some_and(|node| is_beside(worker.id().0, node));
        Ok(TableShare {
            table,
            slots: mine().map(|(partition, _)| partition.slots.clone()).collect(),
            beside: mine().filter(|(partition, _)| is_near(partition.node)).count(),
        })
    }

    /// The partitions that are this worker's, by their slots.
    pub fn partitions(&self) -> &[RangeInclusive<Slot>] {
        &self.slots
    }

    /// How many of these a node serves that runs on this machine.
    pub fn partitions_beside(&self) -> usize {
        self.beside
    }

    /// The objects of this worker's partitions, in an order of the nodes' own. As of every [scan](weft_client::Client::scan), each that is there from the beginning to the end is met, once unless a node starts
    /// anew meanwhile; one that is written or removed meanwhile may be met or not.
    ///
    /// Adds to `slots_read` the slots of each partition that was read: those of all workers together grow by
    /// [`SLOTS_TO_READ`](Self::SLOTS_TO_READ).
    ///
    /// The plan fails with [`JobError::ReadTable`] if a partition is not served for longer than an operation may take, or is lost.
    pub fn objects<'s>(&'s self, slots_read: &'s AtomicU64) -> TableObjects<'s> {
        TableObjects { share: self, slots_read }
    }
}

impl Dataset for TableObjects<'_> {
    type Item = TableObject;

    fn run(
        self,
        _: &Worker,
        mut sink: impl FnMut(TableObject) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let TableObjects { share: TableShare { table, slots, .. }, slots_read } = self;
        let failed =
            |reason| JobError::ReadTable { table: table.name.clone(), reason: Box::new(reason) };
        for partition in slots {
            let options = ScanOptions {
                slots: Some(partition.clone()),
                with_values: true,
                ..ScanOptions::default()
            };
            for scanned in table.client.scan(options).map_err(failed)? {
                let scanned = scanned.map_err(failed)?;
                let value = scanned.value.expect("values were asked for");
                sink(TableObject { key: scanned.key, value })?;
            }
            let read = partition.end().number() - partition.start().number() + 1;
            slots_read.fetch_add(read.into(), Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A partition, as worker 0 tells of it.
struct Partition {
    slots: RangeInclusive<Slot>,
    /// Who serves it, if somebody does.
    node: Option<u64>,
}

/// Set where a node serves the partition.
const SERVED: u64 = 1 << 32;

/// Two numbers: the node, and the first slot and the last one, of 16 bits each.
fn encoded(partition: &TablePartition) -> [u64; 2] {
    let TablePartition { first_slot, last_slot, primary } = partition;
    let slots = u64::from(first_slot.number()) << 16 | u64::from(last_slot.number());
    match primary {
        Some((node, _)) => [node.0, slots | SERVED],
        None => [0, slots],
    }
}

impl Partition {
    fn decode(&[node, slots]: &[u64; 2]) -> Option<Partition> {
        let slot = |number: u64| Slot::from_number(number as u16);
        let node = (slots & SERVED != 0).then_some(node);
        Some(Partition { slots: slot(slots >> 16)?..=slot(slots)?, node })
    }
}
