//! Clients get leases from the coordinators, whichever node they ask.

use std::sync::Arc;

use weft_protocol::{ErrorCode, ErrorReply, OpenClientReply};

use super::lease_of;
use crate::coordinator::{Answer, Ask, ClientId, Command, DenialKind, Outcome, Proposal};
use crate::work::Work;

/// Has a client that there was not before given a lease, and the request answered that is being executed.
pub(crate) fn open(work: &mut Work<'_, '_, '_>) {
    propose(work, Command::OpenClient, |outcome| match outcome {
        Outcome::ClientOpened { client } => Ok(lease_of(client.0)),
        _ => Err(ErrorCode::Internal),
    });
}

/// Has the lease of `client` begin anew. It is answered when that is committed: nobody has let the lease run out meanwhile.
pub(crate) fn renew(work: &mut Work<'_, '_, '_>, client: u64) {
    let command = Command::RenewClients { clients: vec![ClientId(client)] };
    propose(work, command, move |outcome| match outcome {
        Outcome::Renewed { expired } if expired.is_empty() => Ok(lease_of(client)),
        Outcome::Renewed { .. } => Err(ErrorCode::ClientUnknown),
        _ => Err(ErrorCode::Internal),
    });
}

fn propose(
    work: &mut Work<'_, '_, '_>,
    command: Command,
    reply: impl FnOnce(Outcome) -> Result<OpenClientReply, ErrorCode> + Send + 'static,
) {
    let node = work.node;
    let (responder, memory) =
        (work.replies.responder(), work.replies.batch.connection().memory().clone());
    let answers = Arc::clone(&node.answers);
    let proposal = Proposal { id: node.coordination.next_proposal(), command };
    node.coordination.ask_and_tell(Ask::Propose(proposal), move |answer| {
        let replied = match answer {
            Answer::Decided(Ok(outcome)) => reply(outcome),
            Answer::Decided(Err(denial)) if denial.kind == DenialKind::Exhausted => {
                Err(ErrorCode::CompletionsFull)
            }
            _ => Err(ErrorCode::CoordinatorsUnavailable),
        };
        match replied {
            Ok(reply) => answers.write_and_give(&memory, responder, reply),
            Err(code) => answers.write_and_give(&memory, responder, ErrorReply::new(code)),
        }
    });
}
