//! What has to have happened in a run of many worlds, or the run says nothing about it.

use std::ops::AddAssign;

macro_rules! situations {
    ($($name:ident),* $(,)?) => {
        /// Something that the protocol has to deal with.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Situation { $($name),* }

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

situations!(
    WriteAcknowledged,
    ReadAnswered,
    ReadOfAbsentKey,
    ReadWaitedForCommit,
    ReadRefusedWithoutLease,
    WriteRefusedTooFewMembers,
    WriteRefusedTailFull,
    WriteOutcomeUnknown,
    StaleAnswered,
    MissingAnswered,
    EarlyEntriesKept,
    EntriesCameTwice,
    FenceRejectedOldAppend,
    FormerPrimaryDemotedByFence,
    TailAdoptedFromLongerSurvivor,
    SurvivorWasBehind,
    LeaseWaitedOut,
    LeaseRestToldByMember,
    HandedOverByFormerPrimary,
    GrantOfNewerMapHeldBack,
    ConnectionReset,
    ReplicaFailed,
    LearnerFed,
    SnapshotRecordOlderThanEntry,
    LearnerPromoted,
    LearnerPromotionTooLate,
    SessionBegunAnew,
    LearnerGivenUp,
    LearnerRemoved,
    MemberUnreachable,
    LearnerUnreachable,
    EpochChangedWithSamePrimary,
    PrimaryChanged,
    NewLearnerBecamePrimary,
    EpochSkipped,
    NodeCrashed,
    NodePaused,
    NodePausedBeyondLease,
    RestartedNodeKeptItsPlace,
    AllMembersDiedAndKeptTheirPlace,
    PartitionLost,
    LinkCut,
    OneWayCut,
    CoordinatorUnreachable,
    UnsyncedEntriesLost,
    CommitWaitedForSync,
);

/// How often each has happened.
#[derive(Clone)]
pub(super) struct Situations([u64; NAMES.len()]);

impl Default for Situations {
    fn default() -> Self {
        Self([0; NAMES.len()])
    }
}

impl Situations {
    pub(super) fn note(&mut self, situation: Situation) {
        self.0[situation as usize] += 1;
    }

    /// Names and counts, in their order.
    pub(super) fn table(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.iter().copied().zip(self.0)
    }
}

impl AddAssign<&Self> for Situations {
    fn add_assign(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
