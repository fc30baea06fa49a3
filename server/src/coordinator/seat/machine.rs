//! The state behind the log.

use crate::coordinator::ask::Denial;
use crate::coordinator::codec::{self, CodecError};
use crate::coordinator::raft::{ProposalId, RestoreError, StateMachine};
use crate::coordinator::state::ClusterState;

/// The state, as committed entries have made it.
#[derive(Debug, Default)]
pub(super) struct Machine {
    state: ClusterState,
    /// An entry that cannot be read. Nothing is applied any more: whoever left one out would hold something else than the others.
    broken: Option<CodecError>,
}

impl Machine {
    pub(super) const fn state(&self) -> &ClusterState {
        &self.state
    }

    pub(super) const fn broken(&self) -> Option<&CodecError> {
        self.broken.as_ref()
    }
}

impl StateMachine for Machine {
    fn apply(&mut self, _: u64, _: ProposalId, command: &[u8]) -> Vec<u8> {
        if self.broken.is_some() {
            return Vec::new();
        }
        let proposals = match codec::decode_entry(command) {
            Ok(proposals) => proposals,
            Err(error) => {
                self.broken = Some(error);
                return Vec::new();
            }
        };
        let mut decided = Vec::with_capacity(proposals.len());
        for proposal in &proposals {
            decided.push(self.state.apply(proposal).map_err(|rejection| Denial::from(&rejection)));
        }
        codec::encode_decisions(&decided)
    }

    fn snapshot(&self) -> Vec<u8> {
        codec::encode_snapshot(&self.state).expect("a state within its limits is within this one")
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.state =
            codec::decode_snapshot(bytes).map_err(|error| RestoreError(error.to_string()))?;
        Ok(())
    }
}
