//! Where partitions begin.

use weft_protocol::{Configuration, Member, PartitionId, TableClass};

use super::round::Round;
use super::seats::{Seat, SeatIndex, SeatList, Seats};
use crate::coordinator::command::Command;
use crate::coordinator::liveness::Liveness;
use crate::coordinator::partition::Partition;
use crate::coordinator::state::ClusterState;

impl Round<'_> {
    /// Gives classes that have no partitions theirs, on the nodes that are heard. Those that come later are given their part then.
    pub(super) fn place_classes(&mut self) {
        let state = self.state;
        if self.awaits_founders() {
            return;
        }
        let default = state.catalog().default_options().class();
        let others = state.classes().filter(|(class, _)| *class != default);
        for (class, run) in state.classes().filter(|(class, _)| *class == default).chain(others) {
            if run.is_some() {
                continue;
            }
            // A class may be there before those who can hold it.
            if !self.seats.is_one_open_for(class.durability) {
                if class == default {
                    // Clients know the class of the table that is always there by its partitions' having the first numbers, so the others wait for it.
                    return;
                }
                continue;
            }
            let count = state.partitions_per_class();
            let partitions = (0..count).map(|_| place(&mut self.seats, class)).collect();
            self.push(Command::Place { class, partitions });
        }
    }

    /// Has partitions begin anew that are lost and have no table in them: nobody misses what they held, and the next table of the kind is not to begin
    /// with a loss.
    pub(super) fn renew_unused(&mut self) {
        let state = self.state;
        let is_vain = |(_, partition): &(PartitionId, &Partition)| {
            let Configuration { is_lost, epoch, .. } = partition.configuration;
            is_lost && epoch < Configuration::EPOCH_MAX && !state.is_used(partition.class)
        };
        for (id, partition) in state.partitions().filter(is_vain) {
            let members = place(&mut self.seats, partition.class);
            if !members.is_empty() {
                let expected_epoch = partition.configuration.epoch;
                self.change(id, Command::AcceptLoss { partition: id, expected_epoch, members });
            }
        }
    }

    /// Whether those with whom the cluster is founded are still on their way: what is placed when all are there need not be moved.
    fn awaits_founders(&self) -> bool {
        let is_first = self.state.classes().all(|(_, run)| run.is_none());
        let are_missing = self.seats.open_count() < self.settings.expected_nodes;
        let began = self.memory.began.unwrap_or(self.now);
        is_first && are_missing && self.now.since(began) < self.settings.expected_within
    }
}

/// The members of a new partition: of different zones, on the nodes that have least; and first the one that is primary of fewest.
fn place(seats: &mut Seats, class: TableClass) -> Vec<Member> {
    let mut taken = SeatList::new();
    while taken.len() < usize::from(class.replicas) {
        let is_excluded = |seat: &Seat| !seat.keeps(class.durability);
        let Some(index) = seats.pick(&taken, is_excluded, |_| false) else { break };
        seats.change_load(index, 1);
        taken.push(index);
    }
    let primaries = |index: &SeatIndex| (seats.get(*index).primaries, *index);
    let Some(first) = (0..taken.len()).min_by_key(|at| primaries(&taken[*at])) else {
        return Vec::new();
    };
    taken.swap(0, first);
    seats.get_mut(taken[0]).primaries += 1;
    taken.iter().map(|index| seats.get(*index).member).collect()
}

/// Why a table of the class is not to be made now: not as many nodes could hold it as hold others, so that some partitions, or all, would be served by
/// nobody, or be there less often than was asked for.
///
/// It is the leader's to say, as is where partitions go, and no rule of the state: what comes of a table that was made before is the same for all.
pub(super) fn lacks_disks(state: &ClusterState, class: TableClass) -> Option<String> {
    let able = state.holder_count_of(class.durability);
    let needed = ClusterState::replicas_wanted(class, state.holder_count());
    if able >= needed {
        return None;
    }
    let nodes = match needed {
        1 => "a node that keeps".to_owned(),
        _ => format!("{needed} nodes that keep"),
    };
    let there = match able {
        0 => "there is none".to_owned(),
        1 => "there is one".to_owned(),
        _ => format!("there are {able}"),
    };
    let fewer = if able == 0 { "" } else { ", or ask for fewer replicas" };
    Some(format!(
        "a table of {class}, needs {nodes} data on disk, and {there}: start nodes with --data-dir{fewer}"
    ))
}

/// What has a lost partition begin anew on nodes that are up.
pub(super) fn accept_loss(
    state: &ClusterState,
    liveness: &Liveness,
    id: PartitionId,
) -> Option<Command> {
    let partition = state.partition(id)?;
    let mut seats = Seats::new(state, |node| node.is_up, |member| liveness.is_failed(member));
    let members = place(&mut seats, partition.class);
    let is_possible = partition.configuration.is_lost && !members.is_empty();
    let expected_epoch = partition.configuration.epoch;
    is_possible.then_some(Command::AcceptLoss { partition: id, expected_epoch, members })
}
