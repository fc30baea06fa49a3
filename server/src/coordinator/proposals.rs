//! Which proposals were accepted, so that one that comes twice is done once.

use std::collections::{BTreeMap, VecDeque};

use super::command::{Outcome, ProposalId};
use crate::limits::PROPOSALS_MAX;

/// The latest accepted proposals and what came of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Proposals {
    /// From the oldest on.
    order: VecDeque<ProposalId>,
    outcomes: BTreeMap<ProposalId, Outcome>,
}

impl Proposals {
    /// What came of the proposal, if it was accepted.
    pub(super) fn outcome(&self, id: ProposalId) -> Option<&Outcome> {
        self.outcomes.get(&id)
    }

    /// Remembers an accepted proposal, and forgets the oldest if there are too many. One that is known stays as it was.
    pub(super) fn remember(&mut self, id: ProposalId, outcome: Outcome) {
        if id == ProposalId::NONE || self.outcomes.contains_key(&id) {
            return;
        }
        if self.order.len() >= PROPOSALS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.outcomes.remove(&oldest);
        }
        self.order.push_back(id);
        self.outcomes.insert(id, outcome);
    }

    /// From the oldest on.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ProposalId, &Outcome)> {
        self.order.iter().filter_map(|id| Some((*id, self.outcomes.get(id)?)))
    }
}
