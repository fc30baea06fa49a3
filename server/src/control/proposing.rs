//! What changes something: proposals, each with an id by which it is known when it comes again.

use std::hash::{BuildHasher, RandomState};

use tonic::Status;
use weft_protocol::control::v1::{ListTablesResponse, ListWorkersResponse, StatusResponse};

use super::refusal::{self, Subject};
use super::service::Service;
use crate::coordinator::{Answer, Ask, Command, Outcome, Proposal, ProposalId};
use crate::limits::CONTROL_PATIENCE;

impl Service {
    /// Has the coordinators do something. Proposed again under the same id, it is done once.
    pub(super) async fn propose(
        &self,
        subject: Subject,
        id: ProposalId,
        command: Command,
    ) -> Result<Outcome, Status> {
        match self.ask(Ask::Propose(Proposal { id, command })).await {
            Answer::Decided(Ok(outcome)) => Ok(outcome),
            Answer::Decided(Err(denial)) => Err(refusal::denied(subject, denial)),
            answer => Err(no_answer(&answer, true)),
        }
    }

    /// How the cluster is.
    pub(super) async fn cluster_status(&self) -> Result<StatusResponse, Status> {
        match self.ask(Ask::Status).await {
            Answer::Status(status) => Ok(*status),
            answer => Err(no_answer(&answer, false)),
        }
    }

    /// Which tables there are.
    pub(super) async fn tables(&self) -> Result<ListTablesResponse, Status> {
        match self.ask(Ask::Tables).await {
            Answer::Tables(tables) => Ok(*tables),
            answer => Err(no_answer(&answer, false)),
        }
    }

    /// Which workers are registered.
    pub(super) async fn workers(&self) -> Result<ListWorkersResponse, Status> {
        match self.ask(Ask::Workers).await {
            Answer::Workers(workers) => Ok(*workers),
            answer => Err(no_answer(&answer, false)),
        }
    }

    async fn ask(&self, ask: Ask) -> Answer {
        self.node().ask(ask, CONTROL_PATIENCE).await
    }
}

/// What is no answer to what was asked, or to a change.
fn no_answer(answer: &Answer, is_change: bool) -> Status {
    if !matches!(answer, Answer::Unavailable | Answer::NotLeader { .. }) {
        tracing::error!(?answer, "the coordinators answered something else than they were asked");
    }
    refusal::unavailable(is_change)
}

/// The id of what is proposed for a request of this number, which the caller has drawn; `part` tells apart what is proposed for one request. A number
/// that was not drawn, 0, is that of no other request.
pub(super) fn proposal_id(request: u64, part: u64) -> ProposalId {
    let request = if request == 0 { drawn() } else { request };
    // Proposals of nodes and clients have drawn numbers in the upper half as well: with one that begins so, the chance to meet is that of 64 bits.
    ProposalId(u128::from(PROPOSED_HERE ^ part) << 64 | u128::from(request))
}

/// The upper half of what is proposed by the control port: `control.` as text.
const PROPOSED_HERE: u64 = 0x636f_6e74_726f_6c2e;

/// From the system's source of randomness, which the standard library seeds its own maps from. Never 0.
fn drawn() -> u64 {
    RandomState::new().hash_one(()) | 1
}
