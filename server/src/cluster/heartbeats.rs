//! What a node and the coordinators tell each other: that it is there, and what was committed.

#[cfg(test)]
mod tests;

use std::task::Waker;

use weft_protocol::PartitionId;
use weft_protocol::replication::{Notice as NoticeMessage, PeerMessage};
use weft_transport::NodeId;

use super::view::Learned;
use crate::coordinator::codec::encode_notice;
use crate::coordinator::{Heartbeat, Notice, Update};
use crate::handler::NodeHandler;
use crate::limits::REPORTS_PER_HEARTBEAT_MAX;
use crate::logs::Logs;

impl NodeHandler {
    /// Says to all coordinators that this node is there, and what they are to act on. All of them: whoever leads next then knows who was silent.
    pub(crate) fn send_heartbeats(&self) {
        let Some(cluster) = self.coordination.cluster() else { return };
        let view = self.cluster.view.lock();
        let known_version = view.version();
        let coordinators = view.nodes().filter(|node| node.description.is_coordinator);
        let mut receivers: Vec<NodeId> = coordinators.map(|node| node.id).collect();
        let presided = view.presided_by(self.cluster.me);
        drop(view);
        // By what is known of the cluster, and not by what is held: that comes later, or not at all.
        let serves = |id: &PartitionId| {
            let position = self.partitions.position_of_id(*id);
            position.is_some_and(|position| self.partitions.host(position).serves())
        };
        let unserved = presided.into_iter().filter(|id| !serves(id)).collect();
        if known_version == 0 {
            receivers.extend(self.cluster.peers.members().iter().map(|member| member.node));
        }
        let (mut told, _) = self.reports(Waker::noop());
        // What is left is told when this has been acted on.
        told.truncate(REPORTS_PER_HEARTBEAT_MAX);
        let member = self.cluster.me;
        let has_failed = self.logs().is_some_and(Logs::has_failed);
        let heartbeat = Heartbeat { cluster, member, known_version, told, has_failed, unserved };
        let heartbeat = Notice::Heartbeat(heartbeat);
        let body = encode_notice(&heartbeat);
        for to in receivers.iter().filter(|to| **to != self.node) {
            self.cluster
                .peers
                .send_to_node(*to, PeerMessage::Notice(NoticeMessage { body: &body }));
        }
        // Nobody takes it where there is no coordinator.
        self.coordination.hear(member, body.len(), heartbeat);
    }

    /// Goes by what was committed. That somebody is down is answered at once: nothing is done about it before those that are left say that they know
    /// (`outlive` in `server/src/coordinator/planner/repairing.rs`).
    pub(crate) fn take_in(&self, update: Update) {
        let learned = match self.cluster.view.lock().take_in(update) {
            Ok(Some(learned)) => learned,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "the coordinator says what cannot be");
                return;
            }
        };
        // First, so that whoever becomes primary by the map knows what its partitions are to have.
        if let Some(catalog) = &learned.catalog
            && let Err(error) = self.learn_catalog(catalog)
        {
            tracing::error!(%error, "the tables take more memory than there is");
        }
        let Learned {
            map, placements, is_whole, clients, expired, last_client, is_one_down, ..
        } = learned;
        // Before the map: this node may be made somebody's primary by that.
        self.learn_clients(is_whole, &clients, &expired, last_client);
        if let Err(error) = self.learn(map, &placements) {
            tracing::error!(%error, "this node does not hold all partitions that it is to");
        }
        if is_one_down {
            self.send_heartbeats();
        }
    }
}
