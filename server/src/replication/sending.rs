//! Which message is next.

use weft_protocol::Member;
use weft_protocol::Version;
use weft_protocol::replication::{
    AppendEntries, Fence, Fenced, Missing, PeerMessage, SnapshotAcknowledge, SnapshotBegin,
    SnapshotEnd, SnapshotRecords, Stale, Tail, TailEntries,
};
use weft_transport::{NodeId, Time};

use super::replica::Replica;
use super::roles::Role;
use super::tenure::{Follower, Phase, Standing, Tenure};

/// An answer that waits to be sent.
#[derive(Debug)]
pub(super) enum Answer {
    Stale(Stale),
    Fenced(Fenced),
    Missing(Missing),
    Pieces(SnapshotAcknowledge),
    /// Entries behind this one, as many as a message takes.
    TailEntries {
        after: Version,
    },
}

impl Answer {
    /// Whether a newer answer to the same node says all that this one does.
    pub(super) fn is_replaced_by(&self, newer: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(newer)
    }
}

/// What a follower is to be sent.
enum Next {
    Fence,
    Tail,
    Append,
    Begin,
    Piece(u32),
    End(u32, u64),
}

impl Replica {
    /// The next message, and for whom. It is taken for sent: if it is lost with a connection, that is said by
    /// [`disconnected`](Self::disconnected) or comes out in time. It is to be sent only to the life of the node that it is for.
    pub fn poll_message(&mut self, now: Time) -> Option<(Member, PeerMessage<'_>)> {
        if self.is_failed {
            return None;
        }
        if let Some((to, answer)) = self.answers.pop_front() {
            return Some((to, self.answer_message(answer)));
        }
        let last = self.tail.last().sequence();
        let Role::Primary(tenure) = &mut self.role else { return None };
        let count = tenure.followers.len();
        let first = tenure.turn;
        let (index, next) = (first..first + count).find_map(|turn| {
            let index = turn % count;
            let next =
                due(tenure, &tenure.followers[index], last, self.settings.resend_after, now)?;
            Some((index, next))
        })?;
        tenure.turn = (index + 1) % count;
        Some(self.message(index, next, now))
    }

    fn answer_message(&self, answer: Answer) -> PeerMessage<'_> {
        match answer {
            Answer::Stale(stale) => PeerMessage::Stale(stale),
            Answer::Fenced(fenced) => PeerMessage::Fenced(fenced),
            Answer::Missing(missing) => PeerMessage::Missing(missing),
            Answer::Pieces(pieces) => PeerMessage::SnapshotAcknowledge(pieces),
            Answer::TailEntries { after } => {
                let (partition, epoch) = (self.partition, self.epoch);
                let behind = self.tail.behind(after.sequence());
                let (previous, entries) =
                    behind.unwrap_or((after, weft_protocol::replication::Entries::NONE));
                PeerMessage::TailEntries(TailEntries { partition, epoch, previous, entries })
            }
        }
    }

    /// Builds a message, and notes that it was sent.
    fn message(&mut self, index: usize, next: Next, now: Time) -> (Member, PeerMessage<'_>) {
        let (partition, epoch, committed) = (self.partition, self.epoch, self.committed);
        let tail = &self.tail;
        let Role::Primary(tenure) = &mut self.role else {
            unreachable!("only primaries have followers")
        };
        let map_version = tenure.map_version;
        let Tenure { followers, phase, .. } = &mut **tenure;
        let follower = &mut followers[index];
        let (to, session) = (follower.member, follower.session());
        let message = match next {
            Next::Fence => {
                follower.fence_sent_at = Some(now);
                PeerMessage::Fence(Fence { partition, epoch, map_version })
            }
            Next::Tail => {
                if let Phase::Adopting { asked_at, .. } = phase {
                    *asked_at = Some(now);
                }
                PeerMessage::Tail(Tail { partition, epoch, after: tail.last() })
            }
            Next::Append => {
                follower.sent = follower.sent.max(tail.base().sequence());
                let behind = tail.behind(follower.sent);
                let (previous, entries) =
                    behind.unwrap_or((tail.last(), weft_protocol::replication::Entries::NONE));
                if follower.sent <= follower.acked {
                    follower.progress_at = now;
                }
                follower.sent = previous.sequence() + u64::from(entries.count());
                (follower.must_tell, follower.told) = (false, committed);
                PeerMessage::Append(AppendEntries {
                    partition,
                    epoch,
                    previous,
                    committed,
                    session,
                    entries,
                })
            }
            Next::Begin | Next::Piece(_) | Next::End(..) => {
                let Standing::Learner(feeding) = &mut follower.standing else {
                    unreachable!("only learners are fed")
                };
                match next {
                    Next::Piece(piece) => {
                        if !feeding.waits() {
                            feeding.progress_at = now;
                        }
                        feeding.next = piece + 1;
                        let records = feeding.piece(piece).unwrap_or_default();
                        PeerMessage::SnapshotRecords(SnapshotRecords {
                            partition,
                            epoch,
                            session,
                            piece,
                            records,
                        })
                    }
                    Next::End(pieces, through) => {
                        feeding.is_end_sent = true;
                        feeding.progress_at = now;
                        let end = SnapshotEnd { partition, epoch, session, pieces, through };
                        PeerMessage::SnapshotEnd(end)
                    }
                    _ => {
                        feeding.begin_sent_at = Some(now);
                        // Whatever is committed is in the store, where the walk finds it. What is not may be lacked by another
                        // member, who could have to ask the learner for it once that is a member too: so the learner gets
                        // that as entries.
                        let all_have = tail.version_at(committed).unwrap_or(tail.base());
                        let base = *feeding.base.get_or_insert(all_have);
                        // What comes behind it is kept from now on.
                        follower.acked = base.sequence();
                        let begin = SnapshotBegin { partition, epoch, base, session };
                        PeerMessage::SnapshotBegin(begin)
                    }
                }
            }
        };
        (to, message)
    }

    /// A connection to the node is there, a first or a new one: what was not acknowledged may be lost, and is sent again.
    pub fn connected(&mut self, node: NodeId, now: Time) {
        let Role::Primary(tenure) = &mut self.role else { return };
        if let Phase::Adopting { asked_at, .. } = &mut tenure.phase {
            *asked_at = None;
        }
        let is_settled = tenure.is_settled();
        for follower in tenure.followers.iter_mut().filter(|other| other.member.node == node) {
            follower.is_connected = true;
            follower.fence_sent_at = None;
            follower.is_probed = false;
            follower.must_tell = true;
            follower.progress_at = now;
            if is_settled {
                follower.sent = follower.acked.max(self.tail.base().sequence());
            }
            if let Some(feeding) = follower.feeding_mut() {
                feeding.begin_sent_at = None;
                feeding.send_again();
            }
        }
    }

    /// There is no connection to the node any more.
    pub fn disconnected(&mut self, node: NodeId) {
        let Role::Primary(tenure) = &mut self.role else { return };
        for follower in tenure.followers.iter_mut().filter(|other| other.member.node == node) {
            follower.is_connected = false;
        }
    }
}

/// What `follower` is to be sent, if anything.
fn due(
    tenure: &Tenure,
    follower: &Follower,
    last: u64,
    resend_after: std::time::Duration,
    now: Time,
) -> Option<Next> {
    if !follower.is_connected {
        return None;
    }
    let is_due = |sent_at: Option<Time>| sent_at.is_none_or(|at| now.since(at) >= resend_after);
    match tenure.phase {
        Phase::Fencing => {
            let is_asked = follower.fenced.is_some() || !follower.is_member();
            (!is_asked && is_due(follower.fence_sent_at)).then_some(Next::Fence)
        }
        Phase::Adopting { from, asked_at, .. } => {
            (from == follower.member && is_due(asked_at)).then_some(Next::Tail)
        }
        Phase::Waiting | Phase::Serving => {
            if let Some(feeding) = follower.feeding() {
                if feeding.is_given_up {
                    return None;
                }
                if !feeding.has_begun() {
                    return is_due(feeding.begin_sent_at).then_some(Next::Begin);
                }
                if feeding.piece(feeding.next).is_some() {
                    return Some(Next::Piece(feeding.next));
                }
                if let Some((pieces, through)) = feeding.end_due() {
                    return Some(Next::End(pieces, through));
                }
            }
            let is_held_back = follower.is_probed && follower.sent > follower.acked;
            let has_more = follower.sent < last && !is_held_back;
            (has_more || follower.must_tell).then_some(Next::Append)
        }
    }
}
