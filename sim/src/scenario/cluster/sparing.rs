//! Which faults hosts are spared: those that take the last of something with them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use weft_protocol::Durability;
use weft_server::coordinator::raft::RaftLog as _;

use super::host::Host;
use super::judging::newest_map;
use super::stopping::stays;
use super::{OnDisk, Role};
use crate::nemesis::Kind;
use crate::world::{MemberId, World};

/// Whether a host is spared a fault. What a cluster with this on its disks promises has to be kept after every fault that it is not spared.
pub(super) fn spares(
    hosts: Rc<RefCell<BTreeMap<MemberId, Host>>>,
    on_disk: OnDisk,
) -> impl FnMut(&World, MemberId, Kind) -> bool + 'static {
    move |world: &World, member, kind| {
        let mut hosts = hosts.borrow_mut();
        let Some(role) = hosts.get(&member).map(|host| host.role) else { return false };
        let is_synced = on_disk == OnDisk::Everything;
        let has_disk = hosts[&member].has_disk;
        // What it kept in memory it has lost already, and what is on disk stays there.
        let is_closed = hosts[&member].parting.is_closed_well();
        match (kind, role) {
            (
                Kind::Lose
                | Kind::Pause
                | Kind::Isolate
                | Kind::Split
                | Kind::CutPair
                | Kind::CutOneWay
                | Kind::Slow,
                _,
            )
            | (Kind::CrashProcess | Kind::CrashMachine, Role::Coordinator) => false,
            (Kind::Replace, Role::Coordinator) => !may_be_replaced(&mut hosts, member),
            (Kind::CrashProcess | Kind::CrashMachine, _) => {
                !is_synced
                    && !is_closed
                    && !is_held_elsewhere(&hosts, world, member, |durability| {
                        durability != Durability::Fsync
                    })
            }
            (Kind::Replace, _) => {
                let is_spared = !is_held_elsewhere(&hosts, world, member, |_| true);
                if !is_spared && let Some(host) = hosts.get_mut(&member) {
                    host.replaced = true;
                }
                is_spared
            }
            (Kind::PowerCut, _) => !is_synced,
            // The log of a coordinator is on a disk of its own.
            (Kind::DiskSlow | Kind::DiskFull | Kind::DiskFails, Role::Coordinator) => true,
            (Kind::DiskSlow | Kind::DiskFull, _) => !has_disk,
            // It is started again in the end, whoever else is there then.
            (Kind::DiskFails, _) => !is_synced || !has_disk,
            // All may be stopped at once, as long as nothing is in memory alone.
            (Kind::Stop, Role::Storage) => {
                !is_held_elsewhere(&hosts, world, member, |durability| {
                    durability == Durability::Memory
                })
            }
            // It may not be able to write what it has.
            (Kind::StopFull, Role::Storage) => {
                let is_elsewhere = is_held_elsewhere(&hosts, world, member, |durability| {
                    durability != Durability::Fsync
                });
                !has_disk || !is_elsewhere
            }
            (Kind::Leave, Role::Storage) => false,
            (Kind::Stop | Kind::StopFull | Kind::Leave, _) => true,
        }
    }
}

/// A second coordinator that forgets what it voted for, before the first has it again, may end the cluster. So may the first, as long as the others do not
/// know that they vote without it: while voters change, those before are needed too.
fn may_be_replaced(hosts: &mut BTreeMap<MemberId, Host>, member: MemberId) -> bool {
    let coordinators = || hosts.iter().filter(|(_, host)| host.role == Role::Coordinator);
    let is_first = coordinators().all(|(_, host)| !host.replaced);
    let others = coordinators().filter(|(other, _)| **other != member);
    // Who has most is who the others vote for.
    let heir = others.filter_map(|(_, host)| known(host)).max_by_key(|(last, _)| *last);
    let may_be = is_first && heir.is_some_and(|(_, voters)| voters >= 3);
    if let Some(host) = hosts.get_mut(&member) {
        host.replaced |= may_be;
    }
    may_be
}

/// Up to which term and index a host's log goes, and how many coordinators vote as far as it knows; none, while that changes.
fn known(host: &Host) -> Option<((u64, u64), usize)> {
    let recovered = host.log.lock().clone().recover().ok()?;
    let metadata = recovered.snapshot.metadata.unwrap_or_default();
    let last = recovered.entries.last().map(|entry| (entry.term, entry.index));
    let last = last.unwrap_or((metadata.term, metadata.index));
    let members = metadata.conf_state.unwrap_or_default();
    let is_changing = !members.voters_outgoing.is_empty();
    Some((last, if is_changing { 0 } else { members.voters.len() }))
}

/// Whether every partition of these durabilities that a host holds is complete on another that is up, in the life in which it became a member.
fn is_held_elsewhere(
    hosts: &BTreeMap<MemberId, Host>,
    world: &World,
    member: MemberId,
    is_of: impl Fn(Durability) -> bool,
) -> bool {
    let Some(map) = newest_map(hosts) else { return false };
    let node = hosts[&member].node;
    let is_up = |other: &weft_transport::NodeId| {
        let host = hosts.iter().find(|(_, host)| host.node == *other);
        let known = map.nodes().iter().find(|node| node.id == *other);
        *other != node
            && host.zip(known).is_some_and(|((member, host), known)| {
                let is_here = world.is_up(*member) && stays(host);
                is_here && known.incarnation.0 == host.incarnation
            })
    };
    let held = map.partitions().iter().filter(|entry| entry.members.contains(&node));
    let mut held = held.filter(|entry| is_of(entry.class.durability));
    held.all(|entry| entry.members.iter().any(is_up))
}
