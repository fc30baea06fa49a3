//! Members and learners take what their primary sends.

use weft_protocol::replication::{
    AppendEntries, Entries, Missing, SnapshotBegin, SnapshotEnd, SnapshotRecords, Stale,
};
use weft_protocol::{Member, Version};
use weft_transport::Time;

use super::effect::Effect;
use super::planted::PlantedBug;
use super::replica::{Handled, Replica};
use super::roles::{Learning, Role};
use super::sending::Answer;

impl Replica {
    pub(super) fn handle_append(&mut self, from: Member, append: &AppendEntries<'_>, now: Time) {
        if append.epoch < self.epoch && !self.settings.has(PlantedBug::IgnoreEpochs) {
            return self.answer_stale(from);
        }
        if append.epoch == self.epoch && self.primary.is_some_and(|primary| primary != from) {
            // Nobody but the primary of an epoch appends in it.
            return;
        }
        let is_for_me = match &self.role {
            Role::None | Role::Primary(_) => false,
            Role::Member => append.session == 0,
            // Entries of no session are for members: the configuration that made this learner one has not come yet.
            Role::Learner(learning) if append.session == 0 => {
                learning.is_complete(self.own(), self.settings.is_synced)
                    && append.epoch > self.epoch
            }
            Role::Learner(learning) => learning.session == append.session,
        };
        if !is_for_me {
            return;
        }
        if append.session == 0 && matches!(self.role, Role::Learner(_)) {
            self.role = Role::Member;
        }
        self.enter_epoch(append.epoch, Some(from));
        self.append(append.previous, append.entries, append.committed, now);
    }

    fn append(&mut self, previous: Version, entries: Entries<'_>, committed: u64, now: Time) {
        if previous.sequence() > self.tail.last().sequence() {
            self.early.keep(previous, entries, self.settings.early_bytes_max);
            self.gap_since.get_or_insert(now);
            self.acknowledge_due = true;
            return;
        }
        let here = self.tail.last();
        if !self.extend(previous, entries) {
            return;
        }
        let is_repeated = entries.count() > 0 && self.tail.last() == here;
        if is_repeated && self.own() < here.sequence() && self.is_due(self.repetition_told_at, now)
        {
            // It may be taken for lost, as it is not acknowledged yet: the store or the disk is slow. Said of each of many that come again, this would
            // have each sent once more.
            self.repetition_told_at = now;
            self.tell_last();
        }
        while let Some(run) = self.early.take(self.tail.last().sequence()) {
            if !self.extend(run.previous, run.entries()) {
                return;
            }
        }
        self.gap_since = if self.early.is_empty() { None } else { Some(now) };
        self.committed = self.committed.max(committed.min(self.tail.last().sequence()));
        self.acknowledge_due = true;
        self.trim();
    }

    /// Takes those of `entries` that are new. What is there already has to be the same: two entries of one sequence would mean that
    /// two primaries gave it out.
    pub(super) fn extend(&mut self, previous: Version, entries: Entries<'_>) -> bool {
        let mut is_same = self.is_here(previous);
        let first = self.tail.last().sequence() + 1;
        for entry in entries {
            if entry.version.sequence() < first {
                is_same &= self.is_here(entry.version);
            } else if is_same {
                self.tail.push(entry);
            }
        }
        let last = self.tail.last().sequence();
        if last >= first {
            self.effects.push_back(Effect::Apply { first, last });
        }
        if !is_same {
            self.contradict("an entry that is here has another version at its primary");
        }
        is_same
    }

    /// Whether the entry of that sequence has that version, as far as is known.
    fn is_here(&self, version: Version) -> bool {
        self.tail.version_at(version.sequence()).is_none_or(|here| here == version)
    }

    pub(super) fn handle_begin(&mut self, from: Member, begin: &SnapshotBegin, _now: Time) {
        if begin.epoch < self.epoch {
            return self.answer_stale(from);
        }
        let is_newer = begin.epoch > self.epoch;
        let is_known = self.configuration.as_ref().is_some_and(|known| known.epoch == begin.epoch);
        match &self.role {
            Role::Learner(learning) if learning.session == begin.session => {}
            Role::Learner(learning) if learning.session > begin.session => return,
            Role::Learner(_) => self.begin(begin),
            // The configuration of that epoch, whose primary this is from, has this node as a learner, or it would not have been
            // sent. Whatever is here from before is not part of what the members have.
            Role::None if is_newer || !is_known => self.begin(begin),
            Role::Member | Role::Primary(_) if is_newer => self.begin(begin),
            _ => return,
        }
        self.enter_epoch(begin.epoch, Some(from));
        self.answer_pieces();
    }

    /// Whether a learner is to begin anew by this.
    pub(super) fn is_of_later_session(&self, begin: &SnapshotBegin) -> bool {
        begin.epoch >= self.epoch
            && self.learning().is_some_and(|learning| learning.session < begin.session)
    }

    fn begin(&mut self, begin: &SnapshotBegin) {
        self.demote();
        let learning = Learning { session: begin.session, ..Learning::default() };
        self.drop_all(Role::Learner(learning), begin.base);
    }

    pub(super) fn handle_records<'m>(
        &mut self,
        from: Member,
        records: &SnapshotRecords<'m>,
    ) -> Handled<'m> {
        if records.epoch < self.epoch {
            self.answer_stale(from);
            return Handled::Done;
        }
        let Role::Learner(learning) = &mut self.role else { return Handled::Done };
        if learning.session != records.session || learning.is_taking {
            return Handled::Done;
        }
        if learning.pieces != records.piece {
            self.answer_pieces();
            return Handled::Done;
        }
        learning.is_taking = true;
        self.enter_epoch(records.epoch, Some(from));
        Handled::TakeRecords(*records)
    }

    pub(super) fn handle_end(&mut self, from: Member, end: &SnapshotEnd) {
        if end.epoch < self.epoch {
            return self.answer_stale(from);
        }
        let Role::Learner(learning) = &mut self.role else { return };
        if learning.session == end.session {
            learning.end = Some((end.pieces, end.through));
            self.enter_epoch(end.epoch, Some(from));
            self.answer_pieces();
        }
    }

    fn answer_pieces(&mut self) {
        if let Some(learning) = self.learning() {
            let (session, pieces) = (learning.session, learning.pieces);
            let is_complete = learning.is_complete(self.own(), self.settings.is_synced);
            self.tell_pieces(session, pieces, is_complete);
        }
    }

    /// Says what is missing in front of entries that came early, once they have waited for it.
    pub(super) fn tell_gap(&mut self, now: Time) {
        let Some(since) = self.gap_since else { return };
        if !self.is_due(since, now) {
            return;
        }
        self.gap_since = Some(now);
        self.tell_last();
    }

    /// Whether so much time has passed since `then` that something may be said that has more sent.
    fn is_due(&self, then: Time, now: Time) -> bool {
        now.since(then) >= self.settings.resend_after / 2
    }

    /// Says behind which entry to go on, whatever is acknowledged of those in front of it.
    fn tell_last(&mut self) {
        let Some(primary) = self.primary else { return };
        let session = self.learning().map_or(0, |learning| learning.session);
        let (partition, epoch, last) = (self.partition, self.epoch, self.tail.last());
        self.answer(primary, Answer::Missing(Missing { partition, epoch, last, session }));
    }

    pub(super) fn answer_stale(&mut self, to: Member) {
        let (partition, epoch) = (self.partition, self.epoch);
        self.answer(to, Answer::Stale(Stale { partition, epoch }));
    }

    pub(super) fn handle_stale(&mut self, stale: &Stale) {
        if stale.epoch > self.epoch {
            self.effects.push_back(Effect::LookAtMap { epoch: stale.epoch });
        }
    }

    /// Lets go of entries that nobody can ask for any more.
    pub(super) fn trim(&mut self) {
        let mut kept_behind = self.committed.min(self.applied);
        if let Role::Primary(tenure) = &self.role {
            kept_behind = kept_behind.min(tenure.learners_have());
        }
        self.tail.trim(kept_behind);
    }
}
