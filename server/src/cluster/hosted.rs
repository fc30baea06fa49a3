//! A partition that this node holds, and its replica: what the protocol wants done is done here, under the partition's lock.

use weft_protocol::replication::{Acknowledgement, Entry, PeerMessage, SnapshotRecords};
use weft_protocol::{Configuration, ErrorCode, ErrorReply, Member, PartitionId, Version};
use weft_transport::Time;

use super::Cluster;
use super::feeding::Feed;
use super::reports::Report;
use crate::replication::{Effect, Handled, RecordError, Replica};
use crate::store::{ApplyError, Partition, PartitionConfig, StoreError};
use crate::withheld::{Answer, Waiting, Withheld};

/// Bytes in front of the records of a piece: the entry as of which they are.
pub(super) const PIECE_HEAD: usize = 8;

/// A partition that this node holds, with whomever.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) partition: Partition,
    replica: Replica,
    /// The sequence up to which every member has every entry; the end of all sequences if there is no other member.
    committed: u64,
    withheld: Withheld,
    /// Whether nobody else holds it: then nothing is recorded, and everything is committed at once.
    is_alone: bool,
    /// Entries up to this one wait for the first piece of a snapshot, which says which tables there are.
    held_up: Option<u64>,
    /// A record of an entry.
    scratch: Vec<u8>,
}

/// When it is, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) time: Time,
    pub(crate) unix_ms: u64,
}

/// What is to be done without the partition's lock.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// To be given.
    pub(crate) answers: Vec<Answer>,
    /// To be gathered and sent.
    pub(crate) acknowledgements: Vec<(Member, Acknowledgement)>,
}

impl Due {
    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.acknowledgements.is_empty()
    }
}

/// On which terms something may be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Up to which sequence everything is committed.
    pub(crate) committed: u64,
    /// Not after that.
    pub(crate) until: Time,
}

impl Hosted {
    /// A partition that holds nothing.
    pub(crate) fn new(cluster: &Cluster, config: PartitionConfig) -> Result<Hosted, StoreError> {
        let id = PartitionId(config.id);
        let mut partition = Partition::new(config)?;
        partition.set_following(true);
        let leases = cluster.leases.clone();
        let replica = Replica::new(id, cluster.me, cluster.settings().clone(), leases);
        Ok(Hosted {
            partition,
            replica,
            committed: 0,
            withheld: Withheld::default(),
            is_alone: false,
            held_up: None,
            scratch: Vec::new(),
        })
    }

    /// On which terms what is read here may be told; nothing if this node is not the one to tell it.
    #[inline]
    pub(crate) fn terms(&self) -> Terms {
        Terms { committed: self.committed, until: self.replica.may_read_until() }
    }

    /// Whether a write may be made now.
    ///
    /// # Errors
    /// What to answer if not.
    #[inline]
    pub(crate) fn may_write(&self) -> Result<(), ErrorReply<'static>> {
        self.replica.next_version().map(drop).map_err(|error| match error {
            RecordError::TooFewMembers => ErrorReply::new(ErrorCode::TooFewReplicas),
            RecordError::NotServing | RecordError::TailFull => {
                ErrorReply::new(ErrorCode::NotServing)
            }
            RecordError::OutOfSequences | RecordError::OutOfOrder => {
                ErrorReply::new(ErrorCode::Internal)
            }
        })
    }

    /// Hands the entries over that changes have made. Returns whether there were some, for other nodes to have.
    #[inline]
    pub(crate) fn record(&mut self) -> bool {
        self.partition.is_recording() && self.record_entries()
    }

    fn record_entries(&mut self) -> bool {
        let Hosted { partition, replica, scratch, .. } = self;
        let mut has_recorded = false;
        while let Some(entry) = partition.take_entry() {
            has_recorded = true;
            scratch.clear();
            entry.bytes.copy_to(scratch);
            let recorded = replica.record(Entry { version: entry.version, bytes: scratch });
            recorded.expect("it was asked before whether a write may be made");
        }
        has_recorded
    }

    /// The coordinator has committed a configuration.
    pub(crate) fn configure(
        &mut self,
        cluster: &Cluster,
        configuration: &Configuration,
        map_version: u64,
        now: Now,
        due: &mut Due,
    ) {
        self.say_how_far();
        self.replica.configure(configuration, map_version, now.time);
        self.settle(cluster, now, due);
    }

    /// Another node says something of this partition.
    pub(crate) fn handle(
        &mut self,
        cluster: &Cluster,
        from: Member,
        message: &PeerMessage<'_>,
        now: Now,
        due: &mut Due,
    ) {
        self.say_how_far();
        match self.replica.handle(from, message, now.time) {
            Handled::Done => {}
            Handled::TakeRecords(records) => self.take_records(&records, now),
        }
        self.settle(cluster, now, due);
    }

    /// A follower says how far it has come.
    pub(crate) fn acknowledged(
        &mut self,
        cluster: &Cluster,
        from: Member,
        told: &Acknowledgement,
        now: Now,
        due: &mut Due,
    ) {
        self.replica.acknowledged(from, told, now.time);
        self.settle(cluster, now, due);
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, cluster: &Cluster, now: Now, due: &mut Due) {
        self.replica.tick(now.time);
        self.settle(cluster, now, due);
    }

    /// There is a connection to a node, or none any more.
    pub(crate) fn peer_changed(
        &mut self,
        cluster: &Cluster,
        peer: Member,
        is_connected: bool,
        now: Now,
        due: &mut Due,
    ) {
        if is_connected {
            self.replica.connected(peer.node, now.time);
        } else {
            self.replica.disconnected(peer.node);
        }
        self.settle(cluster, now, due);
    }

    /// Does what the replica wants done, and sends what it has to say.
    pub(crate) fn settle(&mut self, cluster: &Cluster, now: Now, due: &mut Due) {
        while let Some(effect) = self.replica.poll_effect() {
            self.carry_out(effect, cluster, now, due);
        }
        self.keep_to_role(due);
        if self.partition.is_learning() && self.replica.is_in_sync() {
            self.partition.end_snapshot();
        }
        while let Some((to, message)) = self.replica.poll_message(now.time) {
            cluster.peers.send(to, message);
        }
        due.acknowledgements.extend(self.replica.poll_acknowledgement());
    }

    fn carry_out(&mut self, effect: Effect, cluster: &Cluster, now: Now, due: &mut Due) {
        let id = self.replica.partition();
        match effect {
            Effect::Apply { last, .. } => match &mut self.held_up {
                Some(held_up) => *held_up = last,
                None => self.apply(last, now),
            },
            Effect::Reset { .. } => {
                self.partition.clear();
                self.held_up = self.replica.is_learner().then_some(0);
            }
            Effect::Committed { sequence } => {
                self.committed = sequence;
                self.withheld.take_due(sequence, &mut due.answers);
            }
            // What it is then, `keep_to_role` sees to.
            Effect::Serving => {}
            Effect::Demoted => {
                self.withheld.refuse_all(&not_primary(), &mut due.answers);
            }
            Effect::Feed { learner, session } => {
                let snapshot = self.partition.snapshot();
                cluster.feeds.lock().begin(Feed::new(id, learner, session, snapshot));
            }
            Effect::StopFeeding { learner } => cluster.feeds.lock().end(id, learner),
            Effect::Unreachable { member, epoch } => {
                cluster.reports.add(id, member, Report::Unreachable, epoch);
            }
            Effect::CaughtUp { learner, epoch } => {
                cluster.reports.add(id, learner, Report::CaughtUp, epoch);
            }
            Effect::LookAtMap { .. } => cluster.reports.look_at_map(),
            Effect::Contradiction { what } => {
                tracing::error!(
                    partition = id.0,
                    what,
                    "a replica and what it is told contradict each other"
                );
            }
        }
    }

    /// The partition is what the replica's role asks for: it follows, or makes entries of the replica's epoch, and records them if there is anybody to
    /// send them to.
    fn keep_to_role(&mut self, due: &mut Due) {
        let serves = self.replica.is_serving();
        if serves && self.partition.version().epoch() != self.replica.epoch() {
            let begun = self.partition.begin_epoch(self.replica.epoch());
            begun.expect("an epoch never falls, and has 20 bits");
        }
        self.partition.set_following(!serves);
        self.is_alone = self.replica.is_alone();
        if self.is_alone {
            self.committed = u64::MAX;
            self.withheld.take_due(self.committed, &mut due.answers);
        } else {
            self.committed = self.replica.committed();
        }
        let records = serves && !self.is_alone;
        if records != self.partition.is_recording() {
            self.partition.set_recording(records);
        }
    }

    /// While it is alone, the replica does not hear of entries.
    fn say_how_far(&mut self) {
        if self.is_alone {
            self.replica.advance_alone(self.partition.last_entry());
        }
    }

    fn apply(&mut self, last: u64, now: Now) {
        let Hosted { partition, replica, .. } = self;
        let first = partition.last_entry().sequence() + 1;
        let mut applied = first - 1;
        let mut refused = None;
        for entry in replica.entries(first, last) {
            match partition.apply_entries(entry.bytes, now.unix_ms) {
                Ok(version) => applied = version.sequence(),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        replica.applied(applied);
        if let Some(error) = refused {
            self.fail(&error);
        }
    }

    /// Takes a piece of a snapshot, unless it is too early for it: then it comes again.
    fn take_records(&mut self, records: &SnapshotRecords<'_>, now: Now) {
        let Some((as_of, bytes)) = records.records.split_first_chunk::<PIECE_HEAD>() else {
            return self.fail(&ApplyError::Malformed { offset: 0 });
        };
        let as_of = Version(u64::from_le_bytes(*as_of));
        let taken = match self.held_up {
            Some(_) if records.piece == 0 => {
                let base = self.replica.base();
                self.partition.begin_snapshot(base, bytes)
            }
            _ => self.partition.apply_snapshot(as_of, bytes, now.unix_ms),
        };
        match taken {
            Ok(()) => {
                self.replica.piece_taken(records.session, records.piece);
                if let Some(last) = self.held_up.take() {
                    self.apply(last, now);
                }
            }
            Err(ApplyError::TooEarly { .. }) => {}
            Err(error) => self.fail(&error),
        }
    }

    /// This replica cannot go on.
    fn fail(&mut self, error: &ApplyError) {
        tracing::error!(partition = self.replica.partition().0, %error, "a replica cannot apply what it is sent");
        self.replica.fail();
    }

    /// The partition's number, a digest of what it holds, and whether this node is in sync.
    pub(crate) fn digest(&self, unix_ms: u64) -> (PartitionId, u128, bool) {
        let is_in_sync = self.replica.is_in_sync();
        (self.replica.partition(), self.partition.digest(unix_ms), is_in_sync)
    }

    /// Has something wait until the entry with this sequence is committed.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn withhold(&mut self, sequence: u64, waiting: Waiting) -> Result<(), Waiting> {
        if sequence <= self.committed {
            return Err(waiting);
        }
        self.withheld.push(sequence, waiting);
        Ok(())
    }

    /// The next piece for a learner, if it is to have one now.
    pub(super) fn feed(
        &mut self,
        cluster: &Cluster,
        feed: &mut Feed,
        now: Now,
        due: &mut Due,
    ) -> bool {
        let (learner, session) = (feed.learner, feed.session);
        if !self.replica.wants_piece(learner, session) {
            return false;
        }
        let piece = feed.next_piece(&self.partition);
        match piece {
            Some(piece) => self.replica.snapshot_piece(learner, session, piece),
            None => self.replica.snapshot_done(learner, session),
        }
        self.settle(cluster, now, due);
        true
    }
}

/// What those are told who waited for a commit, when this node is not the primary any more.
fn not_primary() -> ErrorReply<'static> {
    // It may be committed yet, by whoever is the primary then.
    ErrorReply::new(ErrorCode::Deposed)
}
