//! Partitions with fewer replicas than they are to have, or more.

use weft_protocol::{Configuration, Member, PartitionId};

use super::round::Round;
use super::seats::{Seat, SeatIndex, SeatList};
use crate::coordinator::command::Command;
use crate::coordinator::partition::Partition;
use crate::limits::REPLICAS_HELD_MAX;

impl Round<'_> {
    /// Removes from partitions who is not needed any more: who is leaving, once there are enough without it; who was to take another's place, or that
    /// other; learners that were given up, or that nothing reaches.
    pub(super) fn trim(&mut self) {
        for (id, partition) in self.open_partitions() {
            if let Some(primary) = self.living_primary(&partition.configuration) {
                self.trim_partition(id, partition, primary);
            }
        }
    }

    fn trim_partition(&mut self, id: PartitionId, partition: &Partition, primary: Member) {
        let present = &partition.configuration;
        let is_given_up =
            |learner: &&Member| self.liveness.is_given_up(id, present.epoch, **learner);
        if let Some(learner) = present.learners.iter().find(is_given_up) {
            return self.remove_learner(id, present, *learner);
        }
        let wanted = self.wanted(partition);
        let good = self.staying(&present.members);
        if good.len() < present.members.len() && good.len() >= wanted {
            if self.may_keep(partition, &good) {
                self.keep(id, present, &good);
            }
            return;
        }
        let filling = self.filling(primary, &present.learners);
        if good.len() >= wanted && filling.len() < present.learners.len() {
            let is_vain = |learner: &&Member| {
                !filling.iter().any(|index| self.member_at(*index) == **learner)
            };
            if let Some(learner) = present.learners.iter().find(is_vain) {
                self.remove_learner(id, present, *learner);
            }
            return;
        }
        if good.len() + filling.len() > wanted {
            self.moves += 1;
            self.trim_surplus(id, partition, wanted, &good, &filling);
        }
    }

    /// Of a partition on its way somebody goes as soon as there are enough without it. Until then its node is counted as if it had gone: else others
    /// would be planned to go from there too.
    fn trim_surplus(
        &mut self,
        id: PartitionId,
        partition: &Partition,
        wanted: usize,
        good: &SeatList,
        filling: &SeatList,
    ) {
        let present = &partition.configuration;
        let held: SeatList = good.iter().chain(filling).copied().collect();
        let Some(victim) = self.going_from(present, wanted, &held) else { return };
        if filling.contains(&victim) {
            if good.len() >= wanted {
                self.remove_learner(id, present, self.member_at(victim));
            }
            return;
        }
        let kept: SeatList = good.iter().copied().filter(|index| *index != victim).collect();
        if kept.len() >= wanted && self.may_keep(partition, &kept) {
            self.keep(id, present, &kept);
        } else {
            self.seats.change_load(victim, -1);
        }
    }

    /// Whether whoever else is a member may go, because all of `kept` have been heard since they are members together. Somebody who was made a member a moment ago may
    /// have died before: nobody who has all that was acknowledged goes for the sake of one that nobody has heard of since, and that nobody will.
    fn may_keep(&self, partition: &Partition, kept: &[SeatIndex]) -> bool {
        let members = &partition.configuration.members;
        let is_kept = |member: &Member| kept.iter().any(|index| self.member_at(*index) == *member);
        let mut going = members.iter().filter(|member| !is_kept(member));
        let is_one_alive = going.any(|member| self.seats.living(*member).is_some());
        let is_heard =
            |index: &SeatIndex| self.liveness.knows(self.member_at(*index), partition.changed_at);
        !is_one_alive || kept.iter().all(is_heard)
    }

    /// Who of `held` goes. Not the primary, unless the partition has one replica: to hand over is to stop for a moment.
    pub(super) fn going_from(
        &self,
        present: &Configuration,
        wanted: usize,
        held: &[SeatIndex],
    ) -> Option<SeatIndex> {
        let primary = present.primary.filter(|_| wanted > 1);
        let spared = primary.and_then(|primary| self.seats.of(primary.node));
        self.seats.victim(held, spared)
    }

    /// Only `kept` remain members, one of them as primary. Nothing is done while none of them may be that.
    fn keep(&mut self, id: PartitionId, present: &Configuration, kept: &[SeatIndex]) {
        let is_kept = |member: &Member| kept.iter().any(|index| self.member_at(*index) == *member);
        let members: Vec<Member> = present.members.iter().copied().filter(is_kept).collect();
        let primary = present.primary.filter(is_kept);
        let primary = primary.or_else(|| self.seats.best_primary(members.iter().copied()));
        if let Some(primary) = primary {
            self.reconfigure(id, present, primary, members, present.learners.clone());
        }
    }

    fn remove_learner(&mut self, id: PartitionId, present: &Configuration, learner: Member) {
        self.unload(learner);
        let expected_epoch = present.epoch;
        self.change(id, Command::RemoveMember { partition: id, expected_epoch, member: learner });
    }

    /// Gives partitions that have too few replicas another one, a few at a time.
    pub(super) fn grow(&mut self) {
        let is_awaited = self.memory.is_one_newly_down(self.settings.replace_after, self.now);
        for (id, partition) in self.open_partitions() {
            if self.catching_up >= self.settings.catching_up_max {
                break;
            }
            let present = &partition.configuration;
            let Some(primary) = self.living_primary(present) else { continue };
            let wanted = self.wanted(partition);
            let good = self.staying(&present.members);
            let filling = self.filling(primary, &present.learners);
            if good.len() + filling.len() >= wanted || !self.may_be_improved(id, present) {
                continue;
            }
            // Who does not answer its primary may turn out to be down a moment later.
            let shrunk_within = 2 * self.settings.down_after;
            let is_awaited = is_awaited || self.memory.is_newly_shrunk(id, shrunk_within, self.now);
            if is_awaited && present.takes_writes() {
                continue;
            }
            if present.members.len() + present.learners.len() >= REPLICAS_HELD_MAX {
                let fills = |learner: &&Member| !self.are_apart(primary, **learner);
                let vain = present.learners.iter().find(|learner| !fills(learner));
                if let Some(&learner) = vain {
                    self.remove_learner(id, present, learner);
                }
                continue;
            }
            // Those that leave take no zone from others.
            let taken: SeatList = good.iter().chain(&filling).copied().collect();
            if let Some(index) = self.place_for(id, partition, primary, &taken) {
                self.add_learner(id, present, primary, index);
            }
        }
    }

    /// Who is to be given the partition beside `taken`, if the primary and somebody have time for it.
    pub(super) fn place_for(
        &mut self,
        id: PartitionId,
        partition: &Partition,
        primary: Member,
        taken: &[SeatIndex],
    ) -> Option<SeatIndex> {
        let most = self.settings.catching_up_per_node_max;
        let filler = self.seats.of(primary.node)?;
        if self.seats.get(filler).sending >= most {
            return None;
        }
        let durability = partition.class.durability;
        let involved = self.involved(&partition.configuration);
        let involved: Vec<Member> = involved.iter().map(|index| self.member_at(*index)).collect();
        let Self { liveness, settings, now, .. } = *self;
        let is_in_vain = |other: Member| {
            let last = liveness.last_apart(primary, other);
            last.is_some_and(|last| now.since(last) <= settings.apart_for)
                || liveness.rests_from(id, other, settings.apart_for, now)
        };
        // One at a time, so that there is room at least for those that there is room for.
        let is_busy = |seat: &Seat| {
            let has_trouble = seat.receiving >= 1 && liveness.has_given_up(seat.member);
            seat.receiving >= most || has_trouble
        };
        self.seats.pick(
            taken,
            |seat| {
                let is_able = seat.keeps(durability);
                !is_able || involved.contains(&seat.member) || is_in_vain(seat.member)
            },
            is_busy,
        )
    }

    pub(super) fn add_learner(
        &mut self,
        id: PartitionId,
        present: &Configuration,
        primary: Member,
        index: SeatIndex,
    ) {
        let learner = self.member_at(index);
        self.begin_catching_up(primary, learner);
        self.seats.change_load(index, 1);
        let expected_epoch = present.epoch;
        self.change(id, Command::AddLearner { partition: id, expected_epoch, learner });
    }
}
