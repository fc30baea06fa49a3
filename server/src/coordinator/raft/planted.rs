//! Mistakes that can be planted, to see that they would be found. They exist in tests and with the feature `planted-bugs` only: elsewhere every
//! question whether one is there is answered `false` when the program is compiled.

/// One way to get it wrong. Each was somebody's bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
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

/// The bug of this node, if it was given one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planted {
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(crate) bug: Option<PlantedBug>,
}

impl Planted {
    /// Whether to get it wrong.
    pub(crate) fn has(self, bug: PlantedBug) -> bool {
        #[cfg(any(test, feature = "planted-bugs"))]
        return self.bug == Some(bug);
        #[cfg(not(any(test, feature = "planted-bugs")))]
        {
            let _ = bug;
            false
        }
    }
}
