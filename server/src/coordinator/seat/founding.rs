//! What a cluster begins with.

use crate::coordinator::codec;
use crate::coordinator::command::{Command, Found, Join, Proposal, ProposalId};
use crate::coordinator::rejection::Rejection;
use crate::coordinator::state::ClusterState;

/// The first state of a cluster, for [`Batch::founding`](crate::coordinator::raft::Batch::founding): with nobody in it, or with a node that is of it
/// from the first moment on. The same for all founders.
///
/// # Errors
/// [`Rejection`]: a cluster cannot begin so.
pub fn founding_state(found: Found, first: Option<Join>) -> Result<Vec<u8>, Rejection> {
    let mut state = ClusterState::default();
    let commands = [Some(Command::Found(found)), first.map(Command::Join)];
    for command in commands.into_iter().flatten() {
        state.apply(&Proposal { id: ProposalId::NONE, command })?;
    }
    Ok(codec::encode_snapshot(&state).expect("a state of one node is within all limits"))
}
