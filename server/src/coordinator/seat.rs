//! A coordinator: the log, the state behind it, what it hears, and what it does about all that while it leads. Without a socket, a disk or a clock.
//!
//! It is given messages, heartbeats, questions, the time and word of finished writes; [`Coordinator::poll`] says what is to be sent, written and
//! answered. [`serve`] is the shell around it.
//!
//! - `machine`: the state behind the log.
//! - `proposing`: what is on its way into the log, and who waits for what comes of it.
//! - `asking`: what may be asked for, and what is answered at once.
//! - `leading`: what a leader does by itself: plans, and who is a coordinator.
//! - `members`: who of them votes.
//! - `telling`: who knows which version, and is told the next.
//! - `status`: how the cluster is, for people.
//! - `founding`: what a cluster begins with.
//! - `log_writer`, `serving`: disk, connections and time.

mod asking;
mod founding;
mod leading;
mod log_writer;
mod machine;
mod members;
mod proposing;
mod serving;
mod status;
mod telling;
#[cfg(test)]
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use weft_protocol::Member;
use weft_transport::{NodeId, Time};

use self::leading::Leading;
use self::machine::Machine;
use self::proposing::Proposing;
use self::telling::{Audience, Telling};
use super::ask::{Answer, Ask, Leader};
use super::codec::CodecError;
use super::command::ClusterId;
use super::liveness::Liveness;
use super::notice::{Heartbeat, Update};
use super::planner::PlannerSettings;
use super::raft::{self, Failure, LogError, Outgoing, RaftId, RaftNode, Recovered, Write};
use super::state::ClusterState;
use super::timing::Timing;
use crate::limits::QUESTIONS_MAX;

pub use self::founding::founding_state;
pub use self::log_writer::{ImmediateWriter, LogWriter, ThreadWriter};
pub use self::serving::{Ended, serve};

/// What a coordinator goes by.
#[derive(Debug, Clone)]
pub struct CoordinatorSettings {
    /// The log's.
    pub raft: raft::Settings,
    /// The leader's patience.
    pub planner: PlannerSettings,
    /// How often it is looked what is to be done.
    pub heartbeat: Duration,
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        let timing = Timing::default();
        Self { raft: timing.raft(0), planner: timing.planner(), heartbeat: timing.heartbeat() }
    }
}

/// A coordinator without a disk, a clock or a network.
pub struct Coordinator {
    node: NodeId,
    cluster: ClusterId,
    raft: RaftNode<Machine>,
    settings: PlannerSettings,
    heartbeat: Duration,
    liveness: Liveness,
    proposing: Proposing,
    /// Reads that are to be confirmed: the question that each is for.
    reads: BTreeMap<u64, Reading>,
    reads_made: u64,
    telling: Telling,
    /// While this one leads.
    leading: Option<Leading>,
    next_look: Time,
    /// Who leads, as it was told last.
    leader: Option<Leader>,
    answers: Vec<(u64, Answer)>,
}

/// A question that is answered from the state.
#[derive(Debug, Clone, Copy)]
struct Reading {
    token: u64,
    of: Subject,
}

/// What of the state a question is about.
#[derive(Debug, Clone, Copy)]
enum Subject {
    Status,
    Tables,
    Workers,
}

/// Why a coordinator takes no part any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeatFailure {
    /// Its log or its disk has failed.
    #[error(transparent)]
    Raft(#[from] Failure),
    /// An entry of the log cannot be read.
    #[error("read a committed entry of the coordinator's log: {0}")]
    Entry(#[from] CodecError),
}

/// What a turn leads to.
#[derive(Debug, Default)]
pub struct SeatEffects {
    /// For the coordinators on other nodes: [`Notice::Raft`](super::Notice::Raft).
    pub messages: Vec<Outgoing>,
    /// To be written, in this order, after those of earlier turns.
    pub writes: Vec<Write>,
    /// Answers to questions, by token.
    pub answers: Vec<(u64, Answer)>,
    /// What nodes are to be told, each to all that know the same.
    pub updates: Vec<(Vec<Member>, Update)>,
    /// Who leads, if that has changed.
    pub leader: Option<Option<Leader>>,
    /// This coordinator was removed from the others: its log is of no use any more.
    pub is_removed: bool,
    /// This coordinator takes no part until it is started again.
    pub failure: Option<SeatFailure>,
}

impl Coordinator {
    /// A coordinator with what its log holds, which [`begin_life`](raft::begin_life) gave.
    ///
    /// # Errors
    /// [`Failure`] if the log holds what cannot be.
    pub fn new(
        settings: CoordinatorSettings,
        recovered: Recovered,
        now: Time,
    ) -> Result<Self, Failure> {
        let (identity, life) = (recovered.identity, recovered.life);
        let raft = RaftNode::new(settings.raft, recovered, Machine::default(), now)?;
        Ok(Self {
            node: identity.node,
            cluster: identity.cluster,
            raft,
            settings: settings.planner,
            heartbeat: settings.heartbeat,
            liveness: Liveness::on(identity.node, settings.planner.down_after),
            proposing: Proposing::new(identity.raft, life),
            reads: BTreeMap::new(),
            reads_made: 0,
            telling: Telling::default(),
            leading: None,
            next_look: now,
            leader: None,
            answers: Vec::new(),
        })
    }

    /// The node that it is on.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The cluster that it is of.
    pub const fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The member of the log that it is.
    pub fn member(&self) -> RaftId {
        self.raft.identity().raft
    }

    /// What is committed, as far as it is known here.
    pub fn state(&self) -> &ClusterState {
        self.raft.machine().state()
    }

    /// Whether it leads, as far as it knows.
    pub fn leads(&self) -> bool {
        self.leading.is_some()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        self.raft.tick(now);
        if now < self.next_look {
            return;
        }
        let next = self.next_look + self.heartbeat;
        self.next_look = if next > now { next } else { now + self.heartbeat };
        // Nobody else could be waited for.
        if !self.leads() && self.raft.is_only_voter() {
            // While the disk is behind it is refused, and tried again.
            let _ = self.raft.campaign();
        }
        self.liveness.prune(self.raft.machine().state(), self.settings.apart_for, now);
        self.telling.prune(now);
        if let Some(leading) = &mut self.leading {
            leading.is_due = true;
        }
    }

    /// When [`tick`](Self::tick) is due.
    pub fn next_tick(&self) -> Time {
        self.raft.next_tick().min(self.next_look)
    }

    /// Another coordinator says something.
    pub fn hear_raft(&mut self, now: Time, bytes: &[u8]) {
        // What is not for this one, or not from a member, is nobody's loss: who said it says it again.
        let _ = self.raft.step(now, bytes);
    }

    /// A node is there. `from` is who it is by its connection.
    pub fn heartbeat(&mut self, now: Time, from: Member, heartbeat: &Heartbeat) {
        if heartbeat.cluster != self.cluster || heartbeat.member != from {
            return;
        }
        self.telling.heard(from, heartbeat.known_version, now);
        // Of lives that the cluster has not taken nothing is to be known: there may be two nodes of one id.
        if !self.state().is_current(from) {
            return;
        }
        let knows_more = !self.liveness.knows(from, heartbeat.known_version);
        self.liveness.heard(from, heartbeat.known_version, now);
        if let Some(leading) = &mut self.leading {
            leading.is_due |= knows_more && leading.awaits_word;
        }
        self.liveness.failed(from, heartbeat.has_failed);
        self.liveness.unserved(from, &heartbeat.unserved);
        for told in &heartbeat.told {
            self.liveness.told(from, told, now);
        }
    }

    /// The process of a node is gone, as this node was told by the system where it ran: nothing waits for its silence.
    pub fn process_gone(&mut self, now: Time, member: Member) {
        if !self.state().is_current(member) {
            return;
        }
        self.liveness.gone(member);
        self.raft.process_gone(now, member.node);
        if let Some(leading) = &mut self.leading {
            leading.is_due = true;
        }
    }

    /// Somebody asks something; the answer comes with [`SeatEffects::answers`] under `token`, which no open question has.
    pub fn ask(&mut self, now: Time, token: u64, ask: Ask) {
        let open = self.proposing.open_count() + self.reads.len();
        let answer = if !self.leads() {
            Some(Answer::NotLeader { leader: self.leader.clone() })
        } else if open >= QUESTIONS_MAX {
            Some(Answer::Unavailable)
        } else {
            self.begin(now, token, ask)
        };
        self.answers.extend(answer.map(|answer| (token, answer)));
    }

    /// The write of this number and all before it are done.
    pub fn on_written(&mut self, now: Time, number: u64) {
        self.raft.on_written(now, number);
    }

    /// A write has failed.
    pub fn on_write_failed(&mut self, error: LogError) {
        self.raft.on_write_failed(error);
    }

    /// What there is to do now.
    pub fn poll(&mut self, now: Time) -> SeatEffects {
        let mut effects = SeatEffects::default();
        // Something is proposed in a turn once at most for each thing that was decided in it.
        loop {
            let turn = self.raft.poll(now);
            effects.messages.extend(turn.messages);
            effects.writes.extend(turn.writes);
            if turn.leadership.is_some() {
                self.leadership_changed(now);
            }
            for decided in turn.decided {
                self.decided(decided);
            }
            for read in turn.reads {
                self.read(now, read);
            }
            if self.failure().is_some() || !self.go_on(now) {
                break;
            }
        }
        effects.failure = self.failure();
        effects.is_removed = self.raft.is_removed();
        if effects.failure.is_some() || effects.is_removed {
            self.leading = None;
            self.give_up_questions();
        }
        let leads = self.leading.as_ref().is_some_and(|leading| leading.knows_all);
        let audience = if leads { Audience::All } else { Audience::Own(self.raft.identity().node) };
        let (cluster, state) = (self.cluster, self.raft.machine().state());
        effects.updates = self.telling.due(audience, cluster, state, now);
        let leader = self.find_leader();
        if leader != self.leader {
            self.leader.clone_from(&leader);
            effects.leader = Some(leader);
        }
        effects.answers = std::mem::take(&mut self.answers);
        effects
    }

    fn failure(&self) -> Option<SeatFailure> {
        let broken = self.raft.machine().broken().map(|error| error.clone().into());
        broken.or_else(|| self.raft.failure().map(|failure| failure.clone().into()))
    }

    fn find_leader(&self) -> Option<Leader> {
        let leader = self.raft.leadership().leader.filter(|_| self.raft.failure().is_none())?;
        let node = self.raft.node_of(leader)?;
        let known = self.state().node(node);
        let data_address = known.map(|node| node.description.data_address.clone());
        Some(Leader { node, data_address: data_address.unwrap_or_default() })
    }

    fn leadership_changed(&mut self, now: Time) {
        let leadership = self.raft.leadership();
        let term = Some(leadership.term).filter(|_| leadership.is_own);
        if self.leading.as_ref().map(|leading| leading.term) == term {
            return;
        }
        // What was proposed in the term before is open, and what was not is somebody else's to propose.
        self.leading = term.map(|term| Leading::new(term, self.settings, now));
        self.give_up_queue();
    }

    /// Whether raft is to be polled again.
    fn go_on(&mut self, now: Time) -> bool {
        if self.leading.is_none() {
            return false;
        }
        let has_proposed = self.propose_queue();
        self.lead(now) || has_proposed
    }
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coordinator")
            .field("identity", &self.raft.identity())
            .field("leadership", &self.raft.leadership())
            .field("version", &self.state().version())
            .finish_non_exhaustive()
    }
}
