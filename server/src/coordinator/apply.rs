//! What each command does: all that it asks for, or nothing and the reason.

mod client;
mod membership;
mod partition;
mod placement;
mod table;
mod worker;

use weft_transport::NodeId;

use super::command::{Applied, Command, Found, Outcome, Proposal};
use super::rejection::Rejection;
use super::state::ClusterState;
use crate::limits::PARTITIONS_PER_CLASS_MAX;

/// Storage nodes have ids of 16 bits: those above are drawn by clients.
const NODE_ID_MAX: NodeId = NodeId(u16::MAX as u64);

impl ClusterState {
    /// Does what the proposal asks for, or changes nothing and says why. A proposal that was accepted before is answered as it was then.
    ///
    /// # Errors
    ///
    /// The [`Rejection`].
    pub fn apply(&mut self, proposal: &Proposal) -> Applied {
        if let Some(outcome) = self.proposals.outcome(proposal.id) {
            return Ok(outcome.clone());
        }
        let outcome = self.apply_command(&proposal.command)?;
        // What holds for a while may well be renewed twice, and the answers would take much room.
        let is_renewal =
            matches!(proposal.command, Command::RenewClients { .. } | Command::RenewWorker { .. });
        if !is_renewal {
            self.proposals.remember(proposal.id, outcome.clone());
        }
        Ok(outcome)
    }

    fn apply_command(&mut self, command: &Command) -> Applied {
        if !matches!(command, Command::Found(_)) {
            self.founded()?;
        }
        match command {
            Command::Found(found) => self.found(found),
            Command::Join(join) => self.join(join),
            Command::Leave { node } => self.leave(*node),
            Command::Stay { node } => self.stay(*node),
            Command::Forget { member } => self.forget(*member),
            Command::MarkDown { member } => self.mark(*member, false),
            Command::MarkUp { member } => self.mark(*member, true),
            Command::Settle { member } => self.settle(*member),
            Command::Place { class, partitions } => self.place(*class, partitions),
            Command::Reconfigure { partition, expected_epoch, next } => {
                self.reconfigure(*partition, *expected_epoch, next)
            }
            Command::AddLearner { partition, expected_epoch, learner } => {
                self.add_learner(*partition, *expected_epoch, *learner)
            }
            Command::PromoteLearner { partition, expected_epoch, learner } => {
                self.promote_learner(*partition, *expected_epoch, *learner)
            }
            Command::RemoveMember { partition, expected_epoch, member } => {
                self.remove_member(*partition, *expected_epoch, *member)
            }
            Command::DeclareLost { partition, expected_epoch } => {
                self.declare_lost(*partition, *expected_epoch)
            }
            Command::AcceptLoss { partition, expected_epoch, members } => {
                self.accept_loss(*partition, *expected_epoch, members)
            }
            Command::CreateTable { name, options } => self.create_table(name, *options),
            Command::DropTable { name } => self.drop_table(name),
            Command::AlterTable { name, change } => self.alter_table(name, *change),
            Command::OpenClient => self.open_client(),
            Command::RenewClients { clients } => self.renew_clients(clients),
            Command::ExpireClient { client, renewals } => self.expire_client(*client, *renewals),
            Command::RegisterWorker { former, description } => {
                self.register_worker(*former, description)
            }
            Command::RenewWorker { worker } => self.renew_worker(*worker),
            Command::UnregisterWorker { worker } => self.unregister_worker(*worker),
            Command::ExpireWorker { worker, renewal } => self.expire_worker(*worker, *renewal),
        }
    }

    fn found(&mut self, found: &Found) -> Applied {
        match self.cluster {
            Some(cluster) if cluster == found.cluster => return Ok(Outcome::Done),
            Some(cluster) => return Err(Rejection::AlreadyFounded { cluster }),
            None => {}
        }
        let count = found.partitions_per_class;
        if !(1..=PARTITIONS_PER_CLASS_MAX).contains(&count) {
            return Err(Rejection::PartitionCount { count: usize::from(count) });
        }
        let catalog = Self::first_catalog(found.default_table)?;
        self.cluster = Some(found.cluster);
        self.wire_version = found.wire_version;
        self.partitions_per_class = count;
        self.timing = found.timing;
        self.is_kept = found.is_kept;
        self.replace_catalog(catalog);
        Ok(Outcome::Done)
    }
}
