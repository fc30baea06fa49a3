//! How patient the leader is.

use std::time::Duration;

use crate::limits::WORKER_LIFETIME;

/// How long the leader waits for what, and how much it does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannerSettings {
    /// A node is down that was not heard for so long: ten heartbeats.
    pub down_after: Duration,
    /// A node that was down is up again when it was heard for so long without a gap.
    pub up_after: Duration,
    /// How long a lease between two nodes lasts. The leader waits for a hundredth and 10 ms more.
    pub lease: Duration,
    /// How long a client's lease lasts from one renewal to the next.
    pub client_lease: Duration,
    /// How long a worker is registered from one renewal to the next.
    pub worker_lifetime: Duration,
    /// What a primary tells of a member counts for so long.
    pub report_for: Duration,
    /// Two nodes that could not reach one another are not made replicas of one partition for so long, nor is a partition given again to a node that was
    /// given up as its learner.
    pub apart_for: Duration,
    /// What a node holds that is down is put elsewhere after so long, as long as writes go on meanwhile: most nodes come back at once, and to bring
    /// one up to date is less than to fill another.
    pub replace_after: Duration,
    /// Where data is on disk, a member that was started anew waits so long for the others before it goes on without them: after a power cut all come
    /// back, one after another, each with all that it had.
    pub wait_for_others: Duration,
    /// Learners of the whole cluster at a time.
    pub catching_up_max: usize,
    /// Learners that one node fills, and that one node is, at a time.
    pub catching_up_per_node_max: usize,
    /// Partitions that are on their way from one node to another, for balance alone, at a time.
    pub moves_max: usize,
    /// A partition that was changed so often within a minute is not changed for anything but to keep it served; it may have to be given a member
    /// for that, up to twice as many changes.
    pub changes_per_minute_max: usize,
    /// A partition keeps its primary at least for so long, if balance is all that another is for.
    pub handover_after: Duration,
    /// How often primaries are handed over for balance.
    pub handover_every: Duration,
    /// How many are then.
    pub handovers_max: usize,
    /// With how many nodes the cluster is founded: before so many are there, nothing is placed,
    pub expected_nodes: usize,
    /// but for no longer than this.
    pub expected_within: Duration,
    /// Commands of one plan. The next one has the rest.
    pub commands_max: usize,
}

/// What is added to a lease for the time that messages take to be looked at.
const LEASE_SLACK: Duration = Duration::from_millis(10);

/// How often clients are looked at.
pub(super) const CLIENTS_EVERY: Duration = Duration::from_secs(1);

/// How often workers are, of which there are fewer, and whose loss somebody waits for.
pub(super) const WORKERS_EVERY: Duration = Duration::from_millis(250);

impl PlannerSettings {
    pub(super) const MINUTE: Duration = Duration::from_secs(60);

    /// After how long a lease that was granted has certainly run out, if clocks differ in rate by less than a hundredth.
    pub(super) fn lease_over_after(&self) -> Duration {
        over_after(self.lease)
    }
}

/// The same of any that lasts so long.
pub(super) fn over_after(lease: Duration) -> Duration {
    lease + lease / 100 + LEASE_SLACK
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            down_after: Duration::from_millis(500),
            up_after: Duration::from_secs(1),
            lease: Duration::from_millis(500),
            client_lease: Duration::from_secs(60),
            worker_lifetime: WORKER_LIFETIME,
            report_for: Duration::from_millis(500),
            apart_for: Duration::from_secs(10),
            replace_after: Duration::from_secs(5),
            wait_for_others: Duration::from_secs(5),
            catching_up_max: 64,
            catching_up_per_node_max: 8,
            moves_max: 4,
            changes_per_minute_max: 8,
            handover_after: Duration::from_secs(2),
            handover_every: Duration::from_secs(1),
            handovers_max: 4,
            expected_nodes: 0,
            expected_within: Duration::from_secs(5),
            commands_max: 1024,
        }
    }
}
