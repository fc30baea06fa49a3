//! One member: raft-rs, with all that it leaves to its caller.
//!
//! A turn is: an event (`tick`, `step`, `propose`, …), then [`poll`](RaftNode::poll), which takes raft-rs's Readies. What a Ready wants to have
//! on disk goes out as one [`Write`]; everything that may only happen once it is there (messages that promise it, entries that are applied
//! under its commit index, a snapshot) stays in the queue `in_flight` until [`on_written`](RaftNode::on_written). A leader's appends leave at once:
//! it counts its own copy when it is written, like any other's (Ongaro's thesis, 10.2.1).

mod applying;
mod membership;
mod reading;
mod readying;
mod refused;
mod settings;
mod succession;

#[cfg(test)]
mod crash_points;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod moments;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod stage;

use std::collections::BTreeMap;

use raft::eraftpb::ConfState;
use raft::{Config, RawNode, ReadOnlyOption, SnapshotStatus, StateRole};
use weft_transport::{NodeId, Time};

use self::reading::Reads;
use self::readying::InFlight;
pub use self::refused::{Failure, Refused};
pub use self::settings::Settings;
use self::succession::Succession;
use super::envelope::{self, Dropped};
use super::identity::{Identity, RaftId};
use super::inspection;
use super::jitter::Jitter;
use super::limits::{
    COMMAND_BYTES_MAX, COMMITTED_BYTES_A_READY, ENTRIES_BYTES_A_MESSAGE, MESSAGES_IN_FLIGHT_MAX,
    UNCOMMITTED_BYTES_MAX,
};
use super::log::{Batch, LogError, Position, Recovered};
use super::roster::{RaftMember, Roster, StateRecord};
use super::state_machine::{ProposalId, StateMachine};
use super::view::LogView;

/// One member of the coordinator, without a disk, a clock or a network.
pub struct RaftNode<M> {
    raw: RawNode<LogView>,
    machine: M,
    identity: Identity,
    life: u64,
    settings: Settings,
    jitter: Jitter,
    next_tick: Time,
    /// While the leader is known to be gone, and nobody has followed.
    succession: Option<Succession>,
    /// All commands up to here are in `machine`.
    applied: Position,
    roster: Roster,
    in_flight: InFlight,
    effects: Effects,
    /// Proposals made here whose fate is open.
    proposals: BTreeMap<ProposalId, ()>,
    reads: Reads,
    /// Peers by raft id, and when they were last heard.
    heard: BTreeMap<u64, Heard>,
    /// When the receivers of snapshots must have said something.
    snapshot_deadlines: BTreeMap<u64, Time>,
    leadership: Leadership,
    /// Whether another member has said that this one was removed.
    is_told_removed: bool,
    failure: Option<Failure>,
}

/// What a peer was last heard with.
#[derive(Debug, Clone, Copy)]
struct Heard {
    node: NodeId,
    life: u64,
    at: Time,
}

/// What a turn leads to.
#[derive(Debug, Default)]
pub struct Effects {
    /// To be sent now.
    pub messages: Vec<Outgoing>,
    /// To be written, in this order, after those of earlier turns; then [`RaftNode::on_written`].
    pub writes: Vec<Write>,
    /// Proposals made here whose fate is known, or will not be known here.
    pub decided: Vec<Decided>,
    /// Reads made here that can be answered.
    pub reads: Vec<ReadOutcome>,
    /// Who leads, if that has changed.
    pub leadership: Option<Leadership>,
}

/// A message to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The member.
    pub to: RaftId,
    /// Its node.
    pub node: NodeId,
    /// The message, for that member's [`RaftNode::step`].
    pub bytes: Vec<u8>,
}

/// A batch for the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// Counts up.
    pub number: u64,
    /// What to write.
    pub batch: Batch,
}

/// What became of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The proposal.
    pub id: ProposalId,
    /// Its fate.
    pub outcome: Outcome,
}

/// The fate of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The command was applied.
    Applied {
        /// Its place in the log.
        index: u64,
        /// What the state machine answered.
        result: Vec<u8>,
    },
    /// The change of members is committed; the member that came, if one did.
    Changed(Option<RaftId>),
    /// The change of members was overtaken by another; nothing has changed.
    Overtaken,
    /// This node leads no more, and does not know. Propose it again where the leader is, under the same id.
    Unknown,
}

/// What became of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOutcome {
    /// The number that it was made with.
    pub token: u64,
    /// Whether the state machine, as it is now, has all that was acknowledged before the read was made. If not, no leader was found in
    /// time.
    pub is_ready: bool,
}

/// Who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leadership {
    /// The term.
    pub term: u64,
    /// The leader of it, if it is known.
    pub leader: Option<RaftId>,
    /// Whether that is this node.
    pub is_own: bool,
}

impl<M: StateMachine> RaftNode<M> {
    /// A member with what its log holds, which [`begin_life`](super::begin_life) gave. `machine` is in its first state; commands that were
    /// committed after the log's snapshot are applied to it again in the first turns.
    ///
    /// # Errors
    /// [`Failure`] if the snapshot is none of `machine`'s, or raft-rs takes what the log holds for impossible.
    pub fn new(
        settings: Settings,
        recovered: Recovered,
        mut machine: M,
        now: Time,
    ) -> Result<Self, Failure> {
        let Identity { raft: RaftId(id), .. } = recovered.identity;
        let mut roster = Roster::default();
        if recovered.applied().index > 0 {
            let (members, state) = StateRecord::decode(&recovered.snapshot.data)?;
            machine.restore(&state)?;
            roster = members;
        }
        let config = Config {
            id,
            election_tick: settings.election_ticks,
            max_election_tick: 2 * settings.election_ticks,
            heartbeat_tick: settings.heartbeat_ticks,
            applied: recovered.applied().index,
            // A leader that lost its followers steps down, and one that comes back does not disturb: both are off by default.
            check_quorum: true,
            pre_vote: true,
            // By default one entry a message, and no bound on what waits or is applied at once.
            max_size_per_msg: ENTRIES_BYTES_A_MESSAGE,
            max_inflight_msgs: MESSAGES_IN_FLIGHT_MAX,
            max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
            max_committed_size_per_ready: COMMITTED_BYTES_A_READY,
            // Leases would trust clocks, and fail around a transfer of leadership.
            read_only_option: ReadOnlyOption::Safe,
            ..Config::default()
        };
        // What raft-rs would log is said by effects and errors.
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, LogView::new(&recovered), &logger)
            .map_err(|error| Failure::Impossible(error.to_string()))?;
        let mut node = RaftNode {
            raw,
            machine,
            identity: recovered.identity,
            life: recovered.life,
            jitter: Jitter::new(settings.seed, id, recovered.life),
            next_tick: now + settings.tick,
            succession: None,
            applied: recovered.applied(),
            in_flight: InFlight::new(recovered.hard_state.commit),
            reads: Reads::new(id, recovered.life),
            settings,
            roster,
            effects: Effects::default(),
            proposals: BTreeMap::new(),
            heard: BTreeMap::new(),
            snapshot_deadlines: BTreeMap::new(),
            leadership: Leadership::default(),
            is_told_removed: false,
            failure: None,
        };
        node.settle_jitter();
        Ok(node)
    }

    /// Time has passed. One tick at most for each call: after a pause, what has arrived meanwhile is to be heard before this member
    /// concludes that nobody is there.
    pub fn tick(&mut self, now: Time) {
        if now < self.next_tick || self.failure.is_some() {
            return;
        }
        let next = self.next_tick + self.settings.tick;
        self.next_tick = if next > now { next } else { now + self.settings.tick };
        self.tick_raft();
        self.succeed();
        self.settle_jitter();
        self.leave_joint();
        self.give_up_snapshots(now);
        self.reads.expire(now, &mut self.effects.reads);
    }

    /// A message of another member has arrived.
    ///
    /// # Errors
    /// [`Dropped`] says why it was not listened to.
    pub fn step(&mut self, now: Time, bytes: &[u8]) -> Result<(), Dropped> {
        if self.failure.is_some() {
            return Err(Dropped::Failed);
        }
        if let Some(header) = envelope::decode_removal(bytes) {
            self.check_sender(&header)?;
            self.is_told_removed = true;
            return Ok(());
        }
        let (header, message) = envelope::decode(bytes)?;
        if let Err(dropped) = self.check_sender(&header) {
            if matches!(dropped, Dropped::FormerMember(_)) {
                self.tell_removed(&header);
            }
            return Err(dropped);
        }
        if self.heard.get(&header.from.0).is_some_and(|heard| heard.life > header.life) {
            return Err(Dropped::EarlierLife(header.from));
        }
        inspection::inspect(&self.raw.raft, &message)
            .map_err(|unfit| Dropped::Unfit { from: header.from, unfit })?;
        let heard = Heard { node: header.from_node, life: header.life, at: now };
        self.heard.insert(header.from.0, heard);
        let stepped = self.raw.step(message);
        self.settle_jitter();
        stepped.map_err(|error| Dropped::Unused(error.to_string()))
    }

    /// Whether somebody of this cluster, who is no former member, says it to this member.
    fn check_sender(&self, header: &envelope::Header) -> Result<(), Dropped> {
        let own = self.identity;
        if header.cluster != own.cluster {
            return Err(Dropped::OtherCluster(header.cluster));
        }
        if header.to != own.raft {
            return Err(Dropped::OtherMember { to: header.to, own: own.raft });
        }
        if self.roster.is_former(header.from.0) {
            return Err(Dropped::FormerMember(header.from));
        }
        Ok(())
    }

    /// Whoever was removed while it did not hear of it hears of it when it says something.
    fn tell_removed(&mut self, heard: &envelope::Header) {
        let Identity { cluster, raft, node } = self.identity;
        let (to, node_of_it) = (heard.from, heard.from_node);
        let header = envelope::Header { cluster, from: raft, from_node: node, life: self.life, to };
        let bytes = envelope::encode_removal(&header);
        self.effects.messages.push(Outgoing { to, node: node_of_it, bytes });
    }

    /// Proposes a command. Its fate comes with [`Effects::decided`].
    ///
    /// # Errors
    /// [`Refused`]: it was not proposed.
    pub fn propose(&mut self, id: ProposalId, command: Vec<u8>) -> Result<(), Refused> {
        self.check_leads()?;
        if command.len() > COMMAND_BYTES_MAX {
            return Err(Refused::TooLong { len: command.len(), limit: COMMAND_BYTES_MAX });
        }
        self.raw.propose(id.0.to_le_bytes().to_vec(), command).map_err(|_| Refused::Busy)?;
        self.proposals.insert(id, ());
        Ok(())
    }

    /// Asks to read the state machine, on any member: [`Effects::reads`] says by `token` when [`machine`](Self::machine) has everything that was
    /// acknowledged anywhere before this call.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read_index(&mut self, now: Time, token: u64) -> Result<(), Refused> {
        self.check_works()?;
        self.reads.ask(token, now + self.settings.read_timeout())
    }

    /// Stands for election now, if this member may.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn campaign(&mut self) -> Result<(), Refused> {
        self.check_works()?;
        // raft-rs would let a learner lead an empty configuration, and panic.
        if !self.raw.raft.promotable() {
            return Err(Refused::NoVoter(self.identity.raft));
        }
        if !inspection::is_written(&self.raw.raft) {
            return Err(Refused::Busy);
        }
        self.jitter.note_candidacy();
        let campaigned = self.raw.campaign();
        self.settle_jitter();
        campaigned.map_err(|_| Refused::Busy)
    }

    /// Hands leadership over to a voter; proposals are refused until it has it or an election's time has passed.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn transfer(&mut self, to: RaftId) -> Result<(), Refused> {
        self.check_leads()?;
        if !self.conf_state().voters.contains(&to.0) {
            return Err(Refused::NoVoter(to));
        }
        self.raw.transfer_leader(to.0);
        Ok(())
    }

    /// The write of this number and all before it are done, and durable as far as they asked to be.
    pub fn on_written(&mut self, now: Time, number: u64) {
        if self.failure.is_none() {
            self.in_flight.note_written(number);
            self.complete(now);
        }
    }

    /// A write has failed. From now on this member says, applies and answers nothing: it cannot keep what it would promise.
    pub fn on_write_failed(&mut self, error: LogError) {
        self.fail(Failure::Disk(error));
    }

    /// What there is to do now.
    pub fn poll(&mut self, now: Time) -> Effects {
        if self.failure.is_none() {
            self.note_leadership();
            self.reads.send(&mut self.raw, now + self.settings.read_retry());
            while self.failure.is_none() && (self.take_ready(now) || self.take_snapshot()) {}
            self.note_leadership();
            let known = if self.bug_reads_early() { u64::MAX } else { self.applied.index };
            self.reads.answer(known, &mut self.effects.reads);
        }
        std::mem::take(&mut self.effects)
    }

    /// When [`tick`](Self::tick) is due.
    pub fn next_tick(&self) -> Time {
        self.next_tick
    }

    /// The state that committed commands led to. Not to be answered from without [`read_index`](Self::read_index).
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The place in the log up to which commands are applied.
    pub fn applied(&self) -> Position {
        self.applied
    }

    /// Who leads, as far as this member knows.
    pub fn leadership(&self) -> Leadership {
        self.leadership
    }

    /// Who this is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The members, as of what is applied.
    pub fn members(&self) -> Vec<RaftMember> {
        self.roster.members(&self.conf_state())
    }

    /// The node of a member.
    pub fn node_of(&self, member: RaftId) -> Option<NodeId> {
        self.roster.node(member.0).or_else(|| self.heard.get(&member.0).map(|heard| heard.node))
    }

    /// Why this member takes no part any more.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    fn conf_state(&self) -> ConfState {
        self.raw.raft.prs().conf().to_conf_state()
    }

    fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() {
            self.failure = Some(failure);
            self.in_flight.clear();
            self.effects = Effects::default();
        }
    }

    fn check_works(&self) -> Result<(), Refused> {
        self.failure.clone().map_or(Ok(()), |failure| Err(Refused::Failed(failure)))
    }

    fn check_leads(&self) -> Result<(), Refused> {
        self.check_works()?;
        if self.raw.raft.state == StateRole::Leader {
            return Ok(());
        }
        let leader = Some(RaftId(self.raw.raft.leader_id)).filter(|leader| leader.0 != 0);
        Err(Refused::NotLeader { leader, node: leader.and_then(|leader| self.node_of(leader)) })
    }

    /// A tick of raft-rs. A member whose disk is behind is no candidate: becoming leader with entries that are not written is impossible
    /// to raft-rs. A leader goes on, so that a slow disk does not cost it its followers.
    fn tick_raft(&mut self) {
        let raft = &self.raw.raft;
        let leads = raft.state == StateRole::Leader;
        if !leads && !inspection::is_written(raft) {
            return;
        }
        if !leads && raft.election_elapsed + 1 >= raft.randomized_election_timeout() {
            self.jitter.note_candidacy();
        }
        self.raw.tick();
    }

    /// Puts our draw in place of raft-rs's: see [`Jitter`].
    fn settle_jitter(&mut self) {
        let least = self.settings.election_ticks;
        let ticks = self.jitter.ticks(self.raw.raft.term, least, 2 * least);
        self.raw.raft.set_randomized_election_timeout(ticks);
    }

    /// raft-rs sends a member nothing more once it was sent a snapshot, until that is acknowledged or reported. It may have been lost.
    fn give_up_snapshots(&mut self, now: Time) {
        let late: Vec<u64> = self
            .snapshot_deadlines
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.snapshot_deadlines.remove(&id);
            self.raw.report_snapshot(id, SnapshotStatus::Failure);
        }
    }

    /// Proposals end with the leadership under which they were made, and reads begin anew: an index that another leader gave says
    /// nothing about this one's.
    fn note_leadership(&mut self) {
        let raft = &self.raw.raft;
        let leader = Some(RaftId(raft.leader_id)).filter(|leader| leader.0 != 0);
        let found = Leadership { term: raft.term, leader, is_own: raft.state == StateRole::Leader };
        if found == self.leadership {
            return;
        }
        if self.leadership.is_own {
            let open = std::mem::take(&mut self.proposals).into_keys();
            self.effects.decided.extend(open.map(|id| Decided { id, outcome: Outcome::Unknown }));
            self.snapshot_deadlines.clear();
        }
        self.reads.begin_anew();
        self.leadership = found;
        self.effects.leadership = Some(found);
    }
}
