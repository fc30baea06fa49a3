//! How a learner gets what there is: records of the store in numbered pieces, while new entries come to it as to everybody.
//!
//! From the moment a learner is called caught up it may be made a member without its primary knowing it, and then the next
//! primary may be chosen from members of which the learner is the only one that lives. So before the coordinator is asked, the learner
//! counts for commits, has everything that was ever committed, and counts for reads; and nobody who was primary before this one
//! may still read, since the learner has granted him nothing that would have to run out.

use std::collections::VecDeque;

use weft_protocol::replication::SnapshotAcknowledge;
use weft_protocol::{Member, Version};
use weft_transport::Time;

use super::effect::Effect;
use super::planted::PlantedBug;
use super::replica::Replica;
use super::roles::Role;
use super::tenure::Standing;

/// A learner that lacks at most so many entries is waited for: what is on its way at any time is more than nothing.
const BEHIND_MAX: u64 = 4096;

/// How far a learner has come, as its primary sees it.
#[derive(Debug)]
pub(super) struct Feeding {
    /// The epoch in which it began.
    pub(super) session: u32,
    /// The last entry that was committed then, once it was said.
    pub(super) base: Option<Version>,
    pub(super) begin_sent_at: Option<Time>,
    has_begun: bool,
    /// Pieces that the learner has not acknowledged; the first of them is number `acked`.
    pieces: VecDeque<Vec<u8>>,
    acked: u32,
    /// The number of the piece to be sent next.
    pub(super) next: u32,
    /// The last entry that there was when the last record was read.
    end: Option<u64>,
    pub(super) is_end_sent: bool,
    is_complete: bool,
    /// Whether commits and reads need it.
    pub(super) is_counted: bool,
    /// When the coordinator was asked to make it a member.
    pub(super) asked_at: Option<Time>,
    /// When the learner last took a piece, or was sent one while it had taken all. Entries say nothing about pieces.
    pub(super) progress_at: Time,
    /// It is too far behind, or commits waited for it in vain: it is sent nothing any more.
    pub(super) is_given_up: bool,
}

impl Feeding {
    pub(super) fn new(session: u32) -> Self {
        Self {
            session,
            base: None,
            begin_sent_at: None,
            has_begun: false,
            pieces: VecDeque::new(),
            acked: 0,
            next: 0,
            end: None,
            is_end_sent: false,
            is_complete: false,
            is_counted: false,
            asked_at: None,
            progress_at: Time::ZERO,
            is_given_up: false,
        }
    }

    /// Whether the learner has said that it takes things of this session.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the tail keeps what it has not acknowledged.
    pub(super) fn holds_tail(&self) -> bool {
        self.base.is_some() && !self.is_given_up
    }

    fn is_walked_for(&self, session: u32) -> bool {
        self.session == session && !self.is_given_up && self.end.is_none()
    }

    pub(super) fn piece(&self, number: u32) -> Option<&[u8]> {
        self.pieces.get(number.checked_sub(self.acked)? as usize).map(Vec::as_slice)
    }

    /// The number of pieces and up to where entries are needed, once all pieces were sent.
    pub(super) fn end_due(&self) -> Option<(u32, u64)> {
        let through = self.end?;
        let pieces = self.acked + self.pieces.len() as u32;
        (self.next == pieces && !self.is_end_sent).then_some((pieces, through))
    }

    /// Whether the learner has not answered to everything that it was sent.
    pub(super) fn waits(&self) -> bool {
        !self.has_begun || self.acked < self.next || (self.is_end_sent && !self.is_complete)
    }

    /// Whether the learner has everything.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether the learner has taken everything, and may wait for its disk.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.is_end_sent && self.acked == self.next && !self.is_complete
    }

    /// What was sent and not acknowledged is sent again.
    pub(super) fn send_again(&mut self) {
        self.next = self.acked;
        self.is_end_sent = self.is_end_sent && self.is_complete;
    }
}

impl Replica {
    /// Whether anything more of a walk for a learner is of use: it has not come to its end, and has not been stopped.
    pub fn is_walked_for(&self, learner: Member, session: u32) -> bool {
        self.feeding_for(learner).is_some_and(|feeding| feeding.is_walked_for(session))
    }

    /// Whether a walk for a learner is to go on now: there is room for another piece.
    pub fn wants_piece(&self, learner: Member, session: u32) -> bool {
        self.feeding_for(learner).is_some_and(|feeding| {
            feeding.is_walked_for(session)
                && feeding.has_begun
                && feeding.pieces.len() < self.settings.pieces_ahead_max
        })
    }

    /// Pieces that were given for a learner and that it has not taken yet, as far as is known.
    pub fn pieces_untaken(&self, learner: Member) -> usize {
        let feeding = self.feeding_for(learner).filter(|feeding| !feeding.is_given_up);
        feeding.map_or(0, |feeding| feeding.pieces.len())
    }

    fn feeding_for(&self, learner: Member) -> Option<&Feeding> {
        let Role::Primary(tenure) = &self.role else { return None };
        tenure.followers.iter().find(|follower| follower.member == learner)?.feeding()
    }

    /// The next piece of a walk: records with their versions, read after the walk was asked for.
    pub fn snapshot_piece(&mut self, learner: Member, session: u32, records: Vec<u8>) {
        if let Some(feeding) = self.feeding_of(learner, session)
            && feeding.end.is_none()
        {
            feeding.pieces.push_back(records);
        }
    }

    /// The walk is at its end.
    pub fn snapshot_done(&mut self, learner: Member, session: u32) {
        let last = self.tail.last().sequence();
        if let Some(feeding) = self.feeding_of(learner, session) {
            feeding.end.get_or_insert(last);
        }
    }

    fn feeding_of(&mut self, learner: Member, session: u32) -> Option<&mut Feeding> {
        let Role::Primary(tenure) = &mut self.role else { return None };
        let feeding = tenure.follower(learner)?.feeding_mut()?;
        (feeding.session == session).then_some(feeding)
    }

    pub(super) fn handle_pieces(&mut self, from: Member, told: &SnapshotAcknowledge, now: Time) {
        let epoch = self.epoch;
        let Role::Primary(tenure) = &mut self.role else { return };
        let Some(follower) = tenure.follower(from) else { return };
        let Standing::Learner(feeding) = &mut follower.standing else { return };
        if feeding.session != told.session || told.epoch > epoch {
            return;
        }
        let mut is_progress = false;
        if !feeding.has_begun {
            let Some(base) = feeding.base else { return };
            feeding.has_begun = true;
            follower.sent = base.sequence();
            is_progress = true;
            let session = feeding.session;
            self.effects.push_back(Effect::Feed { learner: from, session });
        }
        while feeding.acked < told.pieces && feeding.acked < feeding.next {
            feeding.pieces.pop_front();
            feeding.acked += 1;
            is_progress = true;
        }
        if told.is_complete && feeding.is_end_sent && !feeding.is_complete {
            feeding.is_complete = true;
            is_progress = true;
        }
        if is_progress {
            feeding.progress_at = now;
            follower.made_progress(now);
            self.consider_learners(now);
        }
    }

    /// Counts a learner that has everything, then asks for it to be made a member.
    pub(super) fn consider_learners(&mut self, now: Time) {
        let (last, committed, epoch) = (self.tail.last().sequence(), self.committed, self.epoch);
        let ask_again = self.settings.unreachable_after / 4;
        let (settings, effects) = (&self.settings, &mut self.effects);
        let Role::Primary(tenure) = &mut self.role else { return };
        let is_ready = tenure.is_serving()
            || (tenure.is_settled() && settings.has(PlantedBug::CaughtUpBeforeServing));
        for follower in tenure.followers.iter_mut().filter(|_| is_ready) {
            let (learner, acked) = (follower.member, follower.acked);
            let is_leased = follower.lease.until() > now;
            let Some(feeding) = follower.feeding_mut().filter(|feeding| !feeding.is_given_up)
            else {
                continue;
            };
            let is_complete = feeding.is_complete
                || (feeding.has_begun && settings.has(PlantedBug::CaughtUpTooEarly));
            // Reads need its lease from when it is counted: one that was just started grants none yet.
            let has_lease = feeding.is_counted || is_leased;
            if !is_complete || acked + BEHIND_MAX < last || !has_lease {
                continue;
            }
            feeding.is_counted = !settings.has(PlantedBug::CaughtUpNotCounted);
            // Entries may have been committed without it since it said how far it was. From now on none are.
            let has_all = acked >= committed
                || settings.has(PlantedBug::CaughtUpBehindCommitted)
                || settings.has(PlantedBug::CaughtUpTooEarly);
            let is_asked = feeding.asked_at.is_some_and(|asked| now.since(asked) < ask_again);
            if has_all && !is_asked {
                feeding.asked_at = Some(now);
                effects.push_back(Effect::CaughtUp { learner, epoch });
            }
        }
    }
}
