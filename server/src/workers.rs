//! Workers register with the coordinators: a request is passed on to them, and answered when they have decided, by whoever brings their answer.

use std::sync::Arc;

use weft_protocol::control::v1::ListWorkersResponse;
use weft_protocol::{
    Completion, ErrorCode, ErrorReply, RegisterWorker, RegisterWorkerReply, UnregisterWorkerReply,
    WorkerEntry, WorkersReply,
};
use weft_transport::Body;

use crate::control::refusal::{Subject, error_code};
use crate::coordinator::{Answer, Ask, Command, Outcome, Proposal, ProposalId, WorkerId};
use crate::limits::WORKER_LIFETIME;
use crate::work::Work;

/// The upper half of the ids of what workers propose, with the number of the client by which they do: `workers.` as text.
const PROPOSED_BY_WORKERS: u64 = 0x776f_726b_6572_732e;

/// Has the coordinators keep that a worker is there. A request that comes again, to whichever node, is the same proposal, if it says which of which client it is: then
/// it is done once, as long as it is remembered, which is for longer than a client tries.
pub(crate) fn register(work: &mut Work<'_, '_, '_>, register: &RegisterWorker<'_>) {
    let id = match register.completion {
        Some(Completion { id, .. }) => {
            ProposalId(u128::from(id.client ^ PROPOSED_BY_WORKERS) << 64 | u128::from(id.sequence))
        }
        None => work.node.coordination.next_proposal(),
    };
    let former = Some(register.former).filter(|former| *former != 0).map(WorkerId);
    let command = Command::RegisterWorker { former, description: register.worker.into() };
    propose(work, id, command, |outcome| match outcome {
        Outcome::WorkerRegistered { worker } => Ok(registered(worker)),
        _ => Err(ErrorReply::new(ErrorCode::Internal)),
    });
}

/// Has a registration begin anew. It is answered when that is committed: nobody has let it run out meanwhile.
pub(crate) fn renew(work: &mut Work<'_, '_, '_>, worker: WorkerId) {
    // It can as well be done twice, and so can the next one.
    propose(work, ProposalId::NONE, Command::RenewWorker { worker }, move |_| {
        Ok(registered(worker))
    });
}

/// Has a worker forgotten.
pub(crate) fn unregister(work: &mut Work<'_, '_, '_>, worker: WorkerId) {
    propose(work, ProposalId::NONE, Command::UnregisterWorker { worker }, |_| {
        Ok(UnregisterWorkerReply)
    });
}

/// Says which workers are registered.
pub(crate) fn list(work: &mut Work<'_, '_, '_>) {
    ask(work, Ask::Workers, |answer| match answer {
        Answer::Workers(workers) => Ok(WorkersReply { workers: entries(*workers) }),
        _ => Err(ErrorReply::new(ErrorCode::CoordinatorsUnavailable)),
    });
}

const fn registered(worker: WorkerId) -> RegisterWorkerReply {
    RegisterWorkerReply { worker: worker.0, lifetime_ms: WORKER_LIFETIME.as_millis() as u32 }
}

fn entries(listed: ListWorkersResponse) -> Vec<WorkerEntry> {
    let entry = |worker: weft_protocol::control::v1::Worker| WorkerEntry {
        worker: worker.worker,
        address: worker.address,
        slots: worker.slots,
        build: worker.build,
        process: worker.process,
    };
    listed.workers.into_iter().map(entry).collect()
}

fn propose<R: Body>(
    work: &mut Work<'_, '_, '_>,
    id: ProposalId,
    command: Command,
    reply: impl FnOnce(Outcome) -> Result<R, ErrorReply<'static>> + Send + 'static,
) {
    ask(work, Ask::Propose(Proposal { id, command }), |answer| match answer {
        Answer::Decided(Ok(outcome)) => reply(outcome),
        Answer::Decided(Err(denial)) => Err(ErrorReply {
            detail: denial.message.into(),
            ..ErrorReply::new(error_code(Subject::Worker, denial.kind))
        }),
        // The agent asks on until somebody knows.
        _ => Err(ErrorReply::new(ErrorCode::CoordinatorsUnavailable)),
    });
}

/// Has the coordinators asked, and the request answered that is being executed.
fn ask<R: Body>(
    work: &mut Work<'_, '_, '_>,
    ask: Ask,
    read: impl FnOnce(Answer) -> Result<R, ErrorReply<'static>> + Send + 'static,
) {
    let node = work.node;
    let (responder, memory) =
        (work.replies.responder(), work.replies.batch.connection().memory().clone());
    let answers = Arc::clone(&node.answers);
    node.coordination.ask_and_tell(ask, move |answer| match read(answer) {
        Ok(reply) => answers.write_and_give(&memory, responder, reply),
        Err(error) => answers.write_and_give(&memory, responder, error),
    });
}
