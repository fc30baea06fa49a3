//! What the leader should propose.

mod balancing;
mod detecting;
mod growing;
mod memory;
mod placing;
mod repairing;
mod round;
mod seats;
mod settings;

use weft_protocol::{PartitionId, TableClass};
use weft_transport::Time;

pub use self::settings::PlannerSettings;

use self::memory::Memory;
use self::round::Round;
use super::command::Command;
use super::liveness::Liveness;
use super::state::ClusterState;

/// Plans for as long as one coordinator leads.
///
/// Beside its settings it holds only when it saw what in the state; a new leader begins with a new one. It proposes as little as it can: of a
/// partition one change at a time, and nothing where nothing is to be done.
#[derive(Debug, Clone)]
pub struct Planner {
    settings: PlannerSettings,
    memory: Memory,
}

/// What is to be proposed, all under [`ProposalId::NONE`](super::ProposalId::NONE).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are to be applied.
    pub commands: Vec<Command>,
    /// Something is to be planned as soon as members say that they know more of the state than they have said so far.
    pub awaits_word: bool,
    /// How many nodes were looked at to find places: what a plan costs, beside one look at each partition.
    pub looked_at: usize,
}

impl Planner {
    /// A planner that has seen nothing yet.
    pub fn new(settings: PlannerSettings) -> Self {
        Self { settings, memory: Memory::default() }
    }

    /// How patient it is.
    pub const fn settings(&self) -> &PlannerSettings {
        &self.settings
    }

    /// What is to be proposed now. The leader asks every heartbeat, and whenever something was committed; not while what it proposed is neither
    /// committed nor given up, or it proposes that twice, which is harmless and in vain.
    pub fn plan(&mut self, state: &ClusterState, liveness: &Liveness, now: Time) -> Plan {
        if state.cluster().is_none() {
            return Plan::default();
        }
        self.memory.observe(state, now);
        let mut round = Round::new(state, liveness, &self.settings, &self.memory, now);
        round.detect();
        round.repair();
        round.place_classes();
        round.renew_unused();
        round.trim();
        round.grow();
        round.even_out();
        let has_handed_over = round.even_out_primaries();
        round.forget();
        let mut plan = round.finish();
        if has_handed_over {
            self.memory.handed_over = now;
        }
        self.expire_clients(state, now, &mut plan.commands);
        self.expire_workers(state, now, &mut plan.commands);
        plan.commands.truncate(self.settings.commands_max);
        plan
    }

    /// What an operator's word is to be proposed as that the loss of a partition is accepted. `None` if the partition is not lost, or nobody is up who
    /// could hold it.
    pub fn accept_loss(
        state: &ClusterState,
        liveness: &Liveness,
        partition: PartitionId,
    ) -> Option<Command> {
        placing::accept_loss(state, liveness, partition)
    }

    /// Why the leader does not propose to make a table of the class as the cluster is, for people. `None` if nothing is against it.
    pub fn lacks_disks(state: &ClusterState, class: TableClass) -> Option<String> {
        placing::lacks_disks(state, class)
    }

    /// Leases last for many seconds, so one look a second at all clients does.
    fn expire_clients(&mut self, state: &ClusterState, now: Time, commands: &mut Vec<Command>) {
        if now.since(self.memory.clients_checked) < settings::CLIENTS_EVERY {
            return;
        }
        self.memory.clients_checked = now;
        let lease = settings::over_after(self.settings.client_lease);
        let silent = self.memory.silent_clients(state, lease, now);
        let expiry = |(client, renewals)| Command::ExpireClient { client, renewals };
        commands.extend(silent.into_iter().map(expiry));
    }

    /// As for clients, a new leader gives each its time anew.
    fn expire_workers(&mut self, state: &ClusterState, now: Time, commands: &mut Vec<Command>) {
        if now.since(self.memory.workers_checked) < settings::WORKERS_EVERY {
            return;
        }
        self.memory.workers_checked = now;
        let lifetime = settings::over_after(self.settings.worker_lifetime);
        let silent = self.memory.silent_workers(state, lifetime, now);
        let expiry = |(worker, renewal)| Command::ExpireWorker { worker, renewal };
        commands.extend(silent.into_iter().map(expiry));
    }
}
