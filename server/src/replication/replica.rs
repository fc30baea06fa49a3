//! A partition on one node: what it has, what it is, and what it is told.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_protocol::replication::{
    Acknowledgement, Entry, PeerMessage, SnapshotAcknowledge, SnapshotRecords,
};
use weft_protocol::{Configuration, Member, PartitionId, Version};
use weft_transport::Time;

use super::early::Early;
use super::effect::Effect;
use super::leases::Leases;
use super::roles::{Learning, Role};
use super::sending::Answer;
use super::settings::Settings;
use super::tail::Tail;

/// The most answers that wait to be sent. One that finds no room is dropped: whoever waits for it asks again.
const ANSWERS_MAX: usize = 16;

/// A partition on one node. See the [module](super) for the protocol.
///
/// Whoever drives it calls one of the verbs with what happened, then takes [effects](Self::poll_effect) until there are none, and
/// [messages](Self::poll_message) and [acknowledgements](Self::poll_acknowledgement) as the transport has room. The order between
/// them is free, but effects are carried out in order.
///
/// What it costs: an entry of a primary is copied once into the tail, an acknowledgement looks at each follower (one or two), and a
/// read at as many leases. None of them allocates, but for a buffer of the tail now and then.
#[derive(Debug)]
pub struct Replica {
    pub(super) partition: PartitionId,
    pub(super) me: Member,
    pub(super) settings: Settings,
    pub(super) leases: Arc<Leases>,
    pub(super) role: Role,
    /// The highest epoch that it was told of, by a configuration or by a message: nothing of a lower one counts.
    pub(super) epoch: u32,
    /// The newest committed configuration that it knows.
    pub(super) configuration: Option<Configuration>,
    /// The epoch in which the partition began empty: entries of an earlier one are none of its.
    pub(super) born_in: u32,
    /// Whose word it takes in this epoch.
    pub(super) primary: Option<Member>,
    pub(super) tail: Tail,
    pub(super) early: Early,
    /// Since when something is missing in front of what came early, and whether that was said.
    pub(super) gap_since: Option<Time>,
    /// When it last said that it has what came again.
    pub(super) repetition_told_at: Time,
    /// Up to where entries were applied.
    pub(super) applied: u64,
    /// Up to where entries are on disk; of use in class `fsync` only.
    pub(super) synced: u64,
    /// Up to where every member has everything, as far as is known here. It says what need not be kept, and never what is cut off.
    pub(super) committed: u64,
    /// Until then a former primary, or whoever may have been one, may read by a lease that this node granted it.
    pub(super) lease_until: Time,
    /// The last epoch in which this replica served as the primary until another one was named or fenced it; 0 if there is none.
    pub(super) served: u32,
    pub(super) acknowledge_due: bool,
    /// Nothing can be applied or synced any more, or something contradicts what is here: it takes no part.
    pub(super) is_failed: bool,
    /// Bytes of the tail from which on no entries are made.
    pub(super) room_bytes: usize,
    pub(super) failure_told_at: Time,
    pub(super) answers: VecDeque<(Member, Answer)>,
    pub(super) effects: VecDeque<Effect>,
    pub(super) last_tick: Time,
}

/// What is to be done with a message right away, since it lies in the receive buffer.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Handled<'a> {
    /// Nothing.
    Done,
    /// Take these records of a snapshot, each unless there is a newer one of its key, and say so by
    /// [`piece_taken`](Replica::piece_taken).
    TakeRecords(SnapshotRecords<'a>),
}

/// Why an entry cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// This replica is not the serving primary.
    #[error("this node does not serve the partition")]
    NotServing,
    /// There are fewer members than the class demands.
    #[error("fewer members are in sync than writes need")]
    TooFewMembers,
    /// A member is so far behind that nothing more can be kept for it: wait until it has caught up or is out.
    #[error("a member of the partition is too far behind")]
    TailFull,
    /// The epoch has run out of sequences.
    #[error("the partition has run out of sequences")]
    OutOfSequences,
    /// The entry is not of the [next version](Replica::next_version).
    #[error("the entry is not the next one")]
    OutOfOrder,
}

impl Replica {
    /// A replica that holds nothing.
    pub fn new(
        partition: PartitionId,
        me: Member,
        settings: Settings,
        leases: Arc<Leases>,
    ) -> Self {
        let lease_until = leases.forgotten_until();
        let tail = Tail::new(Version::NONE, settings.append_bytes);
        let room_bytes = settings.tail_bytes_max;
        Self {
            partition,
            me,
            settings,
            leases,
            role: Role::None,
            epoch: 0,
            configuration: None,
            born_in: 0,
            primary: None,
            tail,
            early: Early::default(),
            gap_since: None,
            repetition_told_at: Time::ZERO,
            applied: 0,
            synced: 0,
            committed: 0,
            lease_until,
            served: 0,
            acknowledge_due: false,
            is_failed: false,
            room_bytes,
            failure_told_at: Time::ZERO,
            answers: VecDeque::new(),
            effects: VecDeque::new(),
            last_tick: Time::ZERO,
        }
    }

    /// A replica whose log was complete on disk when its node was started: it has every entry up to `base`, in its store, and
    /// `entries` behind that, in its store too, and has taken nothing below `epoch`. Others may ask for these, so they should be as many as a tail holds. It is a member if a configuration
    /// says so of this life of the node, and forgets everything otherwise.
    pub fn recovered<'e>(
        partition: PartitionId,
        me: Member,
        settings: Settings,
        leases: Arc<Leases>,
        base: Version,
        entries: impl IntoIterator<Item = Entry<'e>>,
        epoch: u32,
    ) -> Self {
        let mut replica = Self::new(partition, me, settings, leases);
        replica.tail.reset(base);
        for entry in entries {
            replica.tail.push(entry);
        }
        let last = replica.tail.last();
        (replica.applied, replica.synced) = (last.sequence(), last.sequence());
        replica.epoch = epoch.max(last.epoch());
        replica.role = Role::Member;
        replica
    }

    /// Handles a message about this partition that a node sent, in the life in which it is connected.
    pub fn handle<'m>(
        &mut self,
        from: Member,
        message: &PeerMessage<'m>,
        now: Time,
    ) -> Handled<'m> {
        if self.is_failed {
            let is_given_anew = matches!(message, PeerMessage::SnapshotBegin(begin) if self.is_of_later_session(begin));
            if !is_given_anew {
                return Handled::Done;
            }
            self.is_failed = false;
        }
        match message {
            PeerMessage::Append(append) => self.handle_append(from, append, now),
            PeerMessage::Missing(missing) => self.handle_missing(from, missing, now),
            PeerMessage::Stale(stale) => self.handle_stale(stale),
            PeerMessage::Fence(fence) => self.handle_fence(from, fence, now),
            PeerMessage::Fenced(fenced) => self.handle_fenced(from, fenced, now),
            PeerMessage::Tail(tail) => self.handle_tail(from, tail),
            PeerMessage::TailEntries(entries) => self.handle_tail_entries(from, entries, now),
            PeerMessage::SnapshotBegin(begin) => self.handle_begin(from, begin, now),
            PeerMessage::SnapshotRecords(records) => return self.handle_records(from, records),
            PeerMessage::SnapshotEnd(end) => self.handle_end(from, end),
            PeerMessage::SnapshotAcknowledge(acknowledge) => {
                self.handle_pieces(from, acknowledge, now);
            }
            // These are not about one partition: the node hands acknowledgements out, and leases to its `Leases`.
            PeerMessage::Acknowledge(_)
            | PeerMessage::Lease(_)
            | PeerMessage::Grant(_)
            | PeerMessage::Notice(_)
            | PeerMessage::Part(_) => {}
        }
        Handled::Done
    }

    /// Entries up to `sequence` were applied, in order.
    pub fn applied(&mut self, sequence: u64) {
        let sequence = sequence.min(self.tail.last().sequence());
        if sequence <= self.applied {
            return;
        }
        self.applied = sequence;
        self.have_changed();
    }

    /// Entries up to `sequence` are on disk for good.
    pub fn synced(&mut self, sequence: u64) {
        let sequence = sequence.min(self.tail.last().sequence());
        if sequence <= self.synced {
            return;
        }
        self.synced = sequence;
        self.have_changed();
    }

    /// The snapshot of which this replica [has all pieces](Self::has_all_pieces) is on disk for good, and all entries that were applied before it had them.
    pub fn snapshot_synced(&mut self) {
        if let Role::Learner(learning) = &mut self.role
            && learning.has_all_pieces()
            && !learning.is_on_disk
        {
            learning.is_on_disk = true;
            self.have_changed();
        }
    }

    /// The store or the disk has failed: this replica acknowledges and serves nothing any more, and the coordinator is to go on
    /// without it.
    pub fn fail(&mut self) {
        self.is_failed = true;
        self.take_back_reports();
        self.tell_that_it_failed();
        self.demote();
    }

    /// What came of [`Handled::TakeRecords`].
    pub fn piece_taken(&mut self, session: u32, piece: u32) {
        let own = self.own();
        let Role::Learner(learning) = &mut self.role else { return };
        if learning.session != session || learning.pieces != piece || !learning.is_taking {
            return;
        }
        learning.is_taking = false;
        learning.pieces += 1;
        let is_complete = learning.is_complete(own, self.settings.is_synced);
        let pieces = learning.pieces;
        self.tell_pieces(session, pieces, is_complete);
    }

    /// [`Handled::TakeRecords`] came too early: the piece is to be handed out again when it comes again.
    pub fn piece_left(&mut self, session: u32) {
        if let Role::Learner(learning) = &mut self.role
            && learning.session == session
        {
            learning.is_taking = false;
        }
    }

    /// What is to be done next.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// How far this replica has come, for its primary, if that has changed. The node gathers those of many partitions into one message.
    pub fn poll_acknowledgement(&mut self) -> Option<(Member, Acknowledgement)> {
        if !std::mem::take(&mut self.acknowledge_due) || self.is_failed {
            return None;
        }
        let primary = self.primary?;
        if matches!(self.role, Role::None | Role::Primary(_)) {
            return None;
        }
        let (partition, epoch, sequence) = (self.partition, self.epoch, self.own());
        Some((primary, Acknowledgement { partition, epoch, sequence }))
    }

    /// The entries from `first` to `last`, for [`Effect::Apply`].
    pub fn entries(&self, first: u64, last: u64) -> impl Iterator<Item = Entry<'_>> {
        self.tail.range(first, last)
    }

    /// The partition.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The epoch that this replica goes by.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Up to where every member has everything, as far as is known here.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// The version of the last entry that it has.
    pub fn last(&self) -> Version {
        self.tail.last()
    }

    /// Whether it is a member or the primary: it has everything that was ever acknowledged.
    pub fn is_in_sync(&self) -> bool {
        matches!(self.role, Role::Member | Role::Primary(_)) && !self.is_failed
    }

    /// Up to where it has everything in the way that an acknowledgement means.
    pub(super) fn own(&self) -> u64 {
        let is_synced =
            self.settings.is_synced && !self.settings.has(super::PlantedBug::AcknowledgeBeforeSync);
        if is_synced { self.applied.min(self.synced) } else { self.applied }
    }

    /// Something was applied or synced: a primary may commit, others acknowledge.
    fn have_changed(&mut self) {
        let own = self.own();
        match &self.role {
            Role::Primary(_) => {
                // What was adopted may be all that it waited for.
                self.promote(self.last_tick);
                self.commit();
            }
            Role::Learner(learning) => {
                self.acknowledge_due = true;
                if learning.is_complete(own, self.settings.is_synced) {
                    let (session, pieces) = (learning.session, learning.pieces);
                    self.tell_pieces(session, pieces, true);
                }
            }
            Role::Member | Role::None => self.acknowledge_due = true,
        }
        self.trim();
    }

    pub(super) fn tell_pieces(&mut self, session: u32, pieces: u32, is_complete: bool) {
        let Some(primary) = self.primary else { return };
        let (partition, epoch) = (self.partition, self.epoch);
        let told = SnapshotAcknowledge { partition, epoch, session, pieces, is_complete };
        self.answer(primary, Answer::Pieces(told));
    }

    pub(super) fn answer(&mut self, to: Member, answer: Answer) {
        self.answers.retain(|(other, old)| *other != to || !old.is_replaced_by(&answer));
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back((to, answer));
        }
    }

    /// Forgets everything. What was on its way to the store need not be applied any more.
    pub(super) fn drop_all(&mut self, role: Role, base: Version) {
        self.tail.reset(base);
        self.early.clear();
        self.gap_since = None;
        self.acknowledge_due = false;
        self.effects.retain(|effect| !matches!(effect, Effect::Apply { .. }));
        (self.applied, self.synced) = (base.sequence(), base.sequence());
        self.committed = 0;
        self.role = role;
        self.effects.push_back(Effect::Reset { base });
    }

    /// Something cannot be: what is here is not what the others have.
    pub(super) fn contradict(&mut self, what: &'static str) {
        self.effects.push_back(Effect::Contradiction { what });
        self.fail();
    }

    /// Is no primary any more, but keeps all that it has: survivors never roll back.
    pub(super) fn demote(&mut self) {
        if let Role::Primary(tenure) = &mut self.role {
            for learner in tenure.learners() {
                self.effects.push_back(Effect::StopFeeding { learner });
            }
            self.role = Role::Member;
            self.effects.push_back(Effect::Demoted);
        }
    }

    pub(super) fn learning(&self) -> Option<&Learning> {
        match &self.role {
            Role::Learner(learning) => Some(learning),
            _ => None,
        }
    }
}
