//! What the coordinator has said of clients.
//!
//! Numbers are given out in order. So who has a lease and the last number tell of all that were ever given out whether they are over; of
//! those behind, this node has not heard yet.

use std::collections::HashSet;

use super::over::Over;
use crate::limits::CLIENTS_MAX;

/// Numbers that are given out from one word of the coordinator's to the next, at most: many times as many as can have leases. More cannot be true.
const GIVEN_OUT_MAX: u64 = 16 * CLIENTS_MAX as u64;

#[derive(Debug)]
pub(super) struct Told {
    live: HashSet<u64>,
    last: u64,
}

impl Told {
    /// Those that are `live` have leases, and no other up to `last`. That one is over has been heard from others by now, maybe.
    pub(super) fn new(live: &[u64], last: u64, over: &Over) -> Told {
        let live = live.iter().copied().filter(|client| !over.contains(*client)).collect();
        Told { live, last }
    }

    /// Numbers up to `last` were given out, and those that have `expired` are over. Returns whether some are that were not before.
    pub(super) fn add(&mut self, expired: &[u64], last: u64, over: &Over) -> bool {
        if last.saturating_sub(self.last) > GIVEN_OUT_MAX {
            tracing::error!(
                last,
                known = self.last,
                "more clients were opened at once than there can be"
            );
            return false;
        }
        let new = self.last.saturating_add(1)..=last;
        self.live.extend(new.filter(|client| !over.contains(*client)));
        self.last = self.last.max(last);
        expired.iter().filter(|client| self.live.remove(client)).count() > 0
    }

    pub(super) fn end(&mut self, client: u64) {
        self.live.remove(&client);
    }

    pub(super) fn is_over(&self, client: u64) -> bool {
        client <= self.last && !self.live.contains(&client)
    }
}
