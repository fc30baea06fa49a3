//! A primary's time, from being named to being superseded, and those that follow it.

use std::sync::Arc;

use weft_protocol::{Configuration, Member, Version};
use weft_transport::Time;

use super::feeding::Feeding;
use super::leases::{HeldLease, Leases};

/// What a primary has besides what every replica has. It lasts through all epochs in a row that have the same primary; once it serves, over such that
/// this replica missed, too.
#[derive(Debug)]
pub(super) struct Tenure {
    /// The epoch in which it began. What members said in an earlier one does not count.
    pub(super) since_epoch: u32,
    /// A version of the map that has this primary.
    pub(super) map_version: u64,
    /// The epoch of the configuration that it goes by.
    followed_epoch: u32,
    pub(super) phase: Phase,
    pub(super) followers: Vec<Follower>,
    /// Nothing is served before, unless it was handed over: until then a former primary may read.
    pub(super) leases_until: Time,
    /// The primary right before has served and was deposed, so nobody else can read whatever leases run.
    pub(super) is_handed_over: bool,
    /// Whose turn it is to be sent something.
    pub(super) turn: usize,
}

/// How far a primary has come from being named to serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Some members have not answered the fence.
    Fencing,
    /// One member has more than this replica.
    Adopting {
        /// That member.
        from: Member,
        /// The last that it has.
        last: Version,
        /// When it was asked.
        asked_at: Option<Time>,
    },
    /// Leases of former primaries may still run.
    Waiting,
    /// Reads and writes are served.
    Serving,
}

/// Another member, or a learner, as its primary sees it.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) member: Member,
    pub(super) standing: Standing,
    /// What it said in an earlier epoch than this does not count.
    pub(super) since_epoch: u32,
    /// The lease that it granted.
    pub(super) lease: Arc<HeldLease>,
    /// That it grants none before then is no trouble: a node that kept its place through a restart does not know whom it granted what before.
    pub(super) lease_expected_from: Time,
    pub(super) is_connected: bool,
    /// The last entry that it had when it was fenced.
    pub(super) fenced: Option<Version>,
    pub(super) fence_sent_at: Option<Time>,
    /// Up to where it has acknowledged.
    pub(super) acked: u64,
    /// Up to where it was sent entries.
    pub(super) sent: u64,
    /// The commit mark that it was told.
    pub(super) told: u64,
    /// Something is to be said though there are no entries: a new epoch, or how far all have come.
    pub(super) must_tell: bool,
    /// Something was sent again: no more than one message before it answers.
    pub(super) is_probed: bool,
    /// When it last made progress, or was sent something while it had nothing to answer.
    pub(super) progress_at: Time,
    pub(super) trouble_since: Option<Time>,
    pub(super) reported_at: Option<Time>,
}

/// What a follower is.
#[derive(Debug)]
pub(super) enum Standing {
    /// In sync.
    Member,
    /// Being given what there is.
    Learner(Box<Feeding>),
}

impl Follower {
    fn new(
        member: Member,
        standing: Standing,
        since_epoch: u32,
        leases: &Leases,
        now: Time,
    ) -> Self {
        Self {
            member,
            standing,
            since_epoch,
            lease: leases.held(member),
            lease_expected_from: now + leases.settings().granted(),
            is_connected: true,
            fenced: None,
            fence_sent_at: None,
            acked: 0,
            sent: 0,
            told: 0,
            must_tell: true,
            is_probed: false,
            progress_at: now,
            trouble_since: None,
            reported_at: None,
        }
    }

    pub(super) fn is_member(&self) -> bool {
        matches!(self.standing, Standing::Member)
    }

    /// Whether a commit needs its acknowledgement, and a read its lease.
    pub(super) fn is_needed(&self) -> bool {
        match &self.standing {
            Standing::Member => true,
            Standing::Learner(feeding) => feeding.is_counted,
        }
    }

    pub(super) fn feeding(&self) -> Option<&Feeding> {
        match &self.standing {
            Standing::Member => None,
            Standing::Learner(feeding) => Some(feeding),
        }
    }

    pub(super) fn feeding_mut(&mut self) -> Option<&mut Feeding> {
        match &mut self.standing {
            Standing::Member => None,
            Standing::Learner(feeding) => Some(feeding),
        }
    }

    /// The session of its appends.
    pub(super) fn session(&self) -> u32 {
        self.feeding().map_or(0, |feeding| feeding.session)
    }

    pub(super) fn made_progress(&mut self, now: Time) {
        self.progress_at = now;
        self.is_probed = false;
        self.trouble_since = None;
    }
}

impl Tenure {
    pub(super) fn new(since_epoch: u32, map_version: u64, leases_until: Time) -> Self {
        Self {
            since_epoch,
            map_version,
            followed_epoch: 0,
            phase: Phase::Fencing,
            followers: Vec::new(),
            leases_until,
            is_handed_over: false,
            turn: 0,
        }
    }

    /// Goes by `configuration`; returns the learners that are none any more, or begin anew. `base` is where a member begins that was not known before: whatever
    /// it has, it has everything up to there.
    pub(super) fn follow(
        &mut self,
        configuration: &Configuration,
        me: Member,
        base: u64,
        leases: &Leases,
        now: Time,
    ) -> Vec<Member> {
        // A learner may have been removed, and have dropped everything, in a configuration that was skipped.
        let is_next = self.is_next(configuration.epoch);
        self.followed_epoch = configuration.epoch;
        let mut begins_anew = Vec::new();
        let mut former: Vec<_> = std::mem::take(&mut self.followers);
        let members = configuration.members.iter().map(|member| (*member, true));
        let learners = configuration.learners.iter().map(|member| (*member, false));
        for (member, is_member) in members.chain(learners) {
            if member == me || self.followers.iter().any(|follower| follower.member == member) {
                continue;
            }
            let known = former.iter().position(|follower| follower.member == member);
            let mut follower = known.map(|index| former.swap_remove(index)).unwrap_or_else(|| {
                let epoch = configuration.epoch;
                let since_epoch = if is_member { self.since_epoch } else { epoch };
                let standing = if is_member {
                    Standing::Member
                } else {
                    Standing::Learner(Box::new(Feeding::new(epoch)))
                };
                let mut follower = Follower::new(member, standing, since_epoch, leases, now);
                follower.sent = base;
                follower
            });
            let is_new = follower.since_epoch == configuration.epoch;
            if is_member {
                follower.standing = Standing::Member;
            } else if let Some(feeding) = follower.feeding_mut()
                && (is_next || is_new)
            {
                feeding.asked_at = None;
            } else {
                // It was a member, or may have been nothing, in between.
                if !follower.is_member() {
                    begins_anew.push(member);
                }
                let feeding = Feeding::new(configuration.epoch);
                let standing = Standing::Learner(Box::new(feeding));
                follower = Follower::new(member, standing, configuration.epoch, leases, now);
            }
            // The new epoch goes to everybody, so that nobody waits for the map.
            follower.must_tell = true;
            follower.reported_at = None;
            self.followers.push(follower);
        }
        let gone = former.iter().filter(|follower| !follower.is_member());
        begins_anew.extend(gone.map(|follower| follower.member));
        begins_anew
    }

    /// Whether it goes by the configuration right before that of `epoch`.
    pub(super) fn is_next(&self, epoch: u32) -> bool {
        epoch == self.followed_epoch + 1
    }

    pub(super) fn follower(&mut self, member: Member) -> Option<&mut Follower> {
        self.followers.iter_mut().find(|follower| follower.member == member)
    }

    pub(super) fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    pub(super) fn is_adopting(&self) -> bool {
        matches!(self.phase, Phase::Adopting { .. })
    }

    /// Whether every survivor's tail was adopted, so that entries may be sent.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Serving)
    }

    pub(super) fn learners(&self) -> impl Iterator<Item = Member> {
        let learners = self.followers.iter().filter(|follower| !follower.is_member());
        learners.map(|follower| follower.member)
    }

    /// Up to where all learners that were not given up have acknowledged.
    pub(super) fn learners_have(&self) -> u64 {
        let learners = self
            .followers
            .iter()
            .filter(|follower| follower.feeding().is_some_and(Feeding::holds_tail));
        learners.map(|follower| follower.acked).min().unwrap_or(u64::MAX)
    }
}
