//! What other nodes say, to whom it is about.

use weft_protocol::Member;
use weft_protocol::limits::ACKNOWLEDGEMENTS_MAX;
use weft_protocol::replication::{Acknowledgement, Acknowledgements, PeerMessage};
use weft_transport::NodeId;

use super::Cluster;
use super::feeding::Fed;
use super::hosted::{Due, Now};
use crate::answers::Answers;
use crate::partitions::Partitions;

impl Cluster {
    /// Handles a message of another node, or a part of one that completes it. What it leaves to be done is added to `due`.
    pub(crate) fn handle(
        &self,
        partitions: &Partitions,
        from: Member,
        message: &PeerMessage<'_>,
        now: Now,
        due: &mut Due,
    ) {
        match message {
            PeerMessage::Lease(lease) => {
                if let Some(grant) = self.leases.handle_lease(from, lease, now.time) {
                    self.peers.send(from, PeerMessage::Grant(grant));
                }
            }
            PeerMessage::Grant(grant) => self.leases.handle_grant(from, grant, now.time),
            PeerMessage::Acknowledge(told) => {
                for one in told.iter() {
                    if let Some(position) = partitions.position_of_id(one.partition) {
                        let mut hosted = partitions.host(position);
                        hosted.acknowledged(self, from, &one, now, due);
                    }
                }
            }
            PeerMessage::Part(part) => {
                let Some(whole) = self.assemblies.take(from, part) else { return };
                match PeerMessage::decode(&whole) {
                    // Only a message about a partition is sent in parts; one about parts would have no end.
                    Ok(message) if message.partition().is_some() => {
                        self.handle(partitions, from, &message, now, due);
                    }
                    Ok(_) | Err(_) => {
                        tracing::warn!(node = from.node.0, "a message that came in parts is none");
                    }
                }
            }
            _ => {
                let position = message.partition().and_then(|id| partitions.position_of_id(id));
                let Some(position) = position else { return };
                let mut hosted = partitions.host(position);
                hosted.handle(self, from, message, now, due);
                if let PeerMessage::SnapshotAcknowledge(_) = message {
                    hosted.count_untaken(self, from, now.time);
                }
            }
        }
    }

    /// Asks every node of the cluster that is connected for a lease.
    pub(crate) fn ask_for_leases(&self, now: Now) {
        let lease = self.leases.request(now.time);
        for member in self.peers.members() {
            self.peers.send(member, PeerMessage::Lease(lease));
        }
    }

    /// Has time pass for all partitions.
    pub(crate) fn tick(&self, partitions: &Partitions, now: Now, due: &mut Due) {
        for position in partitions.positions() {
            partitions.host(position).tick(self, now, due);
        }
    }

    /// There is a connection to a node, or none any more.
    pub(crate) fn peer_changed(
        &self,
        partitions: &Partitions,
        peer: Member,
        is_connected: bool,
        now: Now,
        due: &mut Due,
    ) {
        for position in partitions.positions() {
            partitions.host(position).peer_changed(self, peer, is_connected, now, due);
        }
    }

    /// There is no connection to any life of a node any more: what was to go to it, or was on its way from it, is lost.
    pub(crate) fn no_connection_to(&self, node: NodeId) {
        self.peers.lost(node);
        self.assemblies.lost(node);
    }

    /// Goes on with a walk for a learner whose node has few enough pieces before it. Returns whether there was something to do.
    pub(crate) fn feed(
        &self,
        partitions: &Partitions,
        untaken_max: usize,
        now: Now,
        due: &mut Due,
    ) -> bool {
        let count = self.feeds.lock().len();
        for _ in 0..count {
            let Some(mut feed) = self.feeds.lock().take(untaken_max, now.time) else {
                return false;
            };
            let position = partitions.position_of_id(feed.partition);
            let position = position.expect("a walk is through a partition that is here");
            let mut hosted = partitions.host(position);
            let fed = hosted.feed(self, &mut feed, now, due);
            // Under the partition's lock, by which walks begin and end: else one that ends meanwhile would be given back.
            if fed != Fed::Over {
                self.feeds.lock().give_back(feed);
            }
            if fed == Fed::Some {
                return true;
            }
        }
        false
    }

    /// Gives and sends what is due. The caller holds no partition.
    pub(crate) fn deliver(&self, answers: &Answers, due: &mut Due) {
        for answer in due.answers.drain(..) {
            answers.give(answer);
        }
        let told = &mut due.acknowledgements;
        told.sort_by_key(|(member, _)| *member);
        for of_one in told.chunk_by(|(one, _), (other, _)| one == other) {
            let to = of_one[0].0;
            for some in of_one.chunks(ACKNOWLEDGEMENTS_MAX) {
                let mut list = Vec::with_capacity(some.len() * Acknowledgement::LEN);
                some.iter().for_each(|(_, told)| told.push_to(&mut list));
                self.peers.send(to, PeerMessage::Acknowledge(Acknowledgements::written(&list)));
            }
        }
        told.clear();
    }
}
