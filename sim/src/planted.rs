//! Bugs that can be put into the nodes of whole clusters, to see that the simulation would find them.
//!
//! The cores have a list of their own each, and the operator, who is simulated too, has his. All are there by name; they can be put in with the
//! feature `planted-bugs` only.

use weft_server::coordinator::raft::PlantedBug as RaftBug;
use weft_server::durable::Planted as LogBug;
use weft_server::replication::PlantedBug as ReplicaBug;
use weft_server::store::PlantedBug as StoreBug;

/// A mistake in one of the parts of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// In replication.
    Replica(ReplicaBug),
    /// In what a partition remembers of requests.
    Store(StoreBug),
    /// In a log of a node.
    Log(LogBug),
    /// In the log of the coordinators.
    Raft(RaftBug),
    /// In how nodes are started.
    Operator(Mistake),
}

/// What whoever starts nodes can get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// A node begins another life under the incarnation of the one before.
    ReuseIncarnation,
    /// A coordinator whose disk is lost comes back under the id that it had in the log.
    ReuseRaftId,
    /// A node that begins another life behaves as if it had granted nothing before.
    ForgetEarlierLife,
}

impl Planted {
    /// All that there are.
    pub const ALL: &[Planted] = &[
        Planted::Replica(ReplicaBug::AcknowledgeBeforeMember),
        Planted::Replica(ReplicaBug::AcknowledgeBeforeSync),
        Planted::Replica(ReplicaBug::IgnoreEpochs),
        Planted::Replica(ReplicaBug::SkipFence),
        Planted::Replica(ReplicaBug::ReadAfterLease),
        Planted::Replica(ReplicaBug::LeaseFromReceipt),
        Planted::Replica(ReplicaBug::UseNewerGrant),
        Planted::Replica(ReplicaBug::TruncateByCommit),
        Planted::Replica(ReplicaBug::ShrinkWithoutCommit),
        Planted::Replica(ReplicaBug::CaughtUpTooEarly),
        Planted::Replica(ReplicaBug::CaughtUpNotCounted),
        Planted::Replica(ReplicaBug::CaughtUpBehindCommitted),
        Planted::Replica(ReplicaBug::CaughtUpBeforeServing),
        Planted::Replica(ReplicaBug::ReadWithoutLearnersLease),
        Planted::Replica(ReplicaBug::ClaimToHaveServed),
        Planted::Replica(ReplicaBug::PromoteWithoutWaiting),
        Planted::Replica(ReplicaBug::ForgetEarlierGrants),
        Planted::Store(StoreBug::ForgetCompletions),
        Planted::Store(StoreBug::RepeatRequests),
        Planted::Log(LogBug::AcknowledgeBeforeSync),
        Planted::Log(LogBug::CutAtCorruption),
        Planted::Log(LogBug::SkipDirectorySync),
        Planted::Log(LogBug::RemoveBeforeSync),
        Planted::Log(LogBug::RetrySync),
        Planted::Log(LogBug::ForgiveUnclean),
        Planted::Log(LogBug::AppendWhileOpening),
        Planted::Raft(RaftBug::VoteWithoutSync),
        Planted::Raft(RaftBug::MessagesBeforeWrite),
        Planted::Raft(RaftBug::SnapshotWithoutHardState),
        Planted::Raft(RaftBug::ReadBeforeApplied),
        Planted::Raft(RaftBug::CommitNotPersisted),
        Planted::Operator(Mistake::ReuseIncarnation),
        Planted::Operator(Mistake::ReuseRaftId),
        Planted::Operator(Mistake::ForgetEarlierLife),
    ];

    /// The name on the command line: the part and the bug, such as `replica:SkipFence`.
    pub fn name(self) -> String {
        match self {
            Planted::Replica(bug) => format!("replica:{bug:?}"),
            Planted::Store(bug) => format!("store:{bug:?}"),
            Planted::Log(bug) => format!("log:{bug:?}"),
            Planted::Raft(bug) => format!("raft:{bug:?}"),
            Planted::Operator(mistake) => format!("operator:{mistake:?}"),
        }
    }

    /// The bug of a name.
    pub fn named(name: &str) -> Option<Planted> {
        Self::ALL.iter().copied().find(|planted| planted.name() == name)
    }
}

#[cfg(feature = "planted-bugs")]
mod planting {
    use weft_server::coordinator::raft;
    use weft_server::durable::Settings;
    use weft_server::handler::NodeOptions;

    use super::Planted;

    impl Planted {
        pub(crate) fn in_node(self, options: &mut NodeOptions) {
            match self {
                Planted::Replica(bug) => options.replica_settings.planted = Some(bug),
                Planted::Store(bug) => options.planted_in_store = Some(bug),
                Planted::Log(_) | Planted::Raft(_) | Planted::Operator(_) => {}
            }
        }

        pub(crate) fn in_log(self, settings: Settings) -> Settings {
            if let Planted::Log(bug) = self { settings.planted(bug) } else { settings }
        }

        pub(crate) fn in_raft(self, settings: raft::Settings) -> raft::Settings {
            if let Planted::Raft(bug) = self { settings.with_planted(Some(bug)) } else { settings }
        }
    }
}
