//! Mistakes that a test can plant, to see that it would find them.

/// One way to get it wrong. Each was somebody's bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests plant them"))]
pub(crate) enum PlantedBug {
    /// A vote or a term is written without syncing it.
    VoteWithoutSync,
    /// Messages that promise something leave before it is on disk.
    MessagesBeforeWrite,
    /// A snapshot is installed in one batch and the hard state that it needs in the next.
    SnapshotWithoutHardState,
    /// A read is served as soon as its index is known.
    ReadBeforeApplied,
    /// A node whose disk was lost comes back under the id that it had. Planted in the operator of the test's world.
    ReusedRaftId,
    /// The commit index stays what it was when the node started.
    CommitNotPersisted,
}

/// The bug of this node, if a test gave it one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planted {
    #[cfg(test)]
    pub(crate) bug: Option<PlantedBug>,
}

impl Planted {
    /// Whether to get it wrong. Outside of tests, no.
    pub(crate) fn has(self, bug: PlantedBug) -> bool {
        #[cfg(test)]
        return self.bug == Some(bug);
        #[cfg(not(test))]
        {
            let _ = bug;
            false
        }
    }
}
