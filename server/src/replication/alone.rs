//! A primary that is the only one to hold its partition keeps no tail, as there is nobody to send it to: it says how far it has come when that
//! counts for something.

use weft_protocol::Version;

use super::replica::Replica;
use super::roles::Role;

impl Replica {
    /// Whether this replica is the serving primary and nobody else holds, or is to hold, anything of the partition; and nothing is waited for,
    /// not even a disk.
    pub fn is_alone(&self) -> bool {
        let Role::Primary(tenure) = &self.role else { return false };
        self.is_serving() && tenure.followers.is_empty() && !self.settings.is_synced
    }

    /// While it was [alone](Self::is_alone), the primary has made entries up to `last`.
    pub fn advance_alone(&mut self, last: Version) {
        if last.sequence() <= self.tail.last().sequence() {
            return;
        }
        self.tail.reset(last);
        (self.applied, self.synced) = (last.sequence(), last.sequence());
        self.committed = last.sequence();
    }
}
