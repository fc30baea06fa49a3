//! A partition that this node holds, and its replica: what the protocol wants done is done here, under the partition's lock.

use std::collections::VecDeque;

use weft_protocol::replication::{Acknowledgement, Entry, PeerMessage};
use weft_protocol::{
    Durability, ErrorCode, ErrorReply, Member, PartitionId, TableClass, TableId, Version,
};
use weft_transport::Time;

use super::Cluster;
use super::feeding::{Fed, Feed};
use super::logged::{Durable, Logged, Rewritten};
use super::reports::Report;
use super::tables::BroughtTo;
use crate::durable::{Event, Mode};
use crate::partitions::Placement;
use crate::replication::{Effect, Handled, RecordError, Replica};
use crate::store::{Gather, Partition, PartitionConfig, Snapshot, StoreError};
use crate::withheld::{Answer, Withheld, deposed};

/// Bytes in front of the records of a piece: the entry as of which they are.
pub(super) const PIECE_HEAD: usize = 8;

/// A partition that this node holds, with whomever.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) partition: Partition,
    pub(super) replica: Replica,
    /// Of which tables it is.
    pub(super) class: TableClass,
    /// What its tables are by.
    pub(super) brought_to: Option<BroughtTo>,
    /// The sequence up to which every member has every entry; the end of all sequences if there is no other member.
    pub(super) committed: u64,
    pub(super) withheld: Withheld,
    /// How often it ceased to be primary, or to become it.
    pub(super) depositions: u32,
    /// Whether nobody else holds it, and the log has taken what was made when others did: then the replica hears of no entries, and everything is committed
    /// at once.
    pub(super) is_alone: bool,
    /// Whether the log is asked for room before an entry is made: it is answered before the log has it.
    pub(super) asks_for_room: bool,
    /// Whether what waits for room in the log may have been answered: it was made while nobody else held the partition.
    pub(super) owes_log: bool,
    /// Entries up to this one wait for the first piece of a snapshot, which says which tables there are.
    pub(super) held_up: Option<u64>,
    /// Where entries go that are kept on disk.
    pub(super) logged: Option<Box<Logged>>,
    /// A piece of a snapshot that is on its way to the log: of which session, and its number.
    pub(super) piece_due: Option<(u32, u32)>,
    /// Whether the partition is lost: what the log has of it is all that is left then.
    is_lost: bool,
    /// A record of an entry.
    pub(super) scratch: Vec<u8>,
}

/// Up to where a node has a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastEntry {
    /// The partition.
    pub partition: PartitionId,
    /// Of which durability its tables are.
    pub durability: Durability,
    /// The last entry that is applied.
    pub version: Version,
    /// Whether the node has everything that was ever acknowledged, as far as it knows.
    pub is_in_sync: bool,
}

/// What the node's log has of a partition that is to be hosted.
#[derive(Debug)]
pub(crate) enum InLog {
    /// It is not kept on disk.
    Unlogged,
    /// Nothing of use.
    Nothing(Logged),
    /// All of it.
    Whole(Logged, Box<Recovered>),
}

/// A partition as its log has it.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) partition: Partition,
    /// What comes before the entries that are kept.
    pub(crate) base: Version,
    /// The last entries, which others may ask for.
    pub(crate) entries: VecDeque<(Version, Box<[u8]>)>,
    /// It takes nothing of a lower epoch.
    pub(crate) epoch: u32,
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

impl Hosted {
    /// A partition that holds what the node's log has of it.
    pub(crate) fn new(
        cluster: &Cluster,
        config: PartitionConfig,
        in_log: InLog,
    ) -> Result<Hosted, StoreError> {
        let (id, me) = (PartitionId(config.id), cluster.me);
        let (mut settings, leases) = (cluster.settings().clone(), cluster.leases.clone());
        let (logged, recovered) = match in_log {
            InLog::Unlogged => (None, None),
            InLog::Nothing(logged) => (Some(Box::new(logged)), None),
            InLog::Whole(logged, recovered) => (Some(Box::new(logged)), Some(recovered)),
        };
        settings.is_logged = logged.is_some();
        settings.is_synced = logged.as_ref().is_some_and(|logged| logged.mode() == Mode::Fsync);
        let (mut partition, replica) = match recovered {
            None => (Partition::new(config)?, Replica::new(id, me, settings, leases)),
            Some(recovered) => {
                let Recovered { partition, base, entries, epoch } = *recovered;
                let entries =
                    entries.iter().map(|(version, bytes)| Entry { version: *version, bytes });
                let replica = Replica::recovered(id, me, settings, leases, base, entries, epoch);
                (partition, replica)
            }
        };
        partition.set_following(true);
        #[cfg(any(test, feature = "planted-bugs"))]
        partition.plant(cluster.planted_in_store);
        Ok(Hosted {
            partition,
            replica,
            class: TableClass::DEFAULT,
            brought_to: None,
            committed: 0,
            withheld: Withheld::default(),
            depositions: 0,
            is_alone: false,
            asks_for_room: false,
            owes_log: false,
            held_up: None,
            logged,
            piece_due: None,
            is_lost: false,
            scratch: Vec::new(),
        })
    }

    /// Whether a write may be made now.
    ///
    /// # Errors
    /// What to answer if not.
    #[inline]
    pub(crate) fn may_write(&self) -> Result<(), ErrorReply<'static>> {
        self.replica.next_version().map(drop).map_err(|error| match error {
            RecordError::TooFewMembers => ErrorReply::new(ErrorCode::TooFewReplicas),
            RecordError::TailFull => {
                let logged = self.logged.as_ref().filter(|_| self.replica.refuses_entries());
                logged.map_or(ErrorReply::new(ErrorCode::NotServing), |logged| logged.refusal())
            }
            RecordError::NotServing => ErrorReply::new(ErrorCode::NotServing),
            RecordError::OutOfSequences | RecordError::OutOfOrder => {
                ErrorReply::new(ErrorCode::Internal)
            }
        })
    }

    /// Whether this node is the primary, and may act as one.
    #[inline]
    pub(crate) fn serves(&self) -> bool {
        self.replica.is_serving()
    }

    /// The catalog may be another one.
    pub(crate) fn look_at_tables(&mut self, cluster: &Cluster, now: Now, due: &mut Due) {
        self.say_how_far();
        self.settle(cluster, now, due);
    }

    /// The coordinator has committed a configuration.
    pub(crate) fn configure(
        &mut self,
        cluster: &Cluster,
        placement: &Placement,
        map_version: u64,
        now: Now,
        due: &mut Due,
    ) {
        self.say_how_far();
        let Placement { configuration, born_in, .. } = placement;
        self.class = placement.class;
        self.replica.begin_anew_if_before(*born_in);
        self.is_lost = placement.configuration.is_lost;
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
            Handled::TakeRecords(records) => self.take_records(cluster, &records, now),
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
        self.record();
        self.replica.tick(now.time);
        self.settle(cluster, now, due);
    }

    /// The log tells something of this partition.
    pub(crate) fn log_told(&mut self, event: &Event) {
        match self.logged.as_mut().and_then(|logged| logged.told(event)) {
            Some(Durable::Entries(sequence)) => self.replica.synced(sequence),
            Some(Durable::Snapshot) => self.replica.snapshot_synced(),
            None => {}
        }
    }

    /// Begins to write it anew to its log, if that has all of it, with the tables that there are. Returns the snapshot, and its number.
    pub(crate) fn begin_rewrite(&mut self) -> Option<(u64, Snapshot)> {
        self.record();
        let logged = self.logged.as_mut()?;
        if self.partition.is_learning() || !self.replica.is_in_sync() {
            return None;
        }
        let snapshot = self.partition.snapshot();
        let number = logged.begin_rewrite(snapshot.head())?;
        Some((number, snapshot))
    }

    /// Whether the snapshot of this number is still being written.
    pub(crate) fn is_rewriting(&self, number: u64) -> bool {
        self.logged.as_ref().is_some_and(|logged| logged.is_rewriting(number))
    }

    /// Appends the piece that `next` gathers to the log, or the end of the snapshot. Without room for a piece, none is gathered; but one that was may have
    /// none either.
    pub(crate) fn rewrite(&mut self, next: impl FnOnce(&Partition) -> Option<Gather>) -> Rewritten {
        self.record();
        let Some(logged) = &mut self.logged else { return Rewritten::Over };
        if !logged.takes_piece() {
            return Rewritten::NoRoom;
        }
        let piece = next(&self.partition).map(|piece| piece.all().to_vec());
        logged.rewrite(piece.as_deref())
    }

    /// Whether its log has failed, so that who waits for it is to be told.
    pub(crate) fn has_failed_log(&self) -> bool {
        self.logged.as_ref().is_some_and(|logged| logged.has_failed())
    }

    /// Whether its log has taken all that anybody was told of, or has failed. What it has no room for was told to nobody, unless it was made while nobody else held
    /// the partition.
    pub(crate) fn is_flushed(&self) -> bool {
        let is_flushed = |logged: &Logged| {
            logged.is_flushed() || logged.has_failed() || logged.is_full() && !self.owes_log
        };
        self.logged.as_deref().is_none_or(is_flushed)
    }

    /// Whether it is kept in this log.
    pub(crate) fn is_in(&self, mode: Mode) -> bool {
        self.logged.as_ref().is_some_and(|logged| logged.mode() == mode)
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
        loop {
            while let Some(effect) = self.replica.poll_effect() {
                self.carry_out(effect, cluster, now, due);
            }
            self.keep_to_role(due);
            // The first entries are those that make tables: a log that began behind them would lack these.
            self.begin_log();
            // Before what has happened is handed to the log: nobody would hand over later what comes of it.
            self.keep_tables(cluster);
            if self.logged.is_some() {
                self.write_down(cluster, now.time, due);
            }
            if !self.replica.has_effects() {
                break;
            }
        }
        if self.partition.is_learning() && self.replica.is_in_sync() {
            self.partition.end_snapshot();
        }
        while let Some((to, message)) = self.replica.poll_message(now.time) {
            cluster.peers.send(to, message);
        }
        due.acknowledgements.extend(self.replica.poll_acknowledgement());
    }

    /// Has the log begin with a partition that it does not have, before there is anything in it that the log was not told.
    fn begin_log(&mut self) {
        let Hosted { partition, replica, logged: Some(logged), is_lost, .. } = self else { return };
        // Before that, it may yet turn out to be a member's.
        if !replica.is_configured() {
            return;
        }
        if logged.is_absent() && replica.is_in_sync() {
            logged.create(replica.epoch(), partition.last_entry());
        } else if logged.has_remains() && !replica.is_learner() && !*is_lost {
            logged.forget();
        }
    }

    /// Hands over to the log what has happened since; nothing is told of it before.
    fn write_down(&mut self, cluster: &Cluster, now: Time, due: &mut Due) {
        let Hosted { replica, logged: Some(logged), withheld, piece_due, owes_log, .. } = self
        else {
            return;
        };
        logged.fence(replica.epoch());
        logged.flush(now);
        if logged.is_flushed() {
            *owes_log = false;
            if !logged.has_failed()
                && let Some((session, piece)) = piece_due.take()
            {
                replica.piece_taken(session, piece);
            }
        }
        if logged.is_learning() && (replica.has_all_pieces() || replica.is_in_sync()) {
            logged.end();
            logged.flush(now);
        }
        replica.applied(logged.taken());
        replica.refuse_entries(logged.refuses_for_now());
        if !logged.has_failed() {
            return;
        }
        // What waits may be durable or not; nobody will know before the node is started anew.
        withheld.refuse_all(&failed_meanwhile(), &mut due.answers);
        if !replica.is_sole_member()
            && replica.is_in_sync()
            && logged.is_failure_due(replica.epoch())
        {
            let (id, epoch) = (replica.partition(), replica.epoch());
            cluster.reports.add(id, cluster.me, Report::Unreachable, epoch);
        }
    }

    fn carry_out(&mut self, effect: Effect, cluster: &Cluster, now: Now, due: &mut Due) {
        let id = self.replica.partition();
        match effect {
            Effect::Apply { last, .. } => match &mut self.held_up {
                Some(held_up) => *held_up = last,
                None => self.apply(cluster, last, now),
            },
            Effect::Reset { base } => {
                self.partition.clear();
                self.brought_to = None;
                self.piece_due = None;
                let is_learner = self.replica.is_learner();
                self.held_up = is_learner.then_some(0);
                match &mut self.logged {
                    Some(logged) if is_learner => logged.begin_anew(self.replica.epoch(), base),
                    Some(logged) if self.is_lost => logged.abandon(),
                    Some(logged) => logged.forget(),
                    None => {}
                }
            }
            Effect::Committed { sequence } => {
                self.committed = sequence;
                self.withheld.take_due(sequence, &mut due.answers);
            }
            // What it is then, `keep_to_role` sees to.
            Effect::Serving => {}
            Effect::Demoted => {
                self.depositions = self.depositions.wrapping_add(1);
                self.withheld.refuse_all(&deposed(), &mut due.answers);
            }
            Effect::Feed { learner, session } => {
                let snapshot = self.partition.snapshot();
                cluster.feeds.lock().begin(Feed::new(id, learner, session, snapshot));
            }
            Effect::StopFeeding { learner } => cluster.feeds.lock().end(id, learner),
            Effect::Unreachable { member, epoch } => {
                cluster.reports.add(id, member, Report::Unreachable, epoch);
            }
            Effect::Answers { member } => {
                cluster.reports.take_back(id, member, Report::Unreachable);
            }
            Effect::GivenUp { learner, epoch } => {
                cluster.reports.add(id, learner, Report::GivenUp, epoch);
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
        // Who becomes alone answers what is queued for the log when that has taken it, as it would have with others. A log that has failed takes
        // nothing more: what waits for it is refused, and what is asked from then on is answered.
        let has_failed = self.has_failed_log();
        let is_flushed = self.logged.as_deref().is_none_or(Logged::is_flushed);
        let may_be_alone = self.is_alone || is_flushed || has_failed;
        self.is_alone = self.replica.is_alone() && may_be_alone;
        if self.is_alone {
            if has_failed {
                self.withheld.refuse_all(&failed_meanwhile(), &mut due.answers);
            }
            self.committed = u64::MAX;
            self.withheld.take_due(self.committed, &mut due.answers);
        } else {
            self.committed = self.replica.committed();
        }
        let is_written_behind = |logged: &Logged| logged.mode() == Mode::Disk;
        self.asks_for_room = self.is_alone && self.logged.as_deref().is_some_and(is_written_behind);
        let records = serves && (!self.is_alone || self.logged.is_some());
        if records != self.partition.is_recording() {
            self.partition.set_recording(records);
        }
    }

    /// While it is alone, the replica does not hear of entries. What was removed for want of memory is an entry that nobody has handed over yet.
    fn say_how_far(&mut self) {
        self.record();
        if self.is_alone {
            self.replica.advance_alone(self.partition.last_entry());
        }
    }

    /// The partition's number, a digest of what it holds, and whether this node is in sync.
    pub(crate) fn digest(&self, unix_ms: u64) -> (PartitionId, u128, bool) {
        let is_in_sync = self.replica.is_in_sync();
        (self.replica.partition(), self.partition.digest(unix_ms), is_in_sync)
    }

    /// Up to where this node has the partition.
    pub(crate) fn last_entry(&self) -> LastEntry {
        LastEntry {
            partition: self.replica.partition(),
            durability: self.class.durability,
            version: self.partition.last_entry(),
            is_in_sync: self.replica.is_in_sync(),
        }
    }

    /// The partition's number, how many objects it has, and the tables besides the one that is always there.
    pub(crate) fn holding(&self) -> (PartitionId, u64, Vec<TableId>) {
        let others = self.partition.other_tables().into_iter().map(|(id, _)| id);
        (self.replica.partition(), self.partition.stats().objects, others.collect())
    }

    /// The next piece for a learner, if it is to have one now.
    pub(super) fn feed(
        &mut self,
        cluster: &Cluster,
        feed: &mut Feed,
        now: Now,
        due: &mut Due,
    ) -> Fed {
        let (learner, session) = (feed.learner, feed.session);
        if !self.replica.is_walked_for(learner, session) {
            return Fed::Over;
        }
        if !self.replica.wants_piece(learner, session) {
            return Fed::Nothing;
        }
        let piece = feed.next_piece(&self.partition);
        match piece {
            Some(piece) => self.replica.snapshot_piece(learner, session, piece),
            None => self.replica.snapshot_done(learner, session),
        }
        self.settle(cluster, now, due);
        self.count_untaken(cluster, learner, now.time);
        Fed::Some
    }

    /// Tells how many pieces a learner has not taken yet.
    pub(super) fn count_untaken(&self, cluster: &Cluster, learner: Member, now: Time) {
        let untaken = self.replica.pieces_untaken(learner);
        cluster.feeds.lock().count_untaken(self.replica.partition(), learner, untaken, now);
    }
}

/// What those are told who waited for a log that has failed.
fn failed_meanwhile() -> ErrorReply<'static> {
    ErrorReply::new(ErrorCode::DiskFailedMeanwhile)
}
