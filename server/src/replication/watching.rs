//! Time passes: what was lost is sent again, and who does not answer is reported.

use std::collections::VecDeque;

use weft_transport::Time;

use super::effect::Effect;
use super::feeding::Feeding;
use super::replica::Replica;
use super::roles::Role;
use super::settings::Settings;
use super::tenure::{Follower, Phase};

/// A learner of class `fsync` that has taken everything, and says nothing while its disk catches up, is waited for so many times as long as others.
const DISK_PATIENCE: u32 = 8;

impl Replica {
    /// Time has come to `now`. To be called at every heartbeat, or at least a few times within
    /// [`resend_after`](Settings::resend_after), and at [`next_deadline`](Self::next_deadline).
    pub fn tick(&mut self, now: Time) {
        let slept = now.since(self.last_tick) > self.settings.unreachable_after / 2;
        self.last_tick = now;
        if self.is_failed {
            return self.tell_failure(now);
        }
        self.tell_gap(now);
        self.promote(now);
        let (last, committed, epoch) = (self.tail.last().sequence(), self.committed, self.epoch);
        let base = self.tail.base().sequence();
        let is_tail_full = self.tail.bytes() > self.settings.tail_bytes_max / 2;
        let (settings, effects) = (&self.settings, &mut self.effects);
        let Role::Primary(tenure) = &mut self.role else { return };
        let (phase, is_settled) = (tenure.phase, tenure.is_settled());
        let mut are_some_given_up = false;
        for follower in &mut tenure.followers {
            if slept {
                // This node did not run, so that nobody answered says nothing.
                follower.trouble_since = None;
                follower.progress_at = now;
            }
            if is_settled {
                send_again(follower, base, settings, now);
                if follower.told < committed && follower.sent == last {
                    follower.must_tell = true;
                }
            }
            let is_far_behind = is_tail_full && follower.acked < committed;
            if is_far_behind && follower.feeding().is_some_and(Feeding::holds_tail) {
                give_up(follower, effects);
                are_some_given_up = true;
            }
            tell(follower, phase, last, epoch, settings, effects, now);
        }
        if are_some_given_up {
            self.trim();
        }
        self.consider_learners(now);
        self.commit();
    }
}

impl Replica {
    /// The coordinator may not have heard that this replica takes no part any more.
    fn tell_failure(&mut self, now: Time) {
        let is_due = now.since(self.failure_told_at) >= self.settings.unreachable_after;
        if is_due && !matches!(self.role, Role::None) {
            self.failure_told_at = now;
            self.tell_that_it_failed();
        }
    }

    /// Who takes no part does not know any more who answers.
    pub(super) fn take_back_reports(&mut self) {
        let Role::Primary(tenure) = &mut self.role else { return };
        for follower in &mut tenure.followers {
            if follower.reported_at.take().is_some() {
                self.effects.push_back(Effect::Answers { member: follower.member });
            }
        }
    }

    pub(super) fn tell_that_it_failed(&mut self) {
        let (member, epoch) = (self.me, self.epoch);
        self.effects.push_back(match self.role {
            Role::Learner(_) => Effect::GivenUp { learner: member, epoch },
            _ => Effect::Unreachable { member, epoch },
        });
    }
}

/// What was sent long ago and not answered is sent again, a message at a time.
fn send_again(follower: &mut Follower, base: u64, settings: &Settings, now: Time) {
    let is_late = |progress_at| now.since(progress_at) >= settings.resend_after;
    if is_late(follower.progress_at) && follower.acked < follower.sent {
        follower.sent = follower.acked.max(base);
        follower.is_probed = true;
        follower.must_tell = true;
        follower.progress_at = now;
    }
    if let Some(feeding) = follower.feeding_mut()
        && feeding.has_begun()
        && feeding.waits()
        && is_late(feeding.progress_at)
    {
        feeding.send_again();
        feeding.progress_at = now;
    }
}

/// The learner is sent nothing any more: what it lacks cannot be kept for ever, nor can others wait for it.
fn give_up(follower: &mut Follower, effects: &mut VecDeque<Effect>) {
    let learner = follower.member;
    if let Some(feeding) = follower.feeding_mut() {
        feeding.is_given_up = true;
        effects.push_back(Effect::StopFeeding { learner });
    }
    follower.reported_at = None;
}

/// Tells the coordinator how it is with `follower`, if that is news or was told some time ago.
fn tell(
    follower: &mut Follower,
    phase: Phase,
    last: u64,
    epoch: u32,
    settings: &Settings,
    effects: &mut VecDeque<Effect>,
    now: Time,
) {
    let member = follower.member;
    let is_given_up = follower.feeding().is_some_and(|feeding| feeding.is_given_up);
    if !is_given_up {
        if !is_troubled(follower, phase, last, now) {
            follower.trouble_since = None;
            if follower.reported_at.take().is_some() {
                effects.push_back(Effect::Answers { member });
            }
            return;
        }
        let since = *follower.trouble_since.get_or_insert(now);
        let waits_for_disk = follower.feeding().is_some_and(|feeding| feeding.waits_for_disk());
        let patience = if settings.is_synced && waits_for_disk {
            settings.unreachable_after * DISK_PATIENCE
        } else {
            settings.unreachable_after
        };
        if now.since(since) < patience {
            return;
        }
        if follower.feeding().is_some_and(|feeding| feeding.is_counted) {
            // Nothing is committed without it, and the coordinator need not be in a hurry about who is only a learner to it.
            give_up(follower, effects);
        }
    }
    let tell_again = settings.unreachable_after / 2;
    if follower.reported_at.is_some_and(|at| now.since(at) < tell_again) {
        return;
    }
    follower.reported_at = Some(now);
    effects.push_back(match follower.feeding() {
        Some(feeding) if feeding.is_given_up => Effect::GivenUp { learner: member, epoch },
        _ => Effect::Unreachable { member, epoch },
    });
}

/// Whether something does not go on because of `follower`.
fn is_troubled(follower: &Follower, phase: Phase, last: u64, now: Time) -> bool {
    match phase {
        Phase::Fencing => follower.is_member() && follower.fenced.is_none(),
        Phase::Adopting { from, .. } => from == follower.member,
        Phase::Waiting | Phase::Serving => {
            let has_no_lease = phase == Phase::Serving
                && follower.lease.until() <= now
                && follower.lease_expected_from <= now;
            match follower.feeding() {
                None => follower.acked < last || has_no_lease,
                Some(feeding) => {
                    feeding.waits()
                        || follower.acked < last
                        || (feeding.is_complete() && has_no_lease)
                }
            }
        }
    }
}
