//! How a node without a log of the coordinator's comes to be of a cluster: it finds one and joins it, or founds one with those who are there.
//!
//! This goes before the node's life: it asks under a client's id, so that two nodes that were given one id do not get in each other's way, and answers nothing
//! but who it is. A cluster is founded by the one with the lowest id, and only when everybody that it was told of has answered and is of no cluster: whoever
//! lost its disk finds the others and joins them, and never founds a second cluster beside theirs.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use thiserror::Error;
use weft_protocol::control::v1;
use weft_protocol::{AskReply, ErrorCode, ErrorReply, Member, Request};
use weft_transport::{Batch, Endpoint, Handler, IncomingKind, NodeId};

use crate::cluster::questions::ask_connection;
use crate::coordinator::codec::{decode_ask, encode_answer};
use crate::coordinator::raft::RaftId;
use crate::coordinator::{
    Answer, Ask, ClusterId, Command, Denial, DenialKind, Introduction, Join, Outcome, Proposal,
    ProposalId, Timing,
};
use crate::limits::ASK_ATTEMPT;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// How often it is said what is waited for, in attempts.
const TOLD_EVERY: u32 = 50;

/// Since when it is said why the cluster does not take the node, in attempts.
const DENIAL_TOLD_AT: u32 = 15;

/// What a node is told before it is of a cluster.
#[derive(Debug, Clone)]
pub struct Forming {
    /// Who it is, as it introduces itself. Its cluster is the one that its disk is of, if there is one.
    pub introduction: Introduction,
    /// What it presents to join.
    pub join: Join,
    /// Ids of what it proposes, drawn: for joining, and for becoming a coordinator.
    pub proposals: [ProposalId; 2],
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formed {
    /// There is no cluster, and this node is to found it.
    Founder,
    /// The node has begun its life in a cluster.
    Joined {
        /// The cluster.
        cluster: ClusterId,
        /// The time that its nodes keep.
        timing: Timing,
        /// Which member of the coordinator it is, if it is one.
        raft: Option<RaftId>,
    },
}

/// What came of an attempt to join.
enum Joining {
    Done(Formed),
    /// The cluster takes the node later, maybe.
    NotYet(Denial),
    /// Nobody who could decide has answered in time.
    Unanswered,
}

/// Why a node cannot be of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormingError {
    /// Another node has the same id.
    #[error("the node at {address} has the id {node} too: give each node its own --node-id")]
    IdTwice {
        /// The id.
        node: u64,
        /// Where the other one is.
        address: SocketAddr,
    },
    /// The disk is of one cluster, and those there are of another.
    #[error(
        "the data directory is of cluster {own}, and the node at {address} is of {other}; nothing was changed{}: give --join addresses of its own cluster, or an \
         empty --data-dir",
        if *.has_begun { " but the number of its last life" } else { "" }
    )]
    OtherCluster {
        /// What the disk says.
        own: ClusterId,
        /// What the other node says.
        other: ClusterId,
        /// Where that one is.
        address: SocketAddr,
        /// Whether a life had been written down by then.
        has_begun: bool,
    },
    /// The cluster does not take it.
    #[error("the cluster does not take this node: {0}")]
    Denied(Denial),
}

/// Answers who the node is, and refuses all else.
#[derive(Debug)]
pub struct FormingHandler(Introduction);

impl FormingHandler {
    /// Of a node that introduces itself so. What its disk says of a cluster is not told: it is not of it yet.
    pub fn new(introduction: &Introduction) -> Arc<FormingHandler> {
        Arc::new(FormingHandler(Introduction { cluster: None, ..introduction.clone() }))
    }
}

impl Handler for FormingHandler {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            let is_introduction = match Request::decode(incoming.body) {
                Ok(Request::Ask(asked)) => decode_ask(asked.body) == Ok(Ask::Introduce),
                Ok(_) | Err(_) => false,
            };
            if is_introduction {
                let body = encode_answer(&Answer::Introduced(self.0.clone()));
                batch.reply(call, AskReply { body: &body });
            } else {
                batch.reply(call, ErrorReply::new(ErrorCode::NotServing));
            }
        }
    }
}

impl Forming {
    /// Waits until the node is of a cluster, or is to found one. `endpoint` is a client's; meanwhile one with a [`FormingHandler`] listens where the
    /// node will. `seeds` gives the addresses at which others may be found, `None` for what cannot be resolved now.
    ///
    /// # Errors
    /// [`FormingError`]: waiting would be of no use.
    pub async fn run(
        &self,
        endpoint: &Endpoint,
        mut seeds: impl FnMut() -> Vec<Option<SocketAddr>>,
    ) -> Result<Formed, FormingError> {
        let mut attempts = 0_u32;
        loop {
            let seeds = seeds();
            let met = meet(&self.introduction, endpoint, &seeds).await?;
            let mut denied = None;
            for (address, introduction) in &met {
                if let Some(other) = introduction.cluster {
                    // Whoever could not be asked before may be there by now.
                    check_cluster(&self.introduction, other, *address, true)?;
                    match self.join(endpoint, *address, introduction).await? {
                        Joining::Done(formed) => return Ok(formed),
                        Joining::NotYet(denial) => denied = Some(denial),
                        Joining::Unanswered => {}
                    }
                }
            }
            if self.is_founder(&seeds, &met) {
                return Ok(Formed::Founder);
            }
            // A former life of this node is down in a moment, as a rule; another node of the same id is not.
            if let Some(denial) = denied.filter(|_| attempts % TOLD_EVERY == DENIAL_TOLD_AT) {
                tracing::warn!(%denial, "the cluster does not take this node yet");
            }
            if attempts.is_multiple_of(TOLD_EVERY) {
                tracing::info!(state = %Standing { seeds: &seeds, met: &met }, "waiting for a cluster");
                if self.lacks_coordinators(&seeds, &met) {
                    tracing::warn!(
                        "nobody here may coordinate, so there will be no cluster: start a node whose --roles include coordinator"
                    );
                }
            }
            attempts = attempts.wrapping_add(1);
            endpoint.sleep_until(endpoint.clock().now() + PAUSE).await;
        }
    }

    /// Whether this node is the one that founds: everybody has answered, nobody is of a cluster, and nobody with a lower id could do it.
    fn is_founder(&self, seeds: &[Option<SocketAddr>], met: &[(SocketAddr, Introduction)]) -> bool {
        let own = &self.introduction;
        let could_found = |(_, other): &&(_, Introduction)| other.may_coordinate;
        let lowest = met.iter().filter(could_found).map(|(_, other)| other.node).min();
        own.cluster.is_none()
            && own.may_coordinate
            && met.len() == seeds.len()
            && met.iter().all(|(_, other)| other.cluster.is_none())
            && lowest.is_none_or(|lowest| own.node <= lowest)
    }

    /// Whether everybody has answered, and none of them is of a cluster, or will ever found one.
    fn lacks_coordinators(
        &self,
        seeds: &[Option<SocketAddr>],
        met: &[(SocketAddr, Introduction)],
    ) -> bool {
        let is_of_use =
            |(_, other): &(_, Introduction)| other.may_coordinate || other.cluster.is_some();
        !self.introduction.may_coordinate && met.len() == seeds.len() && !met.iter().any(is_of_use)
    }

    /// Joins the cluster of whoever is at `address`.
    async fn join(
        &self,
        endpoint: &Endpoint,
        address: SocketAddr,
        introduction: &Introduction,
    ) -> Result<Joining, FormingError> {
        let [joining, admission] = self.proposals;
        let leader = introduction.leader.as_ref();
        let leader = leader.and_then(|leader| leader.data_address.parse().ok());
        let first = leader.unwrap_or(address);
        let join = Proposal { id: joining, command: Command::Join(self.join.clone()) };
        let (cluster, timing) = match ask_leader(endpoint, first, &Ask::Propose(join)).await {
            Some(Answer::Decided(Ok(Outcome::Joined { cluster, timing, .. }))) => (cluster, timing),
            Some(Answer::Decided(Err(denial))) => match denial.kind {
                DenialKind::NotYet => return Ok(Joining::NotYet(denial)),
                _ => return Err(FormingError::Denied(denial)),
            },
            answer => {
                tracing::debug!(?answer, %first, "the cluster does not take this node yet");
                return Ok(Joining::Unanswered);
            }
        };
        let mut raft = None;
        if self.introduction.may_coordinate {
            let admit = Ask::Admit { id: admission, node: self.join.node };
            match ask_leader(endpoint, first, &admit).await {
                Some(Answer::Admitted { raft: member, .. }) => raft = Some(member),
                Some(Answer::Decided(Err(denial))) if denial.kind != DenialKind::NotYet => {
                    tracing::info!(%denial, "this node is no coordinator");
                }
                _ => return Ok(Joining::Unanswered),
            }
        }
        Ok(Joining::Done(Formed::Joined { cluster, timing, raft }))
    }
}

/// Where another process is this node in an earlier life than `me`, which whoever leads has heard in the last `heard_within`. Nobody if there is no leader, and so
/// nobody who would take this process for it. Asked from a client's endpoint.
pub async fn lives_elsewhere(
    me: Member,
    endpoint: &Endpoint,
    met: &[(SocketAddr, Introduction)],
    heard_within: Duration,
) -> Option<String> {
    let is_other = |node: &v1::Node| {
        let is_earlier =
            |member: &v1::Member| member.node == me.node.0 && member.incarnation < me.incarnation.0;
        let heard_ago = node.heard_ms_ago.map(Duration::from_millis);
        node.member.as_ref().is_some_and(is_earlier)
            && heard_ago.is_some_and(|ago| ago <= heard_within)
    };
    // Twice, since a machine that is busy may answer late.
    for (address, _) in met.iter().chain(met) {
        if let Some(Answer::Status(status)) = ask_leader(endpoint, *address, &Ask::Status).await {
            return status.nodes.into_iter().find(is_other).map(|node| node.data_address);
        }
    }
    None
}

/// Asks once, from a client's endpoint, who is there, and refuses to be where others are that a node which introduces itself as `own` cannot be with. Nobody is
/// told of a life of the node, so it need not have begun one.
///
/// # Errors
/// [`FormingError::IdTwice`], [`FormingError::OtherCluster`].
pub async fn look_around(
    own: &Introduction,
    endpoint: &Endpoint,
    seeds: &[Option<SocketAddr>],
) -> Result<Vec<(SocketAddr, Introduction)>, FormingError> {
    let met = meet(own, endpoint, seeds).await?;
    for (address, introduction) in &met {
        if let Some(other) = introduction.cluster {
            check_cluster(own, other, *address, false)?;
        }
    }
    Ok(met)
}

/// Who is there. All are asked at once. Another node of the same id is an error.
async fn meet(
    own: &Introduction,
    endpoint: &Endpoint,
    seeds: &[Option<SocketAddr>],
) -> Result<Vec<(SocketAddr, Introduction)>, FormingError> {
    let mut met = Vec::new();
    let asking = seeds
        .iter()
        .flatten()
        .map(async |address| (address, ask_address(endpoint, *address, &Ask::Introduce).await));
    for (address, answer) in join_all(asking).await {
        let Some(Answer::Introduced(introduction)) = answer else { continue };
        if introduction.node == own.node && introduction.nonce != own.nonce {
            return Err(FormingError::IdTwice { node: own.node.0, address: *address });
        }
        met.push((*address, introduction));
    }
    Ok(met)
}

/// Refuses another cluster than the one that the disk is of.
fn check_cluster(
    own: &Introduction,
    other: ClusterId,
    address: SocketAddr,
    has_begun: bool,
) -> Result<(), FormingError> {
    match own.cluster {
        Some(own) if own != other => {
            Err(FormingError::OtherCluster { own, other, address, has_begun })
        }
        _ => Ok(()),
    }
}

/// The answer of whoever is at an address, if it gave one in time.
async fn ask_address(endpoint: &Endpoint, address: SocketAddr, ask: &Ask) -> Option<Answer> {
    let deadline = endpoint.clock().now() + ASK_ATTEMPT;
    let connected = endpoint.connect(address, deadline).await;
    let connection =
        connected.inspect_err(|error| tracing::debug!(%address, %error, "nobody answers")).ok()?;
    ask_connection(&connection, ask, deadline).await
}

/// The same of whoever leads, which the one at `address` knows.
async fn ask_leader(endpoint: &Endpoint, address: SocketAddr, ask: &Ask) -> Option<Answer> {
    let answer = ask_address(endpoint, address, ask).await?;
    let Answer::NotLeader { leader: Some(leader) } = &answer else { return Some(answer) };
    match leader.data_address.parse() {
        Ok(other) if other != address => ask_address(endpoint, other, ask).await,
        Ok(_) | Err(_) => Some(answer),
    }
}

/// Who is there and who is not, for people.
struct Standing<'s> {
    seeds: &'s [Option<SocketAddr>],
    met: &'s [(SocketAddr, Introduction)],
}

impl fmt::Display for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there: BTreeSet<NodeId> = self.met.iter().map(|(_, other)| other.node).collect();
        write!(f, "{} of {} addresses answer", self.met.len(), self.seeds.len())?;
        for node in there {
            write!(f, ", {node}")?;
        }
        let is_silent = |address: &&SocketAddr| self.met.iter().all(|(met, _)| met != *address);
        for address in self.seeds.iter().flatten().filter(is_silent) {
            write!(f, "; no answer from {address}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::Incarnation;

    use super::*;
    use crate::coordinator::NodeDescription;

    fn introduction(node: u64, may_coordinate: bool, cluster: Option<u128>) -> Introduction {
        let (node, cluster) = (NodeId(node), cluster.map(ClusterId));
        Introduction { node, nonce: node.0, cluster, may_coordinate, leader: None }
    }

    fn forming(may_coordinate: bool) -> Forming {
        Forming {
            introduction: introduction(1, may_coordinate, None),
            join: Join {
                cluster: None,
                node: NodeId(1),
                incarnation: Incarnation(1),
                last_incarnation: None,
                complete: Vec::new(),
                wire_version: 1,
                description: NodeDescription {
                    data_address: String::new(),
                    control_address: String::new(),
                    zone: String::new(),
                    capacity_bytes: 1,
                    is_coordinator: may_coordinate,
                    is_diskless: false,
                },
            },
            proposals: [ProposalId(1), ProposalId(2)],
        }
    }

    #[test]
    fn a_cluster_that_nobody_will_ever_found_is_told_from_one_that_is_not_there_yet() {
        let address: SocketAddr = "10.0.0.2:7400".parse().unwrap();
        let seeds = [Some(address)];
        let lacks =
            |own, met: &[(SocketAddr, Introduction)]| forming(own).lacks_coordinators(&seeds, met);
        assert!(lacks(false, &[(address, introduction(2, false, None))]));
        assert!(!lacks(true, &[(address, introduction(2, false, None))]));
        assert!(!lacks(false, &[(address, introduction(2, true, None))]));
        assert!(!lacks(false, &[(address, introduction(2, false, Some(7)))]));
        // Who has not answered may be the one.
        assert!(!lacks(false, &[]));
    }
}
