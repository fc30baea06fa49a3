//! What a node does with its replicas: hands them what comes, carries out what they want.

use std::rc::Rc;

use weft_protocol::replication::{Acknowledgement, Acknowledgements, Entry, PeerMessage};
use weft_protocol::{Member, Version};

use super::super::{Effect, Handled, RecordError};
use super::Bug;
use super::checker::{Action, Outcome};
use super::network::{Event, MS};
use super::node::{Waiting, Walk};
use super::situations::Situation;
use super::store::{Store, entry_bytes, piece, read_piece};
use super::world::{Check, World};

impl World {
    pub(super) fn tick(&mut self, node: usize) -> Check {
        let now = self.local(node);
        let coordinator = self.nodes.len();
        let (life, map_version) = (self.nodes[node].life, self.nodes[node].map_version);
        if !self.network.is_cut(node, coordinator) {
            let delay = self.network.delay(&mut self.random);
            self.agenda.after(delay, Event::Heartbeat { node, life, map_version });
        }
        let lease = PeerMessage::Lease(self.nodes[node].leases.request(now));
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            let peer = self.nodes[other].member();
            self.send(node, peer, &lease);
        }
        for partition in 0..self.partitions {
            let replica = &mut self.nodes[node].hosts[partition].replica;
            replica.tick(now);
            if replica.next_deadline().is_some_and(|deadline| deadline > now) {
                self.situations.note(Situation::LeaseWaitedOut);
            }
        }
        self.drive_all(node)
    }

    pub(super) fn learn_map(&mut self, node: usize, version: u64) -> Check {
        let known = self.nodes[node].map_version;
        if version <= known {
            return Ok(());
        }
        let now = self.local(node);
        for partition in 0..self.partitions {
            let news = &self.coordinator.history[known as usize..version as usize];
            let Some((_, next)) = news.iter().rev().find(|(of, _)| *of == partition) else {
                continue;
            };
            let replica = &mut self.nodes[node].hosts[partition].replica;
            if next.epoch > replica.epoch() + 1 {
                self.situations.note(Situation::EpochSkipped);
            }
            replica.configure(next, version, now);
        }
        self.nodes[node].map_version = version;
        self.nodes[node].leases.learned(version);
        self.drive_all(node)
    }

    pub(super) fn receive(&mut self, node: usize, from: Member, bytes: &[u8]) -> Check {
        let now = self.local(node);
        let message = PeerMessage::decode(bytes).map_err(|error| format!("our own: {error}"))?;
        self.note_message(node, &message);
        match &message {
            PeerMessage::Acknowledge(acknowledgements) => {
                for acknowledged in acknowledgements.iter() {
                    let partition = usize::from(acknowledged.partition.0);
                    let host = &mut self.nodes[node].hosts[partition];
                    host.replica.acknowledged(from, &acknowledged, now);
                    self.drive(node, partition)?;
                }
                Ok(())
            }
            PeerMessage::Lease(lease) => {
                let grant = self.nodes[node].leases.handle_lease(from, lease, now);
                if let Some(grant) = grant {
                    self.send(node, from, &PeerMessage::Grant(grant));
                }
                Ok(())
            }
            PeerMessage::Grant(grant) => {
                if grant.map_version > self.nodes[node].map_version {
                    self.situations.note(Situation::GrantOfNewerMapHeldBack);
                }
                self.nodes[node].leases.handle_grant(from, grant, now);
                Ok(())
            }
            _ => {
                let partition = usize::from(message.partition().expect("about one").0);
                let host = &mut self.nodes[node].hosts[partition];
                let handled = host.replica.handle(from, &message, now);
                if let Handled::TakeRecords(taken) = handled {
                    // What the replica wants before comes first: the store may have to be emptied.
                    let (session, number) = (taken.session, taken.piece);
                    let records = taken.records.to_vec();
                    self.drive(node, partition)?;
                    let overwrites = self.bug == Bug::SnapshotOverwrites;
                    let host = &mut self.nodes[node].hosts[partition];
                    for record in read_piece(&records) {
                        if host.store.take(record, overwrites) {
                            self.situations.note(Situation::SnapshotRecordOlderThanEntry);
                        }
                    }
                    host.replica.piece_taken(session, number);
                }
                self.drive(node, partition)
            }
        }
    }

    fn note_message(&mut self, node: usize, message: &PeerMessage<'_>) {
        let Some(partition) = message.partition() else { return };
        let replica = &self.nodes[node].hosts[usize::from(partition.0)].replica;
        let last = replica.last().sequence();
        let situation = match message {
            PeerMessage::Append(append) if append.epoch < replica.epoch() => {
                Situation::FenceRejectedOldAppend
            }
            PeerMessage::Append(append) if append.entries.is_empty() => return,
            PeerMessage::Append(append) if append.previous.sequence() > last => {
                Situation::EarlyEntriesKept
            }
            PeerMessage::Append(append) if append.previous.sequence() < last => {
                Situation::EntriesCameTwice
            }
            PeerMessage::Stale(_) => Situation::StaleAnswered,
            PeerMessage::Missing(_) => Situation::MissingAnswered,
            PeerMessage::TailEntries(entries) if !entries.entries.is_empty() => {
                Situation::TailAdoptedFromLongerSurvivor
            }
            PeerMessage::Fence(_) if replica.is_serving() => Situation::FormerPrimaryDemotedByFence,
            PeerMessage::Fenced(fenced)
                if fenced.served > 0 && fenced.served + 1 == fenced.epoch =>
            {
                Situation::HandedOverByFormerPrimary
            }
            PeerMessage::Fenced(fenced) if fenced.last < replica.last() => {
                Situation::SurvivorWasBehind
            }
            PeerMessage::Fenced(fenced) if fenced.lease_ms > 0 => Situation::LeaseRestToldByMember,
            PeerMessage::SnapshotBegin(_) if last > 0 => Situation::SessionBegunAnew,
            PeerMessage::SnapshotRecords(_) => Situation::LearnerFed,
            _ => return,
        };
        self.situations.note(situation);
    }

    pub(super) fn request(
        &mut self,
        node: usize,
        client: usize,
        operation: u64,
        partition: usize,
        key: u8,
        action: Action,
    ) -> Check {
        let host = &mut self.nodes[node].hosts[partition];
        let committed = host.replica.committed();
        match action {
            Action::Write(value) => match host.replica.next_version() {
                Ok(version) => {
                    let bytes = entry_bytes(key, value);
                    host.store.apply(version, &bytes);
                    let recorded = host.replica.record(Entry { version, bytes: &bytes });
                    recorded.map_err(|error| format!("the next version was given: {error}"))?;
                    let sequence = version.sequence();
                    if self.settings.is_logged {
                        host.replica.applied(sequence);
                    }
                    host.writes.push(Waiting { sequence, client, operation, version, value });
                    self.checker.made(partition as u16, version, key, value)?;
                    self.sync_soon(node, partition);
                    self.drive(node, partition)
                }
                Err(error) => {
                    match error {
                        RecordError::TooFewMembers => {
                            self.situations.note(Situation::WriteRefusedTooFewMembers);
                        }
                        RecordError::TailFull => {
                            self.situations.note(Situation::WriteRefusedTailFull);
                        }
                        _ => {}
                    }
                    self.reply(client, operation, Outcome::Refused);
                    Ok(())
                }
            },
            Action::Read => {
                if !host.replica.is_serving() {
                    self.reply(client, operation, Outcome::Refused);
                    return Ok(());
                }
                let (version, value) = host.store.get(key);
                let sequence = match value {
                    Some(_) => version.sequence(),
                    None => version.sequence().max(host.store.last_removal),
                };
                let waiting = Waiting { sequence, client, operation, version, value };
                if sequence > committed {
                    self.situations.note(Situation::ReadWaitedForCommit);
                    host.reads.push(waiting);
                    return Ok(());
                }
                self.answer_read(node, partition, &waiting)
            }
        }
    }

    /// The value was read: it counts if the primary still holds all leases.
    fn answer_read(&mut self, node: usize, partition: usize, waiting: &Waiting) -> Check {
        let now = self.local(node);
        let host = &self.nodes[node].hosts[partition];
        let outcome = if host.replica.may_read(now) {
            self.check_told(partition, host.served_since, waiting.version, true)?;
            self.situations.note(if waiting.value.is_some() {
                Situation::ReadAnswered
            } else {
                Situation::ReadOfAbsentKey
            });
            Outcome::Found(waiting.version, waiting.value)
        } else {
            if host.replica.is_serving() {
                self.situations.note(Situation::ReadRefusedWithoutLease);
            }
            Outcome::Refused
        };
        self.reply(waiting.client, waiting.operation, outcome);
        Ok(())
    }

    fn reply(&mut self, client: usize, operation: u64, outcome: Outcome) {
        let delay = self.random.range(100_000, MS);
        self.agenda.after(delay, Event::Reply { client, operation, outcome });
    }

    pub(super) fn synced(&mut self, node: usize, partition: usize, sequence: u64) -> Check {
        let host = &mut self.nodes[node].hosts[partition];
        host.is_syncing = false;
        let base = host.store.base.sequence();
        let sequence = sequence.min(base + host.store.log.len() as u64);
        host.synced = host.synced.max(sequence);
        host.replica.synced(sequence);
        self.sync_soon(node, partition);
        self.drive(node, partition)
    }

    fn sync_soon(&mut self, node: usize, partition: usize) {
        if !self.settings.is_synced {
            return;
        }
        let life = self.nodes[node].life;
        let host = &mut self.nodes[node].hosts[partition];
        let sequence = host.store.base.sequence() + host.store.log.len() as u64;
        if !host.is_syncing && sequence > host.synced {
            host.is_syncing = true;
            let delay = self.random.range(MS / 5, self.sync_max);
            self.agenda.after(delay, Event::Synced { node, life, partition, sequence });
        }
    }

    pub(super) fn drive_all(&mut self, node: usize) -> Check {
        (0..self.partitions).try_for_each(|partition| self.drive(node, partition))
    }

    /// Carries out what the replica wants, until it wants nothing more.
    pub(super) fn drive(&mut self, node: usize, partition: usize) -> Check {
        let host = &mut self.nodes[node].hosts[partition];
        let last = host.store.base.sequence() + host.store.log.len() as u64;
        if self.settings.is_synced && host.synced >= last {
            host.replica.snapshot_synced();
        }
        while let Some(effect) = self.nodes[node].hosts[partition].replica.poll_effect() {
            self.carry_out(node, partition, effect)?;
        }
        self.walk(node, partition);
        let now = self.local(node);
        let mut outgoing: Vec<(Member, Rc<[u8]>)> = Vec::new();
        let replica = &mut self.nodes[node].hosts[partition].replica;
        while let Some((to, message)) = replica.poll_message(now) {
            let mut bytes = vec![0; message.encoded_len()];
            message.encode(&mut bytes);
            outgoing.push((to, bytes.into()));
        }
        if let Some((to, acknowledged)) = replica.poll_acknowledgement() {
            let mut items = Vec::with_capacity(Acknowledgement::LEN);
            acknowledged.push_to(&mut items);
            let message = PeerMessage::Acknowledge(Acknowledgements::written(&items));
            let mut bytes = vec![0; message.encoded_len()];
            message.encode(&mut bytes);
            outgoing.push((to, bytes.into()));
        }
        for (to, bytes) in outgoing {
            self.send_bytes(node, to, bytes);
        }
        Ok(())
    }

    fn carry_out(&mut self, node: usize, partition: usize, effect: Effect) -> Check {
        if self.trace && !matches!(effect, Effect::Apply { .. } | Effect::Committed { .. }) {
            println!(
                "{:>9.3} node {node} partition {partition}: {effect:?}",
                self.agenda.now as f64 / 1e6
            );
        }
        let coordinator = self.nodes.len();
        let is_heard = !self.network.is_cut(node, coordinator);
        let host = &mut self.nodes[node].hosts[partition];
        match effect {
            Effect::Apply { first, last } => {
                for entry in host.replica.entries(first, last) {
                    host.store.apply(entry.version, entry.bytes);
                }
                host.replica.applied(last);
                self.sync_soon(node, partition);
            }
            Effect::Reset { base } => {
                let me = self.nodes[node].member();
                let known = &self.coordinator.configurations[partition];
                if known.has_member(me) && !known.is_lost {
                    return Err(format!("partition {partition}: member {me:?} rolls back"));
                }
                let host = &mut self.nodes[node].hosts[partition];
                host.store = Store::behind(base);
                (host.synced, host.was_learner) = (base.sequence(), true);
                self.give_up_waiting(node, partition);
            }
            Effect::Committed { sequence } => {
                let (done, left) = std::mem::take(&mut host.writes)
                    .into_iter()
                    .partition(|waiting| waiting.sequence <= sequence);
                host.writes = left;
                let (read, left): (Vec<_>, _) = std::mem::take(&mut host.reads)
                    .into_iter()
                    .partition(|waiting| waiting.sequence <= sequence);
                host.reads = left;
                let since = host.served_since;
                let done: Vec<Waiting> = done;
                if self.settings.is_synced && !done.is_empty() {
                    self.situations.note(Situation::CommitWaitedForSync);
                }
                for waiting in done {
                    self.check_told(partition, since, waiting.version, false)?;
                    self.situations.note(Situation::WriteAcknowledged);
                    self.reply(
                        waiting.client,
                        waiting.operation,
                        Outcome::Written(waiting.version),
                    );
                }
                for waiting in read {
                    self.answer_read(node, partition, &waiting)?;
                }
            }
            Effect::Serving => {
                let epoch = host.replica.epoch();
                (host.served_since, self.served_since[partition]) =
                    (epoch, self.served_since[partition].max(epoch));
                if host.was_learner {
                    self.situations.note(Situation::NewLearnerBecamePrimary);
                }
            }
            Effect::Demoted => self.give_up_waiting(node, partition),
            Effect::Feed { learner, session } => {
                host.walks.push(Walk { learner, session, next: Some(0) });
            }
            Effect::StopFeeding { learner } => host.walks.retain(|walk| walk.learner != learner),
            Effect::Unreachable { member, epoch } => {
                if is_heard {
                    let delay = self.random.range(MS, 30 * MS);
                    let event = Event::Unreachable { partition, epoch, member };
                    self.agenda.after(delay, event);
                }
            }
            Effect::GivenUp { learner, epoch } => {
                self.situations.note(Situation::LearnerGivenUp);
                if is_heard {
                    let delay = self.random.range(MS, 30 * MS);
                    let event = Event::GivenUp { partition, epoch, learner };
                    self.agenda.after(delay, event);
                }
            }
            Effect::CaughtUp { learner, epoch } => {
                if is_heard {
                    let delay = self.random.range(MS, 30 * MS);
                    let event = Event::CaughtUp { partition, epoch, learner };
                    self.agenda.after(delay, event);
                }
            }
            Effect::Answers { .. } | Effect::LookAtMap { .. } => {}
            Effect::Contradiction { what } => {
                return Err(format!(
                    "partition {partition}, node {node}: {what}: {}",
                    self.state()
                ));
            }
        }
        Ok(())
    }

    fn give_up_waiting(&mut self, node: usize, partition: usize) {
        let host = &mut self.nodes[node].hosts[partition];
        let writes = std::mem::take(&mut host.writes);
        let reads = std::mem::take(&mut host.reads);
        for waiting in writes {
            self.reply(waiting.client, waiting.operation, Outcome::Unknown);
        }
        for waiting in reads {
            self.reply(waiting.client, waiting.operation, Outcome::Refused);
        }
    }

    /// Goes on with walks for learners, as far as there is room.
    fn walk(&mut self, node: usize, partition: usize) {
        let host = &mut self.nodes[node].hosts[partition];
        for walk in &mut host.walks {
            while let Some(from) = walk.next
                && host.replica.wants_piece(walk.learner, walk.session)
            {
                let (records, next) = host.store.walk(from, 2);
                let bytes = piece(&records);
                host.replica.snapshot_piece(walk.learner, walk.session, bytes);
                walk.next = next;
                if next.is_none() {
                    host.replica.snapshot_done(walk.learner, walk.session);
                }
            }
        }
        host.walks.retain(|walk| walk.next.is_some());
    }

    /// Whether all that a version stands for is known; used by those who look at the end.
    pub(super) fn last_of(&self, node: usize, partition: usize) -> Version {
        self.nodes[node].hosts[partition].replica.last()
    }
}
