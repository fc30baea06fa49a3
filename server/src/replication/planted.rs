//! Bugs that can be put into the protocol, to see whether the tests would notice. They exist in tests and with the feature
//! `planted-bugs` only: elsewhere every question whether one is there is answered `false` when the program is compiled.

/// A mistake that somebody could make here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// The primary calls an entry committed as soon as one member has it, itself included.
    AcknowledgeBeforeMember,
    /// A replica of class `fsync` acknowledges what it has in memory.
    AcknowledgeBeforeSync,
    /// Members append what a primary of an earlier epoch sends.
    IgnoreEpochs,
    /// A new primary asks nobody before it goes on.
    SkipFence,
    /// A primary reads whether or not its leases run.
    ReadAfterLease,
    /// A lease counts for its holder from when the grant came.
    LeaseFromReceipt,
    /// A grant counts for its holder although it is of a newer map than its own.
    UseNewerGrant,
    /// A replica cuts off what is above the commit mark that it heard of when the primary changes.
    TruncateByCommit,
    /// A primary stops waiting for a member that does not answer.
    ShrinkWithoutCommit,
    /// A learner is called caught up as soon as it has begun.
    CaughtUpTooEarly,
    /// A learner is called caught up, and commits go on without it.
    CaughtUpNotCounted,
    /// A learner is called caught up while it lacks entries that were committed without it.
    CaughtUpBehindCommitted,
    /// A learner is called caught up while a former primary may still read.
    CaughtUpBeforeServing,
    /// A primary reads without a lease of a learner that may be a member by now.
    ReadWithoutLearnersLease,
    /// A primary that is deposed while it waits for leases says that it has served.
    ClaimToHaveServed,
    /// A new primary serves at once.
    PromoteWithoutWaiting,
    /// A node that was started anew behaves as if it had granted nothing before.
    ForgetEarlierGrants,
}
