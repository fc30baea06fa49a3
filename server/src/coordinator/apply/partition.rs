//! Configurations of partitions, each change of which goes by the epoch that it knows.

use weft_protocol::{Configuration, Member, PartitionId};

use crate::coordinator::command::{Applied, Outcome};
use crate::coordinator::partition::are_distinct;
use crate::coordinator::rejection::Rejection;
use crate::coordinator::state::ClusterState;
use crate::limits::REPLICAS_HELD_MAX;

impl ClusterState {
    /// Members and learners may only become fewer by this, so that nobody becomes a member who has not caught up.
    pub(super) fn reconfigure(
        &mut self,
        id: PartitionId,
        expected_epoch: u32,
        next: &Configuration,
    ) -> Applied {
        let due = self.next_held(id, expected_epoch)?;
        let Configuration { epoch, primary, members, learners, min_in_sync, is_lost } = next;
        if (*epoch, *min_in_sync, *is_lost) != (due.epoch, due.min_in_sync, due.is_lost) {
            return Err(Rejection::NotAReconfiguration);
        }
        if members.is_empty() {
            return Err(Rejection::LastMember);
        }
        let strange = members.iter().find(|member| !due.members.contains(member));
        let strange = strange.or(learners.iter().find(|learner| !due.learners.contains(learner)));
        if let Some(member) = strange {
            return Err(Rejection::NotAMember { node: member.node });
        }
        if !are_distinct(members) || !are_distinct(learners) {
            return Err(Rejection::Twice);
        }
        match primary {
            None => return Err(Rejection::PrimaryNotMember),
            Some(primary) if !members.contains(primary) => {
                return Err(Rejection::PrimaryNotMember);
            }
            Some(primary) if due.primary == Some(*primary) => {}
            Some(primary) => {
                let node = self.current(*primary)?;
                if !node.is_up || !node.is_settled {
                    return Err(Rejection::NotReady { node: node.id });
                }
            }
        }
        Ok(self.install(id, next.clone()))
    }

    pub(super) fn add_learner(
        &mut self,
        id: PartitionId,
        expected_epoch: u32,
        learner: Member,
    ) -> Applied {
        let mut next = self.next_held(id, expected_epoch)?;
        let node = self.current(learner)?;
        if !node.is_up || !node.is_holder() {
            return Err(Rejection::NotAHolder { node: node.id });
        }
        if next.members.iter().chain(&next.learners).any(|member| member.node == learner.node) {
            return Err(Rejection::AlreadyInvolved { node: learner.node });
        }
        if next.members.len() + next.learners.len() >= REPLICAS_HELD_MAX {
            return Err(Rejection::ReplicaCount);
        }
        next.learners.push(learner);
        Ok(self.install(id, next))
    }

    pub(super) fn promote_learner(
        &mut self,
        id: PartitionId,
        expected_epoch: u32,
        learner: Member,
    ) -> Applied {
        let class = self.existing(id)?.class;
        let mut next = self.next_held(id, expected_epoch)?;
        if !next.learners.contains(&learner) {
            return Err(Rejection::NotAMember { node: learner.node });
        }
        // It was a primary that said it has caught up, and whoever follows that one does not count on the learner.
        if next.primary.is_none() {
            return Err(Rejection::PrimaryNotMember);
        }
        if !self.current(learner)?.is_up {
            return Err(Rejection::NotAHolder { node: learner.node });
        }
        next.learners.retain(|other| *other != learner);
        next.members.push(learner);
        let (present, count) = (next.min_in_sync, next.members.len());
        let holders = self.holder_count_of(class.durability);
        next.min_in_sync = Self::min_in_sync_raised(present, class, count, holders);
        Ok(self.install(id, next))
    }

    pub(super) fn remove_member(
        &mut self,
        id: PartitionId,
        expected_epoch: u32,
        member: Member,
    ) -> Applied {
        let mut next = self.next_held(id, expected_epoch)?;
        if next.learners.contains(&member) {
            next.learners.retain(|other| *other != member);
            return Ok(self.install(id, next));
        }
        if !next.has_member(member) {
            return Err(Rejection::NotAMember { node: member.node });
        }
        if next.members.len() == 1 {
            return Err(Rejection::LastMember);
        }
        if next.primary == Some(member) {
            return Err(Rejection::IsPrimary { node: member.node });
        }
        next.members.retain(|other| *other != member);
        Ok(self.install(id, next))
    }

    pub(super) fn declare_lost(&mut self, id: PartitionId, expected_epoch: u32) -> Applied {
        let mut next = self.next_held(id, expected_epoch)?;
        for &member in &next.members {
            if self.current(member)?.is_up {
                return Err(Rejection::MemberIsUp { node: member.node });
            }
        }
        lose(&mut next);
        Ok(self.install(id, next))
    }

    /// The present configuration in the next epoch, if the partition is in the epoch that is expected, and not lost.
    fn next_held(&self, id: PartitionId, expected_epoch: u32) -> Result<Configuration, Rejection> {
        let next = self.existing(id)?.next_after(expected_epoch)?;
        if next.is_lost { Err(Rejection::Lost) } else { Ok(next) }
    }

    /// The partition has another configuration, which was checked.
    pub(super) fn install(&mut self, id: PartitionId, next: Configuration) -> Outcome {
        let version = self.next_version();
        let epoch = next.epoch;
        let partition = &mut self.partitions[usize::from(id.0)];
        if partition.configuration.primary != next.primary {
            partition.primary_since = version;
        }
        partition.configuration = next;
        partition.changed_at = version;
        Outcome::Reconfigured { epoch }
    }
}

/// Nobody has what the partition held.
pub(super) fn lose(configuration: &mut Configuration) {
    configuration.members.clear();
    configuration.learners.clear();
    configuration.primary = None;
    configuration.is_lost = true;
}
