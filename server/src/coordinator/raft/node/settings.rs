//! What a member is told.

use std::time::Duration;

use crate::coordinator::raft::planted::Planted;
#[cfg(any(test, feature = "planted-bugs"))]
use crate::coordinator::raft::planted::PlantedBug;

/// How a member behaves. All members of a cluster are to be told the same, but for the seed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// raft-rs counts time in these.
    pub tick: Duration,
    /// Ticks without a leader before a member stands for election: drawn, from this to twice this.
    pub election_ticks: usize,
    /// Ticks between a leader's heartbeats.
    pub heartbeat_ticks: usize,
    /// Where the draws come from.
    pub seed: u64,
    /// A snapshot of the state is made once so many entries were applied since the last,
    pub snapshot_entries: u64,
    /// or once the log has so many bytes of commands.
    pub snapshot_bytes: usize,
    /// Entries before the snapshot that stay, for members that are a little behind.
    pub kept_entries: u64,
    pub(crate) planted: Planted,
}

impl Default for Settings {
    /// A leader's loss is noticed in half a second to one.
    fn default() -> Self {
        Settings {
            tick: Duration::from_millis(50),
            election_ticks: 10,
            heartbeat_ticks: 2,
            seed: 0,
            snapshot_entries: 8192,
            snapshot_bytes: 16 << 20,
            kept_entries: 2048,
            planted: Planted::default(),
        }
    }
}

impl Settings {
    /// Plants a bug, or none.
    #[cfg(any(test, feature = "planted-bugs"))]
    #[must_use]
    pub fn with_planted(mut self, bug: Option<PlantedBug>) -> Settings {
        self.planted = Planted { bug };
        self
    }

    /// How long a member may be silent and still be taken for one that lives.
    pub(super) fn silence_max(&self) -> Duration {
        self.ticks(2 * self.election_ticks)
    }

    /// After this a read is asked for again: raft-rs drops it in silence where there is no leader, or one that has committed nothing yet.
    pub(super) fn read_retry(&self) -> Duration {
        self.ticks(3 * self.heartbeat_ticks)
    }

    /// After this a read is given up.
    pub(super) fn read_timeout(&self) -> Duration {
        self.ticks(6 * self.election_ticks)
    }

    /// After this a snapshot that nobody has acknowledged is taken for lost.
    pub(super) fn snapshot_timeout(&self) -> Duration {
        self.ticks(4 * self.election_ticks)
    }

    fn ticks(&self, count: usize) -> Duration {
        self.tick * u32::try_from(count).unwrap_or(u32::MAX)
    }
}
