//! From being named primary to serving: fence all other members, adopt what the longest has, wait until nobody else can read.

use weft_protocol::replication::Fenced;
use weft_protocol::{Member, Version};
use weft_transport::Time;

use std::time::Duration;

use super::effect::Effect;
use super::planted::PlantedBug;
use super::replica::Replica;
use super::roles::Role;
use super::tenure::{Phase, Tenure};

impl Replica {
    /// This replica is the primary of the configuration that it was given. If it was the primary already and serves, its tenure goes on: whoever was
    /// primary in between would have had to fence this replica before it did anything. If it does not serve yet, that holds only if there
    /// was no epoch in between: who served before may have been primary in it, and goes on without asking anybody.
    pub(super) fn preside(&mut self, map_version: u64, now: Time) {
        let Some(configuration) = &self.configuration else { return };
        let epoch = configuration.epoch;
        if matches!(&self.role, Role::Primary(tenure) if !tenure.is_serving() && !tenure.is_next(epoch))
        {
            self.demote();
        }
        let Some(configuration) = &self.configuration else { return };
        if !matches!(self.role, Role::Primary(_)) {
            let tenure = Tenure::new(self.epoch, map_version, self.lease_until);
            self.role = Role::Primary(Box::new(tenure));
        }
        let Role::Primary(tenure) = &mut self.role else { return };
        tenure.map_version = map_version;
        let base = self.tail.base().sequence();
        let gone = tenure.follow(configuration, self.me, base, &self.leases, now);
        if tenure.is_adopting() {
            // Whom it adopts from may be gone.
            tenure.phase = Phase::Fencing;
        }
        for learner in gone {
            self.effects.push_back(Effect::StopFeeding { learner });
        }
        self.promote(now);
        self.commit();
        self.trim();
    }

    pub(super) fn handle_fenced(&mut self, from: Member, fenced: &Fenced, now: Time) {
        let drifted = self.leases.settings().drifted(Duration::from_millis(fenced.lease_ms.into()));
        let (epoch, born_in) = (self.epoch, self.born_in);
        let Role::Primary(tenure) = &mut self.role else { return };
        // An answer to an earlier epoch of this tenure is as good: this one has been primary in each since.
        if fenced.epoch < tenure.since_epoch || fenced.epoch > epoch {
            return;
        }
        let since = tenure.since_epoch;
        let is_fencing = tenure.phase == Phase::Fencing;
        let Some(follower) = tenure.follower(from) else { return };
        if !is_fencing || fenced.epoch < since || !follower.is_member() {
            return;
        }
        if fenced.last != Version::NONE && fenced.last.epoch() < born_in {
            // It has not heard that the partition began anew, and drops what it has when it does: it is asked until then.
            return;
        }
        follower.fenced.get_or_insert(fenced.last);
        follower.made_progress(now);
        // Nobody can make a primary wait for longer than a lease.
        let longest = self.leases.settings().drifted(self.leases.settings().granted());
        let until = now + drifted.min(longest) + Duration::from_millis(1);
        tenure.leases_until = tenure.leases_until.max(until);
        tenure.is_handed_over |= fenced.served > 0 && fenced.served + 1 == since;
        self.promote(now);
    }

    /// Goes on as far as it can.
    pub(super) fn promote(&mut self, now: Time) {
        while let Role::Primary(tenure) = &mut self.role {
            let here = self.tail.last();
            match tenure.phase {
                Phase::Fencing if self.settings.has(PlantedBug::SkipFence) => {}
                Phase::Fencing => {
                    let mut members = tenure.followers.iter().filter(|other| other.is_member());
                    if !members.clone().all(|follower| follower.fenced.is_some()) {
                        return;
                    }
                    // Each has a beginning of what the last primary made, and so the longest has all of it.
                    let longest = members.clone().max_by_key(|follower| follower.fenced);
                    let longest =
                        longest.and_then(|longest| Some((longest.member, longest.fenced?)));
                    if let Some((from, last)) = longest
                        && last.sequence() > here.sequence()
                    {
                        tenure.phase = Phase::Adopting { from, last, asked_at: None };
                        return;
                    }
                    let is_same = members.all(|follower| {
                        let fenced = follower.fenced.unwrap_or_default();
                        let known = self.tail.version_at(fenced.sequence());
                        known.is_none_or(|version| version == fenced)
                    });
                    if !is_same {
                        return self.contradict("a member has an entry of another version");
                    }
                }
                Phase::Adopting { last, .. } => {
                    if here.sequence() < last.sequence() {
                        return;
                    }
                    // Once more through what was told, now as the longest.
                    tenure.phase = Phase::Fencing;
                    continue;
                }
                Phase::Waiting => {
                    // What was adopted is read from the store.
                    if self.applied < here.sequence() {
                        return;
                    }
                    if now < tenure.leases_until
                        && !tenure.is_handed_over
                        && !self.settings.has(PlantedBug::PromoteWithoutWaiting)
                    {
                        return;
                    }
                    tenure.phase = Phase::Serving;
                    self.effects.push_back(Effect::Serving);
                    return;
                }
                Phase::Serving => return,
            }
            tenure.phase = Phase::Waiting;
            for follower in &mut tenure.followers {
                if let Some(fenced) = follower.fenced {
                    follower.sent = fenced.sequence().max(self.tail.base().sequence());
                }
                follower.must_tell = true;
                follower.progress_at = now;
            }
        }
    }

    /// When something is due that no message brings about.
    pub fn next_deadline(&self) -> Option<Time> {
        match &self.role {
            Role::Primary(tenure) if tenure.phase == Phase::Waiting && !tenure.is_handed_over => {
                Some(tenure.leases_until)
            }
            _ => None,
        }
    }
}
