//! What raft-rs hands out, and the order in which it may take effect.

use std::collections::VecDeque;

use raft::eraftpb::{Entry, HardState, Message, MessageType, Snapshot, SnapshotMetadata};
use weft_transport::Time;

use super::{Outgoing, RaftNode, Write};
use crate::coordinator::raft::envelope::{self, Header};
use crate::coordinator::raft::identity::RaftId;
use crate::coordinator::raft::log::Batch;
use crate::coordinator::raft::planted::PlantedBug;
use crate::coordinator::raft::roster::StateRecord;
use crate::coordinator::raft::state_machine::StateMachine;

/// Readies whose writes are not known to be done, oldest first.
#[derive(Debug)]
pub(super) struct InFlight {
    queue: VecDeque<Ready>,
    /// The number of the last write.
    last: u64,
    /// The last of them that is done.
    written: u64,
    /// The last write with another term or vote.
    term: u64,
    /// Whether a snapshot of our own is to be made, whatever the log's length.
    is_snapshot_due: bool,
    /// For a planted bug.
    first_commit: u64,
}

/// What waits for a write.
#[derive(Debug, Default)]
struct Ready {
    /// raft-rs's number, if it is one of its Readies.
    number: Option<u64>,
    /// The write, and all before it, that must be done. 0 is done.
    write: u64,
    messages: Vec<Message>,
    snapshot: Option<Snapshot>,
    committed: Vec<Entry>,
}

impl InFlight {
    pub(super) fn new(commit: u64) -> Self {
        InFlight {
            queue: VecDeque::new(),
            last: 0,
            written: 0,
            term: 0,
            is_snapshot_due: false,
            first_commit: commit,
        }
    }

    pub(super) fn note_written(&mut self, number: u64) {
        self.written = self.written.max(number.min(self.last));
    }

    pub(super) fn want_snapshot(&mut self) {
        self.is_snapshot_due = true;
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }

    fn take_done(&mut self) -> Option<Ready> {
        let is_done = self.queue.front().is_some_and(|ready| ready.write <= self.written);
        if is_done { self.queue.pop_front() } else { None }
    }
}

impl<M: StateMachine> RaftNode<M> {
    /// Takes one Ready, if there is one: all that it wants on disk is one batch.
    pub(super) fn take_ready(&mut self, now: Time) -> bool {
        if !self.raw.has_ready() {
            return false;
        }
        let mut ready = self.raw.ready();
        self.reads.confirm(ready.take_read_states());
        let mut batch = Batch { must_sync: ready.must_sync(), ..Batch::default() };
        let view = self.raw.mut_store();
        let snapshot = Some(ready.snapshot()).filter(|snapshot| !snapshot.is_empty()).cloned();
        if let Some(snapshot) = &snapshot {
            batch.removed.extend(view.install(snapshot));
            batch.start = Some(view.start());
            batch.snapshot = Some(snapshot.clone());
        }
        batch.entries = ready.take_entries();
        batch.removed.extend(view.append(&batch.entries));
        let mut is_new_term = false;
        if let Some(hard_state) = ready.hs() {
            let before = view.hard_state();
            is_new_term = (hard_state.term, hard_state.vote) != (before.term, before.vote);
            view.set_hard_state(hard_state);
            batch.hard_state = Some(hard_state.clone());
        }
        if snapshot.is_some() {
            // Always with it: a commit index below the snapshot's would make the log impossible.
            batch.hard_state = Some(view.hard_state().clone());
        }
        // A leader's messages go at once, if its term is written. raft-rs takes that for granted; but the only voter leads as soon as it stands, and
        // after a loss of power would lead the same term again, and give its learners other entries for it.
        let mut messages = ready.take_messages();
        if !is_new_term && self.in_flight.term <= self.in_flight.written {
            std::mem::take(&mut messages).into_iter().for_each(|message| self.send(now, message));
        }
        messages.extend(ready.take_persisted_messages());
        let mut waiting = Ready {
            number: Some(ready.number()),
            messages,
            snapshot,
            committed: ready.take_committed_entries(),
            write: 0,
        };
        if self.settings.planted.has(PlantedBug::MessagesBeforeWrite) {
            std::mem::take(&mut waiting.messages)
                .into_iter()
                .for_each(|message| self.send(now, message));
        }
        // From here on raft-rs finds in the view what it handed out.
        self.raw.advance_append_async(ready);
        self.write(batch, waiting);
        if is_new_term {
            self.in_flight.term = self.in_flight.last;
        }
        self.complete(now);
        true
    }

    /// Makes a snapshot of the state, if one is due, and forgets entries that nobody needs: one batch too.
    pub(super) fn take_snapshot(&mut self) -> bool {
        let view = self.raw.store();
        // A leader's snapshot may be ahead, while it is being written.
        let since = self.applied.index.saturating_sub(view.snapshot_index());
        let is_long =
            since >= self.settings.snapshot_entries || view.bytes() >= self.settings.snapshot_bytes;
        if since == 0 || !(is_long || self.in_flight.is_snapshot_due) {
            return false;
        }
        self.in_flight.is_snapshot_due = false;
        let metadata = SnapshotMetadata {
            conf_state: Some(self.conf_state()),
            index: self.applied.index,
            term: self.applied.term,
        };
        let data = StateRecord::encode(&self.roster, self.machine.snapshot());
        let snapshot = Snapshot { data, metadata: Some(metadata) };
        let keep_after = if view.bytes() >= self.settings.snapshot_bytes {
            self.applied.index
        } else {
            self.applied.index.saturating_sub(self.settings.kept_entries)
        };
        let view = self.raw.mut_store();
        view.set_snapshot(snapshot.clone());
        let removed = view.compact(keep_after).into_iter().collect();
        let (start, hard_state) = (Some(view.start()), Some(view.hard_state().clone()));
        let batch = Batch {
            snapshot: Some(snapshot),
            start,
            hard_state,
            removed,
            must_sync: true,
            ..Batch::default()
        };
        self.write(batch, Ready::default());
        true
    }

    /// Lets happen what waited for writes that are done.
    pub(super) fn complete(&mut self, now: Time) {
        while let Some(ready) = self.in_flight.take_done() {
            if let Some(number) = ready.number {
                self.raw.on_persist_ready(number);
            }
            ready.messages.into_iter().for_each(|message| self.send(now, message));
            if let Some(snapshot) = ready.snapshot {
                self.restore(&snapshot);
            }
            self.apply(ready.committed);
            if self.failure.is_some() {
                return;
            }
        }
        self.settle_jitter();
    }

    fn write(&mut self, mut batch: Batch, mut waiting: Ready) {
        self.plant(&mut batch);
        if !batch.is_empty() {
            self.in_flight.last += 1;
            let number = self.in_flight.last;
            self.effects.writes.push(Write { number, batch });
        }
        waiting.write = self.in_flight.last;
        self.in_flight.queue.push_back(waiting);
    }

    fn send(&mut self, now: Time, message: Message) {
        // A follower passes on a read that was meant for the leader it no longer is. Whoever asked will ask the new one.
        if message.from != self.identity.raft.0 {
            return;
        }
        let to = RaftId(message.to);
        // Nobody knows where a member lives that nobody has heard of: it will be heard of.
        let Some(node) = self.node_of(to) else { return };
        if message.msg_type == MessageType::MsgSnapshot as i32 {
            self.snapshot_deadlines.insert(to.0, now + self.settings.snapshot_timeout());
        }
        let header = Header {
            cluster: self.identity.cluster,
            from: self.identity.raft,
            from_node: self.identity.node,
            life: self.life,
            to,
        };
        let bytes = envelope::encode(&header, &message);
        self.effects.messages.push(Outgoing { to, node, bytes });
    }

    /// Gets it wrong, where a test asks for that.
    fn plant(&mut self, batch: &mut Batch) {
        let planted = self.settings.planted;
        if planted.has(PlantedBug::VoteWithoutSync)
            && batch.entries.is_empty()
            && batch.snapshot.is_none()
        {
            batch.must_sync = false;
        }
        if planted.has(PlantedBug::CommitNotPersisted) {
            let commit = self.in_flight.first_commit;
            batch.hard_state.iter_mut().for_each(|hard_state| hard_state.commit = commit);
        }
        if planted.has(PlantedBug::SnapshotWithoutHardState) && batch.snapshot.is_some() {
            let late: Option<HardState> = batch.hard_state.take();
            self.in_flight.last += 1;
            let number = self.in_flight.last;
            let first = std::mem::replace(
                batch,
                Batch { hard_state: late, must_sync: true, ..Batch::default() },
            );
            self.effects.writes.push(Write { number, batch: first });
        }
    }

    pub(super) fn bug_reads_early(&self) -> bool {
        self.settings.planted.has(PlantedBug::ReadBeforeApplied)
    }
}
