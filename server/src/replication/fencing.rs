//! A member is told that there is a new primary: nothing of an earlier epoch counts any more, and the new one learns how far it has
//! come.

use weft_protocol::Member;
use weft_protocol::replication::{Fence, Fenced, Tail, TailEntries};
use weft_transport::Time;

use super::replica::Replica;
use super::roles::Role;
use super::sending::Answer;
use super::tenure::Phase;

impl Replica {
    pub(super) fn handle_fence(&mut self, from: Member, fence: &Fence, now: Time) {
        if fence.epoch < self.epoch {
            return self.answer_stale(from);
        }
        if fence.epoch == self.epoch && self.primary.is_some_and(|primary| primary != from) {
            return;
        }
        match &self.role {
            Role::None => return,
            // Of a configuration that has it as a member, or it would not be asked; that one has not come yet.
            Role::Learner(learning)
                if learning.is_complete(self.own(), self.settings.is_synced) =>
            {
                self.role = Role::Member;
            }
            Role::Learner(_) => return,
            Role::Member | Role::Primary(_) => {}
        }
        self.leases.heard_of(fence.map_version);
        self.enter_epoch(fence.epoch, Some(from));
        self.demote();
        let rest = self.lease_until.since(now);
        let fenced = Fenced {
            partition: self.partition,
            epoch: self.epoch,
            last: self.tail.last(),
            // Rounded up, so that the lease has ended when the time is over.
            lease_ms: u32::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX),
            served: self.served,
        };
        self.answer(from, Answer::Fenced(fenced));
    }

    /// A new primary lacks entries that this member has. All that it can lack is in the tail: what is committed it has.
    pub(super) fn handle_tail(&mut self, from: Member, tail: &Tail) {
        if tail.epoch < self.epoch {
            return self.answer_stale(from);
        }
        let is_primary = tail.epoch == self.epoch && self.primary == Some(from);
        if !is_primary || !matches!(self.role, Role::Member) {
            return;
        }
        match self.tail.version_at(tail.after.sequence()) {
            Some(here) if here == tail.after => {
                self.answer(from, Answer::TailEntries { after: tail.after });
            }
            Some(_) => self.contradict("a new primary has an entry of another version"),
            // It has come late, and what is asked for was committed in the meantime.
            None => {}
        }
    }

    /// The entries that this replica, the new primary, has asked for.
    pub(super) fn handle_tail_entries(
        &mut self,
        from: Member,
        entries: &TailEntries<'_>,
        now: Time,
    ) {
        let Role::Primary(tenure) = &self.role else { return };
        let is_of_tenure = entries.epoch >= tenure.since_epoch && entries.epoch <= self.epoch;
        if !tenure.is_adopting() || !is_of_tenure {
            return;
        }
        if entries.previous.sequence() > self.tail.last().sequence() {
            return;
        }
        let before = self.tail.last();
        if !self.extend(entries.previous, entries.entries) {
            return;
        }
        // Who has nothing of what it said it has is as good as silent.
        if self.tail.last() > before
            && let Role::Primary(tenure) = &mut self.role
        {
            if let Phase::Adopting { asked_at, .. } = &mut tenure.phase {
                // The next are asked for at once.
                *asked_at = None;
            }
            if let Some(follower) = tenure.follower(from) {
                follower.made_progress(now);
            }
        }
        self.promote(now);
    }
}
