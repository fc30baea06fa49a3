//! Ends clients that are over in the partitions that this node leads, each by an entry.
//!
//! A partition is looked through when there is news, and when this node has become its primary, or is it in another epoch: the primary
//! before may have left clients in it that were over by then.

use std::collections::BTreeMap;

use weft_protocol::ErrorReply;
use weft_transport::Time;

use crate::cluster::hosted::{Due, Hosted};
use crate::handler::NodeHandler;
use crate::limits::{CLIENT_LEASE, CLIENTS_ENDED_TOGETHER, ENDING_PAUSE};

/// How far it has come.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// When it goes on.
    next: Time,
    /// When it is looked which clients of the node's own are over.
    next_look: Time,
    /// As of which news and by which map all partitions were looked through that this node leads by it. Without more of either, no lock is taken: the
    /// thread in the background may wait for long while it has one.
    all_as_of: Option<(u64, u64)>,
    /// Of each partition, by position, as of which news and in which epoch it was looked through.
    as_of: Vec<(u64, u32)>,
}

impl NodeHandler {
    /// The coordinator has given out numbers to clients up to `last_client`, and the leases of those that have `expired` have run out. If this `is_whole`,
    /// those that are `live` have leases and no others, whatever was said before. They are the coordinator's changes, in the order of their versions;
    /// of each, this is to be told before its map is [learned](Self::learn): what a client has asked that is over by then must not be
    /// done by this node as the primary that the map makes it.
    ///
    /// The partitions that this node leads forget such clients by entries of theirs, here or by and by in the background.
    pub fn learn_clients(&self, is_whole: bool, live: &[u64], expired: &[u64], last_client: u64) {
        self.clients.learn(is_whole, live, expired, last_client);
        self.end_clients(&mut self.clients.ended.lock());
    }

    /// Sees to it that clients are over in time, and partitions forget those that are. Returns whether there was something to do.
    pub(crate) fn see_to_clients(&self, now: Time) -> bool {
        let Some(mut ended) = self.clients.ended.try_lock() else { return false };
        if now < ended.next {
            return false;
        }
        if now >= ended.next_look && self.clients.are_own() {
            ended.next_look = now + CLIENT_LEASE / 4;
            self.look_at_clients(now);
        }
        let has_more = self.end_clients(&mut ended);
        if !has_more {
            ended.next = now + ENDING_PAUSE;
        }
        has_more
    }

    fn look_at_clients(&self, now: Time) {
        let mut heard = BTreeMap::<u64, bool>::new();
        for position in self.partitions.positions() {
            for (client, is_heard) in self.partitions.lock(position).take_heard() {
                *heard.entry(client).or_default() |= is_heard;
            }
        }
        self.clients.look(&heard, now);
    }

    /// Returns whether there is more to do.
    fn end_clients(&self, ended: &mut Ended) -> bool {
        // Before anybody is looked for: what comes between is looked for again.
        let (endings, map_epoch) = (self.clients.endings(), self.partitions.map_epoch());
        if ended.all_as_of == Some((endings, map_epoch)) {
            return false;
        }
        let positions = self.partitions.positions();
        ended.as_of.resize(positions.len(), (0, 0));
        let (mut due, mut has_more, mut is_complete) = (Due::default(), false, true);
        for position in positions.filter(|position| self.partitions.leads(*position)) {
            let mut hosted = self.partitions.host(position);
            let as_of = (endings, hosted.partition.version().epoch());
            let known = &mut ended.as_of[usize::from(position)];
            // Who may not write yet is asked again.
            if hosted.may_write().is_err() {
                is_complete = false;
                continue;
            }
            if *known == as_of {
                continue;
            }
            let mut over = self.clients.over_of(hosted.partition.clients());
            let is_last = over.len() <= CLIENTS_ENDED_TOGETHER;
            over.truncate(CLIENTS_ENDED_TOGETHER);
            let is_done = end_in(&mut hosted, &over).is_ok();
            if is_done && is_last {
                *known = as_of;
            }
            is_complete &= is_done && is_last;
            has_more |= is_done && !is_last;
            if !over.is_empty() {
                hosted.settle(&self.cluster, self.now_by_both(), &mut due);
            }
        }
        self.cluster.deliver(&self.answers, &mut due);
        if is_complete {
            ended.all_as_of = Some((endings, map_epoch));
        }
        has_more
    }
}

/// # Errors
/// Why no more entries can be made now.
fn end_in(hosted: &mut Hosted, clients: &[u64]) -> Result<(), ErrorReply<'static>> {
    for client in clients {
        hosted.may_write()?;
        if hosted.partition.end_client(*client).is_err() {
            // The epoch has no more versions: there are no more mutations that could be asked for twice.
            break;
        }
        hosted.record();
    }
    Ok(())
}
