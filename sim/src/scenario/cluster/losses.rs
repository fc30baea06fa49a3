//! What was left of a partition when the coordinators found that nobody has it: whether what was lost with it was still there, with somebody who did not
//! count any more.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use weft_protocol::{PartitionEntry, PartitionId, Slot, Version};
use weft_server::durable::{Completeness, Incomplete};
use weft_server::logs::RecoveredPartition;

use super::Role;
use super::host::Host;
use super::judging::newest_map;
use super::nodes::Cluster;
use crate::history::{Ending, Operation};
use crate::world::{MemberId, World};

/// How somebody still had something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kept {
    /// In memory, by a node that took itself for in sync.
    InMemory,
    /// In a log that has all that it ever had.
    InLog,
    /// In a log that may lack something that followed.
    Unclosed,
}

/// What was left of partitions that are lost.
#[derive(Default, Debug)]
pub(super) struct Losses {
    /// The newest map that was looked at.
    map: u64,
    lost: BTreeMap<PartitionId, Loss>,
}

/// What was left of a partition.
#[derive(Debug)]
struct Loss {
    /// In which it is lost.
    epoch: u32,
    remains: Vec<Remains>,
    /// Hosts that were down, and whose logs are to be seen when they are back.
    down: BTreeSet<MemberId>,
}

/// What a node had of a partition.
#[derive(Debug)]
struct Remains {
    kept: Kept,
    /// Up to here.
    last: Version,
}

/// Looks at what is left whenever a partition is lost.
pub(super) fn watch(
    hosts: Rc<RefCell<BTreeMap<MemberId, Host>>>,
    losses: Rc<RefCell<Losses>>,
) -> impl FnMut(&World) + 'static {
    move |world: &World| losses.borrow_mut().look(world, &hosts.borrow())
}

impl Losses {
    fn look(&mut self, world: &World, hosts: &BTreeMap<MemberId, Host>) {
        let Some(map) = newest_map(hosts).filter(|map| map.epoch() > self.map) else { return };
        self.map = map.epoch();
        for PartitionEntry { id, epoch, is_lost, .. } in map.partitions() {
            let is_known = self.lost.get(id).is_some_and(|loss| loss.epoch == *epoch);
            if *is_lost && !is_known {
                self.lost.insert(*id, Loss::of(*id, *epoch, world, hosts));
            }
        }
    }

    /// A host begins a life, with what its logs have.
    pub(super) fn is_back(&mut self, member: MemberId, recovered: &[RecoveredPartition]) {
        for (id, loss) in &mut self.lost {
            if loss.down.remove(&member) {
                loss.remains.extend(in_log(*id, recovered));
            }
        }
    }
}

impl Loss {
    fn of(id: PartitionId, epoch: u32, world: &World, hosts: &BTreeMap<MemberId, Host>) -> Loss {
        let storage = hosts.iter().filter(|(_, host)| host.role == Role::Storage);
        let (up, down): (Vec<_>, Vec<_>) = storage.partition(|(member, _)| world.is_up(**member));
        let remains = up.into_iter().filter_map(|(_, host)| host.handler.as_ref());
        let remains = remains.flat_map(|handler| {
            let held = handler.last_entries().into_iter();
            let held = held.filter(|held| held.partition == id && held.is_in_sync);
            let held = held.map(|held| Remains { kept: Kept::InMemory, last: held.version });
            held.chain(in_log(id, handler.recovered())).collect::<Vec<_>>()
        });
        let down = down.into_iter().map(|(member, _)| *member).collect();
        Loss { epoch, remains: remains.collect(), down }
    }
}

/// What a log has of a partition that may be of use to somebody.
fn in_log(id: PartitionId, recovered: &[RecoveredPartition]) -> impl Iterator<Item = Remains> {
    let of_partition = recovered.iter().filter(move |found| found.partition == id);
    of_partition.filter_map(move |found| {
        let kept = match &found.completeness {
            Completeness::CompleteFsync | Completeness::CompleteClean => Kept::InLog,
            Completeness::Incomplete { reason: Incomplete::NotClosed } => Kept::Unclosed,
            Completeness::Incomplete { .. } => return None,
        };
        Some(Remains { kept, last: found.last })
    })
}

impl Cluster {
    /// How many of the acknowledged changes that are lost somebody still had in this way, and in none that is better. What was asked and changed nothing is
    /// none.
    pub(super) fn lost_though(&self, kept: Kept) -> u64 {
        let losses = self.losses.borrow();
        let changes = self.lost_changes();
        let best = changes.iter().filter_map(|change| self.best_of(change, &losses));
        best.filter(|best| *best == kept).count() as u64
    }

    /// How an acknowledged change was still there when it was lost.
    fn best_of(&self, change: &Operation, losses: &Losses) -> Option<Kept> {
        let Ending::Completed(_, outcome) = &change.ending else { return None };
        let version = Version(outcome.changed()?);
        let (keys, key) = self.keys.all().find(|(_, key)| **key == change.key)?;
        let (class, slot) = (self.class(keys), Slot::of(key));
        let map = newest_map(&self.hosts.borrow())?;
        let entry = map
            .partitions()
            .iter()
            .find(|entry| entry.is_lost && entry.class == class && entry.contains(slot))?;
        let remains = losses.lost.get(&entry.id)?.remains.iter();
        // A log that ends in an earlier epoch may have another entry in the place of this one.
        let has = |one: &&Remains| {
            one.last.epoch() >= version.epoch() && one.last.sequence() >= version.sequence()
        };
        remains.filter(has).map(|one| one.kept).min()
    }
}
