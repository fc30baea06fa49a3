//! What a committed configuration changes. Replicas propose; only what the coordinator has committed counts.

use weft_protocol::{Configuration, Member, Version};
use weft_transport::Time;

use super::planted::PlantedBug;
use super::replica::Replica;
use super::roles::{Learning, Role};

impl Replica {
    /// The coordinator committed `configuration`, which is in the map since `map_version` at the latest. Older ones than what is known are ignored, so
    /// they may come in any order and with gaps. When all replicas of a node that a new version of the map is about were told, its
    /// [`Leases`](super::Leases) are told of the version.
    pub fn configure(&mut self, configuration: &Configuration, map_version: u64, now: Time) {
        let known = self.configuration.as_ref().map_or(0, |known| known.epoch);
        if configuration.epoch < self.epoch || configuration.epoch <= known {
            return;
        }
        // Grants that this node gives from now on are of no use to a primary that does not know of this change.
        self.leases.heard_of(map_version);
        self.configuration = Some(configuration.clone());
        self.enter_epoch(configuration.epoch, configuration.primary);

        let is_member = configuration.has_member(self.me) && !configuration.is_lost;
        let is_learner = configuration.learners.contains(&self.me) && !configuration.is_lost;
        let goes_on_learning = is_learner && matches!(self.role, Role::Learner(_));
        if is_member {
            self.become_member();
        } else if is_learner {
            self.become_learner();
        } else if !matches!(self.role, Role::None) {
            self.demote();
            self.drop_all(Role::None, Version::NONE);
        }
        if self.is_failed {
            // Given anew, it may take part again. A learner that goes on is not, unless its primary begins another session.
            self.is_failed = is_member || goes_on_learning;
            if goes_on_learning {
                self.tell_that_it_failed();
            }
            return;
        }
        if is_member && configuration.primary == Some(self.me) {
            self.preside(map_version, now);
        } else {
            self.demote();
        }
    }

    /// The partition began anew in `epoch`, empty: what this replica knows of it from before is of no use.
    pub fn begin_anew_if_before(&mut self, epoch: u32) {
        self.born_in = self.born_in.max(epoch);
        // One that was recovered goes by what is in it, until it knows a configuration.
        let known = self.configuration.as_ref().map_or(self.last().epoch(), |known| known.epoch);
        if known < epoch && !matches!(self.role, Role::None) {
            self.demote();
            self.drop_all(Role::None, Version::NONE);
        }
    }

    /// Goes by `epoch` from now on, and by the word of `primary`.
    pub(super) fn enter_epoch(&mut self, epoch: u32, primary: Option<Member>) {
        if primary != self.primary {
            if let Role::Primary(tenure) = &self.role
                && (tenure.is_serving() || self.settings.has(PlantedBug::ClaimToHaveServed))
            {
                self.served = self.epoch;
            }
            // The former primary may read for as long as a lease runs that this node granted before now. What is granted from now
            // on is of a map that has the change.
            if let Some(former) = self.primary.filter(|former| *former != self.me) {
                self.lease_until = self.lease_until.max(self.leases.granted_until(former));
            }
            self.early.clear();
            self.gap_since = None;
            #[cfg(any(test, feature = "planted-bugs"))]
            self.truncate_if_planted();
        }
        if epoch > self.epoch + 1 {
            // Whoever served before may have been primary of an epoch in between, and have read by what this node granted all the while.
            let until = self.leases.granted_to_others_until(primary);
            self.lease_until = self.lease_until.max(until);
        }
        self.epoch = epoch;
        self.primary = primary;
    }

    #[cfg(any(test, feature = "planted-bugs"))]
    fn truncate_if_planted(&mut self) {
        if self.settings.has(PlantedBug::TruncateByCommit) {
            self.tail.truncate(self.committed.max(self.tail.base().sequence()));
            self.applied = self.applied.min(self.tail.last().sequence());
            self.synced = self.synced.min(self.applied);
        }
    }

    fn become_member(&mut self) {
        match &self.role {
            // A configuration that has this life of this node as a member, and no learner ever was: the partition is new.
            Role::None => self.role = Role::Member,
            Role::Learner(learning) => {
                let is_complete = learning.is_complete(self.own(), self.settings.is_synced)
                    || self.settings.has(PlantedBug::CaughtUpTooEarly);
                if is_complete {
                    self.role = Role::Member;
                } else {
                    self.contradict("a learner became a member before it had everything");
                }
            }
            Role::Member | Role::Primary(_) => {}
        }
    }

    fn become_learner(&mut self) {
        match self.role {
            // Its primary, or the next one, says when to begin.
            Role::Learner(_) => {}
            Role::None => self.role = Role::Learner(Learning::default()),
            Role::Member | Role::Primary(_) => {
                self.demote();
                self.drop_all(Role::Learner(Learning::default()), Version::NONE);
            }
        }
    }
}
