//! Partitions whose primary is gone, or waits for members that do not answer.

use weft_protocol::{Configuration, Durability, Member, PartitionId};

use super::round::Round;
use crate::coordinator::command::Command;
use crate::coordinator::partition::Partition;

impl Round<'_> {
    /// What keeps partitions served: another primary, members that do not answer removed, learners that have caught up counted on.
    pub(super) fn repair(&mut self) {
        for (id, partition) in self.open_partitions() {
            if !self.repair_members(id, partition) {
                self.promote_learner(id, partition);
            }
        }
    }

    /// Whether members, primary or learners had to be changed, now or as soon as those that stay are heard of once more.
    ///
    /// While no member is heard nothing is changed: whichever comes back first has all that was acknowledged, and the last member is never removed
    /// because it is not heard.
    fn repair_members(&mut self, id: PartitionId, partition: &Partition) -> bool {
        let present = &partition.configuration;
        let is_living = |member: &&Member| self.seats.living(**member).is_some();
        let living: Vec<Member> = present.members.iter().filter(is_living).copied().collect();
        let learners: Vec<Member> = present.learners.iter().filter(is_living).copied().collect();
        let primary = self.living_primary(present);
        let are_all_living =
            living.len() == present.members.len() && learners.len() == present.learners.len();
        if are_all_living && primary.is_some() && self.liveness.is_quiet() {
            return false;
        }
        let (primary, members) = match primary {
            Some(primary) => self.side_of(id, present.epoch, primary, living),
            None if self.waits_for_others(partition, &living) => return false,
            None => match self.seats.best_primary(living.iter().copied()) {
                Some(primary) => (primary, living),
                // Those that came back may not be primary before they have settled.
                None => return false,
            },
        };
        let is_as_it_was = present.primary == Some(primary) && members == present.members;
        if is_as_it_was && learners == present.learners {
            return false;
        }
        if !self.outlive(present, primary, &members) {
            self.await_word(id);
            return true;
        }
        self.reconfigure(id, present, primary, members, learners);
        true
    }

    /// Whether the primary of those that stay has said that it knows that the others are down; and each of them, where so few stay that nothing is written any
    /// more.
    ///
    /// Who is down may only be out of earshot, with all that was acknowledged, and those that stay may have died a moment before, which is not heard
    /// yet: then all would be lost though one is left. So there is one more heartbeat, which comes as soon as they hear of it.
    fn outlive(&self, present: &Configuration, primary: Member, members: &[Member]) -> bool {
        let takes_writes = members.len() >= usize::from(present.min_in_sync);
        let asked = if takes_writes { std::slice::from_ref(&primary) } else { members };
        let goes = |member: &&Member| !members.contains(member);
        present.members.iter().filter(goes).all(|gone| {
            let Some(node) = self.state.node(gone.node) else { return true };
            // Another life has nothing of this one, and of who is heard others have told.
            if node.member() != *gone || self.seats.living(*gone).is_some() {
                return true;
            }
            let knows = |member: &Member| self.liveness.knows(*member, node.changed_at);
            !node.is_up && asked.iter().all(knows)
        })
    }

    /// Whether all that are heard have just come back, and others may follow with all that they had.
    fn waits_for_others(&self, partition: &Partition, living: &[Member]) -> bool {
        let is_alone = living.len() < partition.configuration.members.len();
        let time = self.settings.wait_for_others;
        let is_newly_reborn =
            |member: &Member| self.memory.is_newly_reborn(*member, time, self.now);
        let keeps_data = partition.class.durability != Durability::Memory;
        keeps_data && is_alone && living.iter().all(is_newly_reborn)
    }

    /// Who of the living members goes on when the primary cannot reach some of them, and under whom.
    ///
    /// The primary's side does, unless it is the smaller one: then the primary is who is cut off. That is decided only when the others had the time to be found
    /// down, should they be: else the primary might be removed for members that are gone for good. A primary that has failed is left out by itself.
    fn side_of(
        &self,
        id: PartitionId,
        epoch: u32,
        primary: Member,
        living: Vec<Member>,
    ) -> (Member, Vec<Member>) {
        let unanswered = |member: Member| {
            let run = self.liveness.unanswered(id, epoch, primary, member)?;
            (self.now.since(run.last) <= self.settings.report_for).then_some(run)
        };
        let (far, near): (Vec<Member>, Vec<Member>) =
            living.iter().copied().partition(|member| unanswered(*member).is_some());
        // A primary that reports itself has a disk or a store that failed: it acknowledges nothing any more, and is to be no member either.
        if far.contains(&primary) {
            return match self.seats.best_primary(near.iter().copied()) {
                Some(other) => (other, near),
                None => (primary, living),
            };
        }
        let stands = |member: &Member| {
            unanswered(*member)
                .is_some_and(|run| run.last.since(run.first) > 2 * self.settings.down_after)
        };
        if far.len() > near.len() {
            if !far.iter().all(stands) {
                return (primary, living);
            }
            if let Some(other) = self.seats.best_primary(far.iter().copied()) {
                return (other, far);
            }
        }
        (primary, near)
    }

    /// A learner that has all becomes a member: the first of them, since each change needs an epoch.
    fn promote_learner(&mut self, id: PartitionId, partition: &Partition) {
        let present = &partition.configuration;
        let expected_epoch = present.epoch;
        let has_caught_up = |learner: &&Member| {
            let is_living = self.seats.living(**learner).is_some();
            is_living && self.liveness.has_caught_up(id, expected_epoch, **learner)
        };
        let Some(&learner) = present.learners.iter().find(has_caught_up) else { return };
        if self.living_primary(present).is_some() {
            let command = Command::PromoteLearner { partition: id, expected_epoch, learner };
            self.change(id, command);
        }
    }
}
