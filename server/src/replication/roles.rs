//! What a replica is at the moment.

use super::tenure::Tenure;

/// The role of a replica, with what belongs to that role only.
#[derive(Debug)]
pub(super) enum Role {
    /// Holds nothing: it was never given the partition, or was removed, or the partition is lost.
    None,
    /// In sync, and follows the primary.
    Member,
    /// Is being given what there is.
    Learner(Learning),
    /// Orders writes, or is about to.
    Primary(Box<Tenure>),
}

/// How far a learner has come.
#[derive(Debug, Default)]
pub(super) struct Learning {
    /// The session that it takes things of; 0 before the first began.
    pub(super) session: u32,
    /// Pieces of the snapshot taken.
    pub(super) pieces: u32,
    /// Whether a piece was handed out to be taken, and nobody said yet that it was.
    pub(super) is_taking: bool,
    /// How many pieces there are, and up to where entries are needed, once that was said.
    pub(super) end: Option<(u32, u64)>,
    /// Whether the snapshot is on disk for good.
    pub(super) is_on_disk: bool,
}

impl Learning {
    /// Whether it has everything that it needs to be a member, having entries up to `own` in the way that an acknowledgement means. In
    /// class `fsync`, which `is_synced`, they have to be on disk: a record of the snapshot may be newer than they are, and would be there after a crash
    /// without the entry that made it. So has the snapshot, or a member would come back with less than it has acknowledged.
    pub(super) fn is_complete(&self, own: u64, is_synced: bool) -> bool {
        let is_kept = self.is_on_disk || !is_synced;
        is_kept && self.has_all_pieces() && self.end.is_some_and(|(_, through)| own >= through)
    }

    /// Whether it has taken all pieces of the snapshot.
    pub(super) fn has_all_pieces(&self) -> bool {
        self.end.is_some_and(|(pieces, _)| self.pieces == pieces)
    }
}
