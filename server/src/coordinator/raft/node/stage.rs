//! A few members that a test plays by hand: nothing moves but what it moves.

use std::collections::VecDeque;
use std::time::Duration;

use raft::eraftpb::Message;
use raft_codec::Message as _;
use weft_transport::{NodeId, Time};

use crate::coordinator::raft::{
    Batch, ClusterId, Decided, Dropped, Effects, Identity, MemoryLog, Outcome, Outgoing,
    ProposalId, RaftId, RaftLog, RaftNode, ReadOutcome, Recovered, RestoreError, Settings,
    StateMachine, Write, begin_life, envelope,
};

pub(super) const CLUSTER: ClusterId = ClusterId(5);

/// A state machine that keeps what it is told.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Told(pub(super) Vec<Vec<u8>>);

impl StateMachine for Told {
    fn apply(&mut self, index: u64, _: ProposalId, command: &[u8]) -> Vec<u8> {
        self.0.push(command.to_vec());
        index.to_le_bytes().to_vec()
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.iter().flat_map(|command| [&[command.len() as u8][..], command].concat()).collect()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.0.clear();
        let mut rest = bytes;
        while let Some((len, more)) = rest.split_first() {
            let command =
                more.get(..usize::from(*len)).ok_or_else(|| RestoreError("short".to_owned()))?;
            self.0.push(command.to_vec());
            rest = &more[command.len()..];
        }
        Ok(())
    }
}

pub(super) struct Actor {
    pub(super) raft: RaftNode<Told>,
    pub(super) disk: MemoryLog,
    /// Writes that were asked for and are not done.
    pub(super) writes: VecDeque<Write>,
    pub(super) decided: Vec<Decided>,
    pub(super) reads: Vec<ReadOutcome>,
}

pub(super) struct Stage {
    pub(super) actors: Vec<Actor>,
    pub(super) now: Time,
    /// Messages on their way, in order.
    pub(super) mail: VecDeque<(usize, Outgoing)>,
    pub(super) settings: Settings,
    proposals: u128,
}

pub(super) fn identity(actor: usize, raft: u64) -> Identity {
    Identity { cluster: CLUSTER, node: NodeId(actor as u64), raft: RaftId(raft) }
}

pub(super) fn life(disk: &mut MemoryLog, actor: usize) -> Recovered {
    begin_life(disk, NodeId(actor as u64), Some(CLUSTER)).unwrap()
}

impl Stage {
    /// Founders, with raft ids from 1.
    pub(super) fn new(count: usize) -> Self {
        Self::with_settings(count, Settings::default())
    }

    pub(super) fn with_settings(count: usize, settings: Settings) -> Self {
        let mut stage = Stage {
            actors: Vec::new(),
            now: Time::ZERO,
            mail: VecDeque::new(),
            settings,
            proposals: 0,
        };
        let members: Vec<_> =
            (0..count).map(|n| (RaftId(n as u64 + 1), NodeId(n as u64))).collect();
        for n in 0..count {
            stage.add(&Batch::founding(identity(n, n as u64 + 1), &members, Vec::new()));
        }
        stage
    }

    pub(super) fn add(&mut self, first: &Batch) {
        let mut disk = MemoryLog::new("memory");
        disk.create(first).unwrap();
        let raft = self.start(&mut disk, self.actors.len());
        let (writes, decided, reads) = (VecDeque::new(), Vec::new(), Vec::new());
        self.actors.push(Actor { raft, disk, writes, decided, reads });
    }

    fn start(&self, disk: &mut MemoryLog, actor: usize) -> RaftNode<Told> {
        let settings = Settings { seed: actor as u64, ..self.settings.clone() };
        RaftNode::new(settings, life(disk, actor), Told::default(), self.now).unwrap()
    }

    /// The process ends with what the disk keeps of unsynced writes, and another one starts.
    pub(super) fn restart(&mut self, actor: usize, kept: usize) {
        let mut disk = std::mem::replace(&mut self.actors[actor].disk, MemoryLog::new("gone"));
        disk.lose_power(kept);
        let raft = self.start(&mut disk, actor);
        let (writes, decided, reads) = (VecDeque::new(), Vec::new(), Vec::new());
        self.actors[actor] = Actor { raft, disk, writes, decided, reads };
    }

    /// Takes what an actor's last event led to; writes wait.
    pub(super) fn poll(&mut self, actor: usize) {
        let Effects { messages, writes, decided, reads, leadership: _ } =
            self.actors[actor].raft.poll(self.now);
        self.mail.extend(messages.into_iter().map(|message| (actor, message)));
        self.actors[actor].writes.extend(writes);
        self.actors[actor].decided.extend(decided);
        self.actors[actor].reads.extend(reads);
    }

    /// Does one write of an actor, and tells it.
    pub(super) fn write(&mut self, actor: usize) -> bool {
        let Some(write) = self.actors[actor].writes.pop_front() else { return false };
        let now = self.now;
        match self.actors[actor].disk.write(&write.batch) {
            Ok(()) => self.actors[actor].raft.on_written(now, write.number),
            Err(error) => self.actors[actor].raft.on_write_failed(error),
        }
        self.poll(actor);
        true
    }

    pub(super) fn deliver(&mut self) -> Option<Result<(), Dropped>> {
        let (_, message) = self.mail.pop_front()?;
        let to = message.node.0 as usize;
        let now = self.now;
        let Some(actor) = self.actors.get_mut(to) else { return Some(Ok(())) };
        let stepped = actor.raft.step(now, &message.bytes);
        self.poll(to);
        Some(stepped)
    }

    /// Everything that is under way arrives and is written, until nothing is.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut is_still = true;
            for actor in 0..self.actors.len() {
                self.poll(actor);
                is_still &= !self.write(actor);
            }
            is_still &= self.deliver().is_none();
            if is_still {
                return;
            }
        }
        panic!("the stage does not settle");
    }

    /// A tick for everybody, and all that follows.
    pub(super) fn tick(&mut self) {
        self.now = self.now + Duration::from_millis(50);
        for actor in 0..self.actors.len() {
            self.actors[actor].raft.tick(self.now);
        }
        self.settle();
    }

    pub(super) fn ticks(&mut self, count: usize) {
        (0..count).for_each(|_| self.tick());
    }

    /// Makes an actor lead.
    pub(super) fn elect(&mut self, actor: usize) {
        for _ in 0..40 {
            self.actors[actor].raft.campaign().unwrap();
            self.settle();
            if self.actors[actor].raft.leadership().is_own {
                return self.ticks(3);
            }
            self.ticks(2);
        }
        panic!("actor {actor} does not come to lead");
    }

    pub(super) fn next_id(&mut self) -> ProposalId {
        self.proposals += 1;
        ProposalId(self.proposals)
    }

    /// The leader agrees with the others about a command.
    pub(super) fn agree(&mut self, leader: usize, command: &[u8]) {
        let id = self.next_id();
        self.actors[leader].raft.propose(id, command.to_vec()).unwrap();
        self.settle();
        let outcome = self.outcome(leader, id);
        assert!(matches!(outcome, Some(Outcome::Applied { .. })), "{outcome:?}");
    }

    pub(super) fn outcome(&self, actor: usize, id: ProposalId) -> Option<Outcome> {
        let decided = self.actors[actor].decided.iter().find(|decided| decided.id == id);
        decided.map(|decided| decided.outcome.clone())
    }
}

/// A message as raft-rs has it.
pub(super) fn opened(outgoing: &Outgoing) -> Message {
    envelope::decode(&outgoing.bytes).unwrap().1
}

/// A message of a peer, as it would arrive.
pub(super) fn sealed(from: usize, from_raft: u64, to_raft: u64, mut message: Message) -> Vec<u8> {
    (message.from, message.to) = (from_raft, to_raft);
    let header = envelope::Header {
        cluster: CLUSTER,
        from: RaftId(from_raft),
        from_node: NodeId(from as u64),
        life: 1,
        to: RaftId(to_raft),
    };
    let bytes = envelope::encode(&header, &message);
    assert!(bytes.ends_with(&message.encode_to_vec()));
    bytes
}
