//! Clients that are known to be over by their numbers, where nothing else tells.

use std::collections::{HashSet, VecDeque};

use crate::limits::CLIENTS_OVER_MAX;

/// Numbers of clients, as many as are kept. The oldest goes first: a copy of a request is not on its way for as long as that takes.
#[derive(Debug, Default)]
pub(super) struct Over {
    numbers: HashSet<u64>,
    in_turn: VecDeque<u64>,
}

impl Over {
    pub(super) fn contains(&self, client: u64) -> bool {
        self.numbers.contains(&client)
    }

    /// Returns whether that is news.
    pub(super) fn insert(&mut self, client: u64) -> bool {
        if !self.numbers.insert(client) {
            return false;
        }
        self.in_turn.push_back(client);
        if self.in_turn.len() > CLIENTS_OVER_MAX
            && let Some(oldest) = self.in_turn.pop_front()
        {
            self.numbers.remove(&oldest);
        }
        true
    }
}
