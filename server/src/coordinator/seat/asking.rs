//! What may be asked for, and what is answered at once.

use weft_protocol::{Member, PartitionId, TableOptions};
use weft_transport::{NodeId, Time};

use super::proposing::{self, Entry};
use super::{Coordinator, Reading, Subject};
use crate::coordinator::ask::{Answer, Ask, Denial, DenialKind};
use crate::coordinator::codec::{self, CodecError};
use crate::coordinator::command::{Command, Join, Proposal, ProposalId};
use crate::coordinator::planner::Planner;
use crate::coordinator::raft::{self, COMMAND_BYTES_MAX, ReadOutcome, Refused};
use crate::coordinator::rejection::Rejection;
use crate::limits::COORDINATORS_MAX;

impl Denial {
    pub(super) fn invalid(error: &CodecError) -> Self {
        Self::new(DenialKind::Invalid, format!("propose what cannot be written down: {error}"))
    }

    pub(super) fn too_long(len: usize) -> Self {
        let limit = COMMAND_BYTES_MAX;
        Self::new(DenialKind::Invalid, format!("a proposal of {len} bytes is over {limit}"))
    }
}

impl Coordinator {
    /// A question, at the leader. Returns the answer, if it is known.
    pub(super) fn begin(&mut self, now: Time, token: u64, ask: Ask) -> Option<Answer> {
        match ask {
            // A node says itself who it is.
            Ask::Introduce => {
                Some(denied(DenialKind::Invalid, "a coordinator is not asked who it is"))
            }
            Ask::Propose(proposal) => match self.admissible(now, proposal) {
                Ok(proposal) => {
                    self.proposing.push(token, proposal);
                    None
                }
                Err(answer) => Some(answer),
            },
            Ask::Admit { id, node } => self.admit(now, token, id, node),
            Ask::Status => self.begin_reading(now, Reading { token, of: Subject::Status }),
            Ask::Tables => self.begin_reading(now, Reading { token, of: Subject::Tables }),
            Ask::Workers => self.begin_reading(now, Reading { token, of: Subject::Workers }),
        }
    }

    /// What is to be proposed for a question, or the answer to it.
    fn admissible(&self, now: Time, proposal: Proposal) -> Result<Proposal, Answer> {
        let Proposal { id, command } = proposal;
        if let Some(outcome) = self.known_outcome(id) {
            return Err(Answer::Decided(Ok(outcome)));
        }
        let command = match command {
            Command::AcceptLoss { partition, expected_epoch, members: _ } => {
                self.acceptance(partition, expected_epoch)?
            }
            Command::CreateTable { name, options } => self.creation(name, options)?,
            Command::Join(join) => {
                self.check_former_life(now, &join)?;
                Command::Join(join)
            }
            Command::Leave { .. }
            | Command::Stay { .. }
            | Command::DeclareLost { .. }
            | Command::DropTable { .. }
            | Command::AlterTable { .. }
            | Command::OpenClient
            | Command::RenewClients { .. }
            | Command::ExpireClient { .. }
            | Command::RegisterWorker { .. }
            | Command::RenewWorker { .. }
            | Command::UnregisterWorker { .. } => command,
            Command::Found(_)
            | Command::Forget { .. }
            | Command::MarkDown { .. }
            | Command::MarkUp { .. }
            | Command::Settle { .. }
            | Command::Place { .. }
            | Command::Reconfigure { .. }
            | Command::AddLearner { .. }
            | Command::PromoteLearner { .. }
            | Command::RemoveMember { .. }
            | Command::ExpireWorker { .. } => {
                return Err(denied(DenialKind::Invalid, "this is for the leader to propose"));
            }
        };
        let proposal = Proposal { id, command };
        // An entry that a coordinator could not read would be the end of all of them, so what comes from within the process is looked at too.
        let refused = |denial| Answer::Decided(Err(denial));
        let bytes = proposing::entry(std::slice::from_ref(&proposal)).map_err(refused)?;
        match codec::decode_entry(&bytes) {
            Ok(_) => Ok(proposal),
            Err(error) => Err(refused(Denial::invalid(&error))),
        }
    }

    /// A node whose disk knows of its last life may begin the next one before that has been found down. But not while that life is heard: then there are two
    /// nodes of one id, and one of them has a copy of the other's disk.
    fn check_former_life(&self, now: Time, join: &Join) -> Result<(), Answer> {
        let Some(known) = self.state().node(join.node) else { return Ok(()) };
        let former = known.member();
        let silence = self.liveness.silence_of(former, now);
        let is_heard = silence.is_some_and(|silence| silence <= self.settings.down_after);
        if known.is_up
            && join.incarnation > known.incarnation
            && is_heard
            && !self.liveness.is_gone(former)
        {
            let Member { node, incarnation } = former;
            let rejection = Rejection::NodeIsUp { node, incarnation };
            return Err(Answer::Decided(Err(Denial::from(&rejection))));
        }
        Ok(())
    }

    /// A table is to be made, which nodes have to be able to hold. What else is wrong with it is the state's to say.
    fn creation(&self, name: String, options: TableOptions) -> Result<Command, Answer> {
        let state = self.state();
        let is_possible = state.catalog().with(&name, options).is_ok();
        match Planner::lacks_disks(state, options.class()).filter(|_| is_possible) {
            // Until then a node may have joined long ago that is not here yet.
            Some(_) if !self.leading.as_ref().is_some_and(|leading| leading.knows_all) => {
                Err(Answer::Unavailable)
            }
            Some(reason) => Err(denied(DenialKind::Precondition, reason)),
            None => Ok(Command::CreateTable { name, options }),
        }
    }

    /// An operator says that a loss is accepted; who has the partition then is the leader's to choose.
    fn acceptance(&self, partition: PartitionId, expected_epoch: u32) -> Result<Command, Answer> {
        let state = self.state();
        let rejected = |rejection| Answer::Decided(Err(Denial::from(&rejection)));
        let is_lost = state.existing(partition).map_err(rejected)?.configuration.is_lost;
        if !is_lost {
            return Err(rejected(Rejection::NotLost));
        }
        match Planner::accept_loss(state, &self.liveness, partition) {
            Some(Command::AcceptLoss { partition, members, .. }) => {
                Ok(Command::AcceptLoss { partition, expected_epoch, members })
            }
            _ => Err(denied(DenialKind::NotYet, "no node is up that could hold the partition")),
        }
    }

    fn admit(&mut self, now: Time, token: u64, id: ProposalId, node: NodeId) -> Option<Answer> {
        // The answer was lost, perhaps with the leader that would have given it. Were the node admitted again, the log that it makes of the first answer might be one
        // of a member that is none any more.
        match self.raft.admitted(id) {
            Some((raft, true)) => return Some(Answer::Admitted { cluster: self.cluster, raft }),
            Some((_, false)) => {
                let reason =
                    "the member that was admitted under this id is gone: ask under another";
                return Some(denied(DenialKind::Precondition, reason));
            }
            None => {}
        }
        if id == ProposalId::NONE || self.proposing.wait_for_admission(id, token) {
            let has_no_id = id == ProposalId::NONE;
            return has_no_id.then(|| denied(DenialKind::Invalid, "an admission needs an id"));
        }
        let known = self.state().node(node);
        let Some(known) = known else {
            return Some(denied(DenialKind::NotYet, "the node has not joined yet"));
        };
        if known.is_leaving {
            return Some(denied(DenialKind::Precondition, "the node is leaving"));
        }
        if !known.description.is_coordinator {
            let reason = "the node joined as one that is no coordinator";
            return Some(denied(DenialKind::Precondition, reason));
        }
        let others = self.raft.members().iter().filter(|member| member.node != node).count();
        if others >= COORDINATORS_MAX {
            let reason = format!("there are {others} coordinators already, and no more are needed");
            return Some(denied(DenialKind::Exhausted, reason));
        }
        match self.raft.admit(now, id, node) {
            Ok(()) => {
                self.proposing.begin(id, Entry::Admission(vec![token]));
                None
            }
            Err(refused @ Refused::Leads) => {
                Some(denied(DenialKind::Precondition, refused.to_string()))
            }
            Err(refused) => Some(denied(DenialKind::NotYet, refused.to_string())),
        }
    }

    pub(super) fn admission_decided(&mut self, tokens: Vec<u64>, outcome: &raft::Outcome) {
        let answer = match outcome {
            raft::Outcome::Changed(Some(raft)) => {
                let raft = *raft;
                Answer::Admitted { cluster: self.cluster, raft }
            }
            raft::Outcome::Overtaken => {
                denied(DenialKind::NotYet, "another change of the coordinators came before")
            }
            raft::Outcome::Changed(None)
            | raft::Outcome::Applied { .. }
            | raft::Outcome::Unknown => Answer::Unavailable,
        };
        self.answers.extend(tokens.into_iter().map(|token| (token, answer.clone())));
    }

    /// A question that is answered when it is certain that nothing newer was acknowledged by another leader.
    fn begin_reading(&mut self, now: Time, reading: Reading) -> Option<Answer> {
        self.reads_made += 1;
        let read = self.reads_made;
        if self.raft.read_index(now, read).is_err() {
            return Some(Answer::Unavailable);
        }
        self.reads.insert(read, reading);
        None
    }

    pub(super) fn read(&mut self, now: Time, read: ReadOutcome) {
        let Some(Reading { token, of }) = self.reads.remove(&read.token) else { return };
        let answer = match (read.is_ready, self.leads()) {
            (false, _) => Answer::Unavailable,
            // Who is heard how is the leader's to say.
            (true, false) => Answer::NotLeader { leader: self.find_leader() },
            (true, true) => match of {
                Subject::Status => Answer::Status(Box::new(self.status(now))),
                Subject::Tables => Answer::Tables(Box::new(self.tables())),
                Subject::Workers => Answer::Workers(Box::new(self.workers())),
            },
        };
        self.answers.push((token, answer));
    }
}

fn denied(kind: DenialKind, reason: impl Into<String>) -> Answer {
    Answer::Decided(Err(Denial::new(kind, reason)))
}
