//! How soon the nodes of a cluster notice that one is gone.

use std::time::Duration;

use super::planner::PlannerSettings;
use super::raft;
use crate::replication::{LeaseSettings, Settings};

/// How often nodes say that they are there, and for how long that holds. A cluster is founded with it, and it is the same on all nodes: what one has granted
/// another relies on, in its next life too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    heartbeat_ms: u32,
    lease_ms: u32,
}

/// Why nodes cannot keep this time. Every message ends with what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// Heartbeats are too close, or too far apart.
    #[error(
        "heartbeats every {heartbeat:?} are none of 10ms to 10s; give --heartbeat 50ms, for example"
    )]
    Heartbeat {
        /// How far apart.
        heartbeat: Duration,
    },
    /// A lease that a lost message or two would end, or one that keeps everybody waiting.
    #[error(
        "a lease of {lease:?} is not from {LEASE_HEARTBEATS_MIN} heartbeats of {heartbeat:?} to 60s; give --lease {}ms, for example",
        Timing::lease_for(*heartbeat).as_millis()
    )]
    Lease {
        /// How long it lasts.
        lease: Duration,
        /// How far apart heartbeats are.
        heartbeat: Duration,
    },
}

/// A lease outlives so many heartbeats at least.
const LEASE_HEARTBEATS_MIN: u32 = 4;
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);
const HEARTBEAT_MAX: Duration = Duration::from_secs(10);
const LEASE_MAX: Duration = Duration::from_secs(60);

impl Timing {
    /// Heartbeats so far apart, and leases that last so long; both in whole milliseconds, what is beyond is cut off.
    ///
    /// # Errors
    /// [`TimingError`].
    pub fn new(heartbeat: Duration, lease: Duration) -> Result<Timing, TimingError> {
        if !(HEARTBEAT_MIN..=HEARTBEAT_MAX).contains(&heartbeat) {
            return Err(TimingError::Heartbeat { heartbeat });
        }
        if !(heartbeat * LEASE_HEARTBEATS_MIN..=LEASE_MAX).contains(&lease) {
            return Err(TimingError::Lease { lease, heartbeat });
        }
        let ms = |duration: Duration| duration.as_millis() as u32;
        Ok(Timing { heartbeat_ms: ms(heartbeat), lease_ms: ms(lease) })
    }

    /// A lease of ten heartbeats, or as long as one may be.
    pub fn lease_for(heartbeat: Duration) -> Duration {
        (10 * heartbeat).min(LEASE_MAX)
    }

    /// How far apart heartbeats are.
    pub const fn heartbeat(self) -> Duration {
        Duration::from_millis(self.heartbeat_ms as u64)
    }

    /// How long a lease between nodes lasts, and after how long a node is down that is not heard.
    pub const fn lease(self) -> Duration {
        Duration::from_millis(self.lease_ms as u64)
    }

    /// What leases go by.
    pub fn leases(self) -> LeaseSettings {
        LeaseSettings { duration: self.lease(), ..LeaseSettings::default() }
    }

    /// What replicas go by.
    pub fn replicas(self) -> Settings {
        Settings {
            resend_after: 2 * self.heartbeat(),
            unreachable_after: self.lease(),
            ..Settings::default()
        }
    }

    /// What the coordinators' log goes by: they stand for election when their leader was silent for a lease, or for up to twice as long.
    pub fn raft(self, seed: u64) -> raft::Settings {
        let election_ticks = self.lease_ms.div_ceil(self.heartbeat_ms) as usize;
        raft::Settings { tick: self.heartbeat(), election_ticks, seed, ..raft::Settings::default() }
    }

    /// What the leader of the coordinators goes by.
    pub fn planner(self) -> PlannerSettings {
        PlannerSettings {
            down_after: self.lease(),
            up_after: 2 * self.lease(),
            lease: self.lease(),
            report_for: self.lease(),
            ..PlannerSettings::default()
        }
    }
}

impl Default for Timing {
    /// 50 ms and 500 ms.
    fn default() -> Timing {
        Timing { heartbeat_ms: 50, lease_ms: 500 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_usual_is_what_each_part_has_by_itself() {
        let timing = Timing::default();
        assert_eq!(timing, Timing::new(ms(50), ms(500)).unwrap());
        assert_eq!(timing.leases(), LeaseSettings::default());
        assert_eq!(timing.planner(), PlannerSettings::default());
        let (told, alone) = (timing.raft(0), raft::Settings::default());
        assert_eq!((told.tick, told.election_ticks), (alone.tick, alone.election_ticks));
        let (replicas, usual) = (timing.replicas(), Settings::default());
        assert_eq!(
            (replicas.resend_after, replicas.unreachable_after),
            (usual.resend_after, usual.unreachable_after)
        );
    }

    /// The leader's loss is noticed in the same time as that of any other node.
    #[test]
    fn the_coordinators_log_keeps_the_same_time() {
        let slow = Timing::new(ms(1_000), ms(4_500)).unwrap().raft(0);
        assert_eq!((slow.tick, slow.election_ticks), (ms(1_000), 5));
        assert!(slow.election_ticks > slow.heartbeat_ticks);
        let least = Timing::new(ms(10), ms(40)).unwrap().raft(0);
        assert_eq!((least.tick, least.election_ticks), (ms(10), 4));
    }

    #[test]
    fn a_lease_outlives_a_few_heartbeats() {
        assert!(Timing::new(ms(10), ms(40)).is_ok() && Timing::new(ms(10_000), ms(60_000)).is_ok());
        for (heartbeat, lease, advice) in [
            (9, 500, "--heartbeat 50ms"),
            (10_001, 60_000, "--heartbeat 50ms"),
            (50, 199, "--lease 500ms"),
            (50, 60_001, "--lease 500ms"),
            (10_000, 100_000, "--lease 60000ms"),
        ] {
            let error = Timing::new(ms(heartbeat), ms(lease)).unwrap_err().to_string();
            assert!(error.contains(advice), "{error}");
        }
        for heartbeat in [10, 50, 6_000, 6_001, 10_000] {
            assert!(Timing::new(ms(heartbeat), Timing::lease_for(ms(heartbeat))).is_ok());
        }
    }
}
