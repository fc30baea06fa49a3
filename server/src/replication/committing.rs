//! Entries of a serving primary: made here, acknowledged by all, committed; and reads under leases.

use weft_protocol::replication::{Acknowledgement, Entry, Missing};
use weft_protocol::{Member, Version};
use weft_transport::Time;

use super::effect::Effect;
use super::planted::PlantedBug;
use super::replica::{RecordError, Replica};
use super::roles::Role;
use super::tenure::Tenure;

impl Replica {
    /// Whether this replica is the primary and serves.
    pub fn is_serving(&self) -> bool {
        matches!(&self.role, Role::Primary(tenure) if tenure.is_serving()) && !self.is_failed
    }

    /// The version of the next entry.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if there can be none now. Nothing may be applied to the store then.
    #[inline]
    pub fn next_version(&self) -> Result<Version, RecordError> {
        if !self.is_serving() {
            return Err(RecordError::NotServing);
        }
        if !self.configuration.as_ref().is_some_and(|configuration| configuration.takes_writes()) {
            return Err(RecordError::TooFewMembers);
        }
        if self.tail.bytes() >= self.room_bytes {
            return Err(RecordError::TailFull);
        }
        let sequence = self.tail.last().sequence();
        if sequence == Version::SEQUENCE_MAX {
            return Err(RecordError::OutOfSequences);
        }
        Ok(Version::new(self.epoch, sequence + 1))
    }

    /// The primary has made an entry, and applied it: it goes to all members. The reply waits until it is
    /// [committed](Effect::Committed). Whether there is room for it is to be asked before it is made.
    ///
    /// # Errors
    ///
    /// [`RecordError::NotServing`], or [`RecordError::OutOfOrder`] if the entry has another version than the next.
    #[inline]
    pub fn record(&mut self, entry: Entry<'_>) -> Result<(), RecordError> {
        if !self.is_serving() {
            return Err(RecordError::NotServing);
        }
        if entry.version != Version::new(self.epoch, self.tail.last().sequence() + 1) {
            return Err(RecordError::OutOfOrder);
        }
        self.tail.push(entry);
        if !self.settings.is_logged {
            self.applied = entry.version.sequence();
            self.commit();
        }
        Ok(())
    }

    /// Until when this replica may answer reads from what it has, if nothing else comes: the end of the first lease that it holds
    /// of another member. To be compared with the time *after* the value was read.
    #[inline]
    pub fn may_read_until(&self) -> Time {
        let Role::Primary(tenure) = &self.role else { return Time::ZERO };
        if !tenure.is_serving() || self.is_failed {
            return Time::ZERO;
        }
        if self.settings.has(PlantedBug::ReadAfterLease) {
            return Time::MAX;
        }
        let without_learners = self.settings.has(PlantedBug::ReadWithoutLearnersLease);
        let needed = tenure
            .followers
            .iter()
            .filter(|follower| follower.is_needed() && (follower.is_member() || !without_learners));
        needed.map(|follower| follower.lease.until()).min().unwrap_or(Time::MAX)
    }

    /// Whether reads may be answered at `now`, as [`may_read_until`](Self::may_read_until).
    #[inline]
    pub fn may_read(&self, now: Time) -> bool {
        now < self.may_read_until()
    }

    /// A follower says how far it has come.
    #[inline]
    pub fn acknowledged(&mut self, from: Member, acknowledged: &Acknowledgement, now: Time) {
        let (epoch, last) = (self.epoch, self.tail.last().sequence());
        let Role::Primary(tenure) = &mut self.role else { return };
        let Some(follower) = tenure.follower(from) else { return };
        if acknowledged.epoch < follower.since_epoch || acknowledged.epoch > epoch {
            return;
        }
        if follower.feeding().is_some_and(|feeding| !feeding.has_begun()) {
            return;
        }
        let sequence = acknowledged.sequence.min(last);
        if sequence > follower.acked {
            follower.acked = sequence;
            follower.sent = follower.sent.max(sequence);
            follower.made_progress(now);
            self.commit();
        }
    }

    /// A follower lacks something in front of what it was sent; or it has, though it cannot acknowledge it yet, what it was sent again.
    pub(super) fn handle_missing(&mut self, from: Member, missing: &Missing, now: Time) {
        let epoch = self.epoch;
        let known = self.tail.version_at(missing.last.sequence());
        let Role::Primary(tenure) = &mut self.role else { return };
        let is_settled = tenure.is_settled();
        let Some(follower) = tenure.follower(from) else { return };
        let is_of_now = missing.epoch >= follower.since_epoch && missing.epoch <= epoch;
        if !is_settled || !is_of_now || missing.session != follower.session() {
            return;
        }
        if missing.last.sequence() < follower.acked {
            return;
        }
        if known == Some(missing.last) && missing.last.sequence() < follower.sent {
            follower.sent = missing.last.sequence();
            follower.progress_at = now;
            follower.is_probed = false;
        } else if known == Some(missing.last) && follower.is_probed {
            // That it lives does not make it one that makes progress.
            follower.sent = missing.last.sequence();
            follower.is_probed = false;
        }
    }

    /// Works out anew what everybody has.
    pub(super) fn commit(&mut self) {
        let own = self.own();
        let Role::Primary(tenure) = &self.role else { return };
        let others =
            tenure.followers.iter().filter(|follower| self.is_waited_for(tenure, follower));
        let mut all = others.map(|follower| follower.acked).fold(own, u64::min);
        if self.settings.has(PlantedBug::AcknowledgeBeforeMember) {
            all = own;
        }
        if all > self.committed {
            self.committed = all;
            if let Some(Effect::Committed { sequence }) = self.effects.back_mut() {
                *sequence = all;
            } else {
                self.effects.push_back(Effect::Committed { sequence: all });
            }
            self.trim();
        }
    }

    fn is_waited_for(&self, _tenure: &Tenure, follower: &super::tenure::Follower) -> bool {
        let is_left_out =
            self.settings.has(PlantedBug::ShrinkWithoutCommit) && follower.reported_at.is_some();
        follower.is_needed() && !is_left_out
    }
}
