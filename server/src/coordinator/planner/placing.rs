//! Where partitions begin.

use weft_protocol::{Member, PartitionId, TableClass};

use super::round::Round;
use super::seats::{SeatIndex, SeatList, Seats};
use crate::coordinator::command::Command;
use crate::coordinator::liveness::Liveness;
use crate::coordinator::state::ClusterState;

impl Round<'_> {
    /// Gives classes that have no partitions theirs, on the nodes that are heard. Those that come later are given their part then.
    pub(super) fn place_classes(&mut self) {
        let state = self.state;
        if self.awaits_founders() {
            return;
        }
        // Clients know the class of the table that is always there by its partitions' coming first.
        let default = state.catalog().default_options().class();
        let others = state.classes().filter(|(class, _)| *class != default);
        for (class, run) in state.classes().filter(|(class, _)| *class == default).chain(others) {
            if run.is_some() || self.seats.open_count() == 0 {
                continue;
            }
            let count = state.partitions_per_class();
            let partitions = (0..count).map(|_| place(&mut self.seats, class)).collect();
            self.push(Command::Place { class, partitions });
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
        let Some(index) = seats.pick(&taken, |_| false, |_| false) else { break };
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
