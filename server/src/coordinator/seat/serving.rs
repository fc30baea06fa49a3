//! A coordinator in a node: what arrives is given to it, and what it wants is done.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use weft_protocol::Member;
use weft_protocol::replication::{Notice as NoticeMessage, PeerMessage};
use weft_transport::{Endpoint, NodeId, Sleep, Time};

use super::log_writer::LogWriter;
use super::{Coordinator, SeatEffects, SeatFailure};
use crate::cluster::coordination::{Mail, Reply};
use crate::coordinator::ask::Answer;
use crate::coordinator::codec::encode_notice;
use crate::coordinator::notice::{Notice, Update};
use crate::coordinator::raft::LogError;
use crate::handler::NodeHandler;
use crate::limits::MAIL_TOGETHER;

/// Why a coordinator has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The node is being stopped.
    Stopped,
    /// It was removed from the others. Its log is of no use any more: to be a coordinator again, the node has to be admitted.
    Removed,
    /// It cannot go on.
    Failed(SeatFailure),
}

/// What has happened.
enum Happened {
    Mail(Mail),
    Written(Result<u64, LogError>),
    Tick,
}

/// The coordinator of a node, its log, and who waits for its answers.
struct Seat<W> {
    node: Arc<NodeHandler>,
    endpoint: Endpoint,
    coordinator: Coordinator,
    log: W,
    questions: BTreeMap<u64, Reply>,
    questions_asked: u64,
}

/// Runs a coordinator on `node`, until that is stopped or the coordinator takes no part any more. The future is to be driven by one thread; it needs no
/// other, and no clock but that of `endpoint`.
pub async fn serve<W: LogWriter>(
    node: Arc<NodeHandler>,
    endpoint: Endpoint,
    coordinator: Coordinator,
    log: W,
) -> Ended {
    node.coordination.coordinator.open();
    let (questions, questions_asked) = (BTreeMap::new(), 0);
    let mut seat =
        Seat { node, endpoint: endpoint.clone(), coordinator, log, questions, questions_asked };
    loop {
        if let Some(ended) = seat.turn(endpoint.clock().now()) {
            return ended;
        }
        let mut ticking = endpoint.sleep_until(seat.coordinator.next_tick());
        let mut next = Some(poll_fn(|context| seat.poll(&mut ticking, context)).await);
        // What came together is worked off together: one entry, and one sync, do for all questions.
        for count in 1.. {
            let Some(happened) = next.take() else { break };
            seat.handle(endpoint.clock().now(), happened);
            if count < MAIL_TOGETHER {
                next = poll_fn(|context| Poll::Ready(seat.arrived(context))).await;
            }
        }
    }
}

impl<W: LogWriter> Seat<W> {
    fn poll(&mut self, ticking: &mut Sleep, context: &mut Context<'_>) -> Poll<Happened> {
        // Time first: however much arrives, a leader is heard.
        if Pin::new(ticking).poll(context).is_ready() {
            return Poll::Ready(Happened::Tick);
        }
        self.arrived(context).map_or(Poll::Pending, Poll::Ready)
    }

    /// What is there. If nothing is, the task is woken when something is.
    fn arrived(&mut self, context: &mut Context<'_>) -> Option<Happened> {
        if let Poll::Ready(written) = self.log.poll_done(context) {
            return Some(Happened::Written(written));
        }
        self.node.coordination.coordinator.take(context.waker()).map(Happened::Mail)
    }

    fn handle(&mut self, now: Time, happened: Happened) {
        match happened {
            Happened::Tick => self.coordinator.tick(now),
            Happened::Written(Ok(number)) => self.coordinator.on_written(now, number),
            Happened::Written(Err(error)) => self.coordinator.on_write_failed(error),
            Happened::Mail(Mail::Notice { from, notice }) => match notice {
                Notice::Raft(bytes) => self.coordinator.hear_raft(now, &bytes),
                Notice::Heartbeat(heartbeat) => self.coordinator.heartbeat(now, from, &heartbeat),
                // For the node, not for its coordinator.
                Notice::Update(_) => {}
            },
            Happened::Mail(Mail::Gone(member)) => self.coordinator.process_gone(now, member),
            Happened::Mail(Mail::Question { from: _, ask, reply }) => {
                self.questions_asked += 1;
                let token = self.questions_asked;
                self.questions.insert(token, reply);
                self.coordinator.ask(now, token, ask);
            }
        }
    }

    /// Does what the coordinator wants. Returns why it has ended, if it has.
    fn turn(&mut self, now: Time) -> Option<Ended> {
        let effects = self.coordinator.poll(now);
        let SeatEffects { messages, writes, answers, updates, leader, is_removed, failure } =
            effects;
        for message in messages {
            self.tell(message.node, &Notice::Raft(message.bytes));
        }
        writes.into_iter().for_each(|write| self.log.submit(write));
        // Who leads is known before anybody is told to ask there.
        if let Some(leader) = leader {
            self.node.coordination.set_leader(leader);
        }
        for (token, answer) in answers {
            if let Some(reply) = self.questions.remove(&token) {
                reply(answer);
            }
        }
        for (members, update) in updates {
            self.update(&members, update);
        }
        if let Some(failure) = failure {
            return Some(Ended::Failed(failure));
        }
        if is_removed {
            return Some(Ended::Removed);
        }
        self.node.is_stopping().then_some(Ended::Stopped)
    }

    fn update(&self, members: &[Member], update: Update) {
        let (own, linked) = (self.node.cluster.me, self.node.cluster.peers.members());
        if !members.iter().any(|member| *member == own || linked.contains(member)) {
            return;
        }
        let notice = Notice::Update(Box::new(update));
        let bytes = encode_notice(&notice);
        for member in members.iter().filter(|member| **member != own) {
            let message = PeerMessage::Notice(NoticeMessage { body: &bytes });
            self.node.cluster.peers.send(*member, message);
        }
        if let Notice::Update(update) = notice
            && members.contains(&own)
        {
            // What does not fit comes again.
            drop(self.node.coordination.updates.put(bytes.len(), update));
        }
    }

    fn tell(&self, node: NodeId, notice: &Notice) {
        let bytes = encode_notice(notice);
        let message = PeerMessage::Notice(NoticeMessage { body: &bytes });
        if self.node.cluster.peers.send_to_node(node, message) {
            return;
        }
        // Who coordinates with this node may be none of the cluster as far as the node has been told: were it not answered, there might be nobody to
        // tell it. What does not go out at once is lost, as anything may be between coordinators.
        if let Some(connection) = self.endpoint.manager().connection(node) {
            let _ = connection.for_replication().try_send(message, &mut None);
        }
    }
}

impl<W> Drop for Seat<W> {
    /// However it ends: nobody is left to wait for an answer that never comes.
    fn drop(&mut self) {
        self.node.coordination.coordinator.close();
        for reply in std::mem::take(&mut self.questions).into_values() {
            reply(Answer::Unavailable);
        }
    }
}
