//! One plan in the making.

use weft_protocol::{Configuration, Durability, Member, PartitionId};
use weft_transport::Time;

use super::Plan;
use super::memory::Memory;
use super::seats::{SeatIndex, SeatList, Seats};
use super::settings::PlannerSettings;
use crate::coordinator::command::Command;
use crate::coordinator::liveness::Liveness;
use crate::coordinator::partition::Partition;
use crate::coordinator::state::ClusterState;

/// What is known and what was planned so far.
pub(super) struct Round<'a> {
    pub(super) state: &'a ClusterState,
    pub(super) liveness: &'a Liveness,
    pub(super) settings: &'a PlannerSettings,
    pub(super) memory: &'a Memory,
    pub(super) now: Time,
    pub(super) seats: Seats,
    /// Nodes that may be given partitions in memory, down ones included.
    holder_count: usize,
    /// Those of them that have disks.
    disk_holder_count: usize,
    /// Learners of the cluster.
    pub(super) catching_up: usize,
    /// Partitions that are on their way for balance.
    pub(super) moves: usize,
    /// Something waits for members to say that they know who is down.
    awaits_word: bool,
    /// By number: of which partitions a change was planned, or has to wait. It goes by the epoch that the state has, so there can be one.
    planned: Vec<bool>,
    commands: Vec<Command>,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        state: &'a ClusterState,
        liveness: &'a Liveness,
        settings: &'a PlannerSettings,
        memory: &'a Memory,
        now: Time,
    ) -> Self {
        let is_heard = |node: &_| super::detecting::is_heard(node, liveness, settings, memory, now);
        let mut round = Self {
            state,
            liveness,
            settings,
            memory,
            now,
            seats: Seats::new(
                state,
                |node| node.is_up && is_heard(node),
                |member| liveness.is_failed(member),
            ),
            holder_count: state.holder_count(),
            disk_holder_count: state.holder_count_of(Durability::Fsync),
            catching_up: 0,
            moves: 0,
            awaits_word: false,
            planned: vec![false; state.partitions().len()],
            commands: Vec::new(),
        };
        round.count_learners();
        round
    }

    /// Those that their primary cannot reach get nothing, and take no room from others.
    fn count_learners(&mut self) {
        for (_, partition) in self.state.partitions() {
            let Configuration { primary, learners, .. } = &partition.configuration;
            let Some(primary) = *primary else { continue };
            for learner in learners {
                if !self.are_apart(primary, *learner) {
                    self.begin_catching_up(primary, *learner);
                }
            }
        }
    }

    /// The learner is filled by the primary.
    pub(super) fn begin_catching_up(&mut self, primary: Member, learner: Member) {
        self.catching_up += 1;
        if let Some(index) = self.seats.of(primary.node) {
            self.seats.get_mut(index).sending += 1;
        }
        if let Some(index) = self.seats.of(learner.node) {
            self.seats.get_mut(index).receiving += 1;
        }
    }

    /// Whether the two could not reach one another of late.
    pub(super) fn are_apart(&self, one: Member, other: Member) -> bool {
        let last = self.liveness.last_apart(one, other);
        last.is_some_and(|last| self.now.since(last) <= self.settings.apart_for)
    }

    pub(super) fn push(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// Plans a change of a partition.
    pub(super) fn change(&mut self, partition: PartitionId, command: Command) {
        self.planned[usize::from(partition.0)] = true;
        self.commands.push(command);
    }

    /// Leaves a partition as it is until members say that they know who is down.
    pub(super) fn await_word(&mut self, partition: PartitionId) {
        self.planned[usize::from(partition.0)] = true;
        self.awaits_word = true;
    }

    /// Plans another configuration of a partition: these members and learners, and this primary.
    pub(super) fn reconfigure(
        &mut self,
        id: PartitionId,
        present: &Configuration,
        primary: Member,
        members: Vec<Member>,
        learners: Vec<Member>,
    ) {
        self.seats.hand_over(present.primary, Some(primary));
        let goes = |member: &&Member| !members.contains(member) && !learners.contains(member);
        let gone: Vec<Member> =
            present.members.iter().chain(&present.learners).filter(goes).copied().collect();
        for member in gone {
            self.unload(member);
        }
        let epoch = present.epoch;
        let next = Configuration {
            epoch: epoch + 1,
            primary: Some(primary),
            members,
            learners,
            ..present.clone()
        };
        self.change(id, Command::Reconfigure { partition: id, expected_epoch: epoch, next });
    }

    /// The node has one partition less.
    pub(super) fn unload(&mut self, member: Member) {
        if let Some(index) = self.seats.of(member.node) {
            self.seats.change_load(index, -1);
        }
    }

    /// The partitions that can be changed and for which nothing was planned yet.
    pub(super) fn open_partitions(&self) -> Vec<(PartitionId, &'a Partition)> {
        let state = self.state;
        let is_open = |(id, partition): &(PartitionId, &Partition)| {
            let configuration = &partition.configuration;
            let can_change =
                !configuration.is_lost && configuration.epoch < Configuration::EPOCH_MAX;
            can_change && !self.planned[usize::from(id.0)]
        };
        state.partitions().filter(is_open).collect()
    }

    /// Of how many members the partition is to be.
    pub(super) fn wanted(&self, partition: &Partition) -> usize {
        let holder_count = match partition.class.durability {
            Durability::Memory => self.holder_count,
            Durability::Disk | Durability::Fsync => self.disk_holder_count,
        };
        // Where nobody can, those that have it keep it.
        ClusterState::replicas_wanted(partition.class, holder_count).max(1)
    }

    /// Whether the partition may be changed for more than to be served: not if it was changed often of late. One that takes no writes is given twice
    /// the chances.
    pub(super) fn may_be_improved(&self, id: PartitionId, present: &Configuration) -> bool {
        let most = self.settings.changes_per_minute_max;
        let most = if present.takes_writes() { most } else { 2 * most };
        self.memory.changes(id) < most
    }

    /// The seats of those of `members` that are heard and stay.
    pub(super) fn staying(&self, members: &[Member]) -> SeatList {
        let seat = |member: &Member| {
            let index = self.seats.of(member.node)?;
            let seat = self.seats.get(index);
            (seat.is_living && seat.is_holder && seat.member == *member).then_some(index)
        };
        members.iter().filter_map(seat).collect()
    }

    /// The seats of the learners that the primary fills: heard, staying, and within its reach.
    pub(super) fn filling(&self, primary: Member, learners: &[Member]) -> SeatList {
        let mut filling = self.staying(learners);
        filling.retain(|index| !self.are_apart(primary, self.seats.get(*index).member));
        filling
    }

    /// The seats of all that have to do with the partition, heard or not.
    pub(super) fn involved(&self, configuration: &Configuration) -> SeatList {
        let all = configuration.members.iter().chain(&configuration.learners);
        all.filter_map(|member| self.seats.of(member.node)).collect()
    }

    /// The primary, if it is heard.
    pub(super) fn living_primary(&self, configuration: &Configuration) -> Option<Member> {
        configuration.primary.filter(|primary| self.seats.living(*primary).is_some())
    }

    pub(super) fn member_at(&self, index: SeatIndex) -> Member {
        self.seats.get(index).member
    }

    pub(super) fn finish(self) -> Plan {
        let Self { commands, awaits_word, seats, .. } = self;
        Plan { commands, awaits_word, looked_at: seats.looked_at }
    }
}
