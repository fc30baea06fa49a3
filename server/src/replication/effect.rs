//! What a replica wants done by whoever drives it, besides sending messages.

use weft_protocol::{Member, Version};

/// Something to be done, or to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Apply the [entries](super::Replica::entries) from `first` to `last`, in order, and say so by
    /// [`applied`](super::Replica::applied).
    Apply {
        /// The sequence of the first.
        first: u64,
        /// The sequence of the last.
        last: u64,
    },
    /// Forget everything: the store of the partition is to be empty.
    Reset {
        /// The entry behind which the next one will be.
        base: Version,
    },
    /// Everything up to here is committed: writes that wait for it can be answered.
    Committed {
        /// The sequence.
        sequence: u64,
    },
    /// From now on this replica is the partition's serving primary.
    Serving,
    /// This replica is not the primary any more, or begins anew as one: who waits for a commit is told that it may have happened, and is to ask again.
    Demoted,
    /// Walk the partition's index for a learner, and give what is found to [`snapshot_piece`](super::Replica::snapshot_piece).
    Feed {
        /// The learner.
        learner: Member,
        /// The session, to be given back with the pieces.
        session: u32,
    },
    /// Stop walking for a learner: it is none any more.
    StopFeeding {
        /// The learner.
        learner: Member,
    },
    /// To the coordinator: a member or learner does not answer. It is for the coordinator to commit a configuration without it.
    Unreachable {
        /// Who does not answer.
        member: Member,
        /// The epoch in which that is so; a proposal is good for that one only.
        epoch: u32,
    },
    /// To the coordinator: a member or learner that was told of answers.
    Answers {
        /// Who answers.
        member: Member,
    },
    /// To the coordinator: a learner is sent nothing any more. It is for the coordinator to commit a configuration without it; one that it is added to
    /// later has it begin anew.
    GivenUp {
        /// The learner.
        learner: Member,
        /// The epoch in which that is so; a proposal is good for that one only.
        epoch: u32,
    },
    /// To the coordinator: a learner has everything, and no commit goes without it any more. It is for the coordinator to commit a
    /// configuration that has it as a member.
    CaughtUp {
        /// The learner.
        learner: Member,
        /// The epoch in which that is so; a proposal is good for that one only.
        epoch: u32,
    },
    /// Somebody knows of an epoch that is higher: look at the map.
    LookAtMap {
        /// The epoch that he knows of.
        epoch: u32,
    },
    /// A message or a configuration contradicts what this replica holds. It takes no part any more until it is given everything
    /// anew: this is a bug of the cluster, and is to be reported loudly.
    Contradiction {
        /// What contradicts what.
        what: &'static str,
    },
}
