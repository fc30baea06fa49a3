//! How long replicas wait, and how much they keep.

use std::time::Duration;

use weft_protocol::limits::APPEND_BYTES;

use super::planted::PlantedBug;

/// What leases go by. The same on every node of a cluster: a holder believes the duration that a grant states, and a new primary the
/// rest that a member states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseSettings {
    /// For how long a lease is granted.
    pub duration: Duration,
    /// One part in so many that the clocks of two nodes may drift apart: 50 allows each to be wrong by 1 %.
    pub drift_divisor: u32,
    /// What a grantor waits on top of that.
    pub margin: Duration,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self {
            duration: Duration::from_millis(500),
            drift_divisor: 50,
            margin: Duration::from_millis(10),
        }
    }
}

impl LeaseSettings {
    /// How long a duration of somebody else's clock may last by one's own.
    pub fn drifted(&self, duration: Duration) -> Duration {
        duration + duration / self.drift_divisor.max(1)
    }

    /// How long a grantor counts a lease, from when it was asked for it.
    pub fn granted(&self) -> Duration {
        self.drifted(self.duration) + self.margin
    }
}

/// What a replica goes by.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether an entry has to be synced before it is acknowledged: the partition's class is `fsync`.
    pub is_synced: bool,
    /// Whether the node keeps the partition in a log: an entry that a primary makes counts when it is said to be
    /// [applied](super::Replica::applied), as a follower's does, and not at once.
    pub is_logged: bool,
    /// After how long without an answer something is sent once more.
    pub resend_after: Duration,
    /// After how long without progress a member is reported as unreachable.
    pub unreachable_after: Duration,
    /// Bytes of entries that are kept because somebody lacks them. Beyond, writes wait for members; a learner that is behind is given up from half of it
    /// on.
    pub tail_bytes_max: usize,
    /// Bytes of one buffer of the tail, and so of the entries of one message, but for an entry that is longer.
    pub append_bytes: usize,
    /// Bytes of entries that are kept until those in front of them come.
    pub early_bytes_max: usize,
    /// Pieces of a snapshot that are on their way to a learner.
    pub pieces_ahead_max: usize,
    /// A bug that was put in.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub planted: Option<PlantedBug>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            is_synced: false,
            is_logged: false,
            resend_after: Duration::from_millis(100),
            unreachable_after: Duration::from_millis(500),
            tail_bytes_max: 64 << 20,
            append_bytes: APPEND_BYTES,
            early_bytes_max: 1 << 20,
            pieces_ahead_max: 2,
            #[cfg(any(test, feature = "planted-bugs"))]
            planted: None,
        }
    }
}

impl Settings {
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(super) fn has(&self, bug: PlantedBug) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(any(test, feature = "planted-bugs")))]
    pub(super) const fn has(&self, _bug: PlantedBug) -> bool {
        false
    }
}
