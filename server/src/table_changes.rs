//! Tables are changed by the coordinators: a request is passed on to them, and answered when they have decided, by whoever brings their answer.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use weft_protocol::{
    CatalogError, Completion, CreateTableReply, ErrorCode, ErrorReply, TableChangedReply,
};

use crate::control::refusal::{Subject, error_code};
use crate::coordinator::{Answer, Ask, Command, Outcome, Proposal, ProposalId};
use crate::work::Work;

/// The upper half of the ids of what clients propose, with the client's number: `tables.` as text.
const PROPOSED_BY_CLIENTS: u64 = 0x7461_626c_6573_2e00;

/// Has the coordinators change the tables, and the request answered that is being executed.
///
/// A request that comes again, to whichever node, is the same proposal, if it says which of which client it is. Then it is done once, as long as it
/// is remembered, which is for longer than a client tries.
pub(crate) fn propose(
    work: &mut Work<'_, '_, '_>,
    completion: Option<Completion>,
    command: Command,
) {
    let node = work.node;
    let (responder, memory) =
        (work.replies.responder(), work.replies.batch.connection().memory().clone());
    let answers = Arc::clone(&node.answers);
    let coordination = Arc::clone(&node.coordination);
    let id = match completion {
        Some(Completion { id, .. }) => {
            ProposalId(u128::from(id.client ^ PROPOSED_BY_CLIENTS) << 64 | u128::from(id.sequence))
        }
        None => node.coordination.next_proposal(),
    };
    let tell = move |answer| match decided(answer) {
        Err(error) => answers.write_and_give(&memory, responder, error),
        Ok(outcome) => coordination.ask_and_tell(Ask::Tables, move |answer| {
            // What was decided stays so, though the version may not be known.
            let catalog_version = match answer {
                Answer::Tables(tables) => tables.catalog_version,
                _ => 0,
            };
            match outcome {
                Outcome::TableCreated { id } => {
                    let reply = CreateTableReply { table: id, catalog_version };
                    answers.write_and_give(&memory, responder, reply);
                }
                _ => {
                    let reply = TableChangedReply { catalog_version };
                    answers.write_and_give(&memory, responder, reply);
                }
            }
        }),
    };
    node.coordination.ask_and_tell(Ask::Propose(Proposal { id, command }), tell);
}

/// What the rules of catalogs alone refuse.
pub(crate) fn refusal(error: &CatalogError) -> ErrorReply<'static> {
    ErrorReply::new(match error {
        CatalogError::MalformedName { .. } => ErrorCode::TableNameMalformed,
        CatalogError::Exists { .. } | CatalogError::Default => ErrorCode::TableExists,
        CatalogError::Unknown { .. } => ErrorCode::TableUnknown,
        CatalogError::Full => ErrorCode::TooManyTables,
        CatalogError::Replicas { .. } => ErrorCode::UnsupportedReplicas,
    })
}

fn decided(answer: Answer) -> Result<Outcome, ErrorReply<'static>> {
    match answer {
        Answer::Decided(Ok(outcome)) => Ok(outcome),
        Answer::Decided(Err(denial)) => Err(ErrorReply {
            detail: denial.message.into(),
            ..ErrorReply::new(error_code(Subject::Table, denial.kind))
        }),
        // The agent asks on until somebody knows.
        _ => Err(ErrorReply::new(ErrorCode::CoordinatorsUnavailable)),
    }
}
