//! Finding who answers a question: the coordinators are asked one after the other, from the one that is said to lead on, until one knows.

use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use weft_protocol::AskReply;
use weft_transport::{Connection, Endpoint, NodeId, Time};

use super::coordination::Mail;
use crate::coordinator::codec::{decode_answer, encode_ask};
use crate::coordinator::{Answer, Ask, Leader};
use crate::handler::NodeHandler;
use crate::limits::{ASK_ATTEMPT, ASK_PATIENCE, ASK_PAUSE};

/// How often a node is pointed at by others before all are asked in turn again.
const HINTS_MAX: usize = 4;

impl NodeHandler {
    /// Asks the coordinators, as long as it is worth it. The answer is final, or [`Answer::Unavailable`]: then it is not known whether what was
    /// asked for was done, and the same may be asked again.
    pub async fn ask_coordinators(&self, endpoint: &Endpoint, ask: &Ask) -> Answer {
        let until = endpoint.clock().now() + ASK_PATIENCE;
        while endpoint.clock().now() < until {
            let mut hints = 0;
            let mut candidates = self.coordinator_nodes(endpoint);
            let mut leader = self.coordination.leader();
            while let Some(candidate) = candidates.pop() {
                let said = leader.as_ref().filter(|leader| leader.node == candidate);
                match self.ask_node(endpoint, candidate, said, ask).await {
                    Some(Answer::NotLeader { leader: Some(hint) }) => {
                        let node = hint.node;
                        if node != candidate && hints < HINTS_MAX {
                            hints += 1;
                            candidates.retain(|other| *other != node);
                            candidates.push(node);
                            leader = Some(hint);
                        }
                    }
                    None | Some(Answer::NotLeader { .. } | Answer::Unavailable) => {}
                    Some(answer) => return answer,
                }
            }
            endpoint.sleep_until(endpoint.clock().now() + ASK_PAUSE).await;
        }
        Answer::Unavailable
    }

    /// The nodes that may know, the most likely one last. A node that is not of the cluster yet asks whomever it is connected to: those whom it was
    /// told of may be gone, and nobody tells it of others.
    fn coordinator_nodes(&self, endpoint: &Endpoint) -> Vec<NodeId> {
        let view = self.cluster.view.lock();
        let mut nodes: Vec<NodeId> = view
            .nodes()
            .filter(|node| node.description.is_coordinator)
            .map(|node| node.id)
            .collect();
        let has_joined = view.has(self.cluster.me);
        drop(view);
        if nodes.is_empty() || !has_joined {
            let connected = endpoint.manager().connected();
            let others =
                connected.iter().map(|peer| peer.node).filter(|node| !nodes.contains(node));
            nodes = others.chain(nodes.iter().copied()).collect();
        }
        nodes.retain(|node| *node != self.node);
        nodes.push(self.node);
        if let Some(Leader { node, .. }) = self.coordination.leader() {
            nodes.retain(|other| *other != node);
            nodes.push(node);
        }
        nodes
    }

    /// One node's answer, if it gave one in time. Where there is no connection to it, one is made to where it is said to be: this node may be where the others have
    /// not heard of, and be told of some of them only.
    async fn ask_node(
        &self,
        endpoint: &Endpoint,
        node: NodeId,
        said: Option<&Leader>,
        ask: &Ask,
    ) -> Option<Answer> {
        let deadline = endpoint.clock().now() + ASK_ATTEMPT;
        if node == self.node {
            let (sender, receiver) = oneshot::channel();
            // Whoever does not wait any more is told nothing.
            let reply = Box::new(move |answer| drop(sender.send(answer)));
            let mail = Mail::Question { from: node, ask: ask.clone(), reply };
            self.coordination.coordinator.put(size_of::<Ask>(), mail).ok()?;
            return until(endpoint, deadline, receiver).await?.ok();
        }
        let connection = match endpoint.manager().connection(node) {
            Some(connection) => connection,
            None => {
                let address = said?.data_address.parse().ok()?;
                let connection = endpoint.connect(address, deadline).await.ok()?;
                Some(connection).filter(|connection| connection.peer().node == node)?
            }
        };
        ask_connection(&connection, ask, deadline).await
    }
}

/// The answer of whoever is at the other end, if it came in time.
pub(crate) async fn ask_connection(
    connection: &Connection,
    ask: &Ask,
    deadline: Time,
) -> Option<Answer> {
    let body = encode_ask(ask);
    let reply = connection.call(weft_protocol::Ask { body: &body }, deadline).await.ok()?;
    let answer = AskReply::decode(&reply).ok()?;
    decode_answer(answer.body).ok()
}

/// What `future` comes to, if it does in time.
async fn until<T>(
    endpoint: &Endpoint,
    deadline: Time,
    future: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(future), endpoint.sleep_until(deadline)).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right(_) => None,
    }
}
