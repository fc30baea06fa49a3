//! Walks through partitions for learners, a piece at a time.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use weft_protocol::limits::SNAPSHOT_PIECE_MAX;
use weft_protocol::{Member, PartitionId};
use weft_transport::Time;

use super::hosted::PIECE_HEAD;
use crate::store::{Gather, Partition, Snapshot};

/// Bytes of a piece, about: a value may make it longer.
const PIECE_BYTES: usize = 32 << 10;

/// Pieces of a partition of which nothing was heard for so long do not hold up others: that learner may take them late, or never.
const HELD_UP_FOR: Duration = Duration::from_millis(100);

/// A walk for a learner.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(super) partition: PartitionId,
    pub(super) learner: Member,
    pub(super) session: u32,
    snapshot: Snapshot,
    /// The first piece, which says which tables there are.
    has_begun: bool,
}

/// Pieces of a partition that a learner has not taken.
#[derive(Debug)]
struct Untaken {
    count: usize,
    /// When that was heard.
    heard_at: Time,
}

/// What came of going on with a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// A piece of it was given, or it was said that there are no more.
    Some,
    /// The learner has enough before it.
    Nothing,
    /// It is over: nobody wants any more of it.
    Over,
}

/// All walks of a node.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    feeds: VecDeque<Feed>,
    /// Pieces that learners have not taken yet; who has taken all is not listed.
    untaken: BTreeMap<(Member, PartitionId), Untaken>,
    feeder: Option<Waker>,
}

impl Feed {
    pub(super) fn new(
        partition: PartitionId,
        learner: Member,
        session: u32,
        snapshot: Snapshot,
    ) -> Feed {
        Feed { partition, learner, session, snapshot, has_begun: false }
    }

    /// The next piece, if there is one.
    pub(super) fn next_piece(&mut self, partition: &Partition) -> Option<Vec<u8>> {
        let mut piece = Vec::with_capacity(PIECE_HEAD);
        if !std::mem::replace(&mut self.has_begun, true) {
            piece.extend_from_slice(&self.snapshot.start().0.to_le_bytes());
            piece.extend_from_slice(self.snapshot.head());
            return Some(piece);
        }
        let mut gather = Gather::default();
        while gather.is_empty() && !self.snapshot.is_done() {
            let as_of = partition.snapshot_part(&mut self.snapshot, PIECE_BYTES, &mut gather);
            piece.clear();
            piece.extend_from_slice(&as_of.0.to_le_bytes());
        }
        debug_assert!(gather.len() + PIECE_HEAD <= SNAPSHOT_PIECE_MAX);
        gather.all().copy_to(&mut piece);
        (piece.len() > PIECE_HEAD).then_some(piece)
    }
}

impl Feeds {
    /// Begins a walk, in the place of an earlier one for the same learner.
    pub(super) fn begin(&mut self, feed: Feed) {
        self.end(feed.partition, feed.learner);
        self.feeds.push_back(feed);
        self.wake();
    }

    /// Ends a walk.
    pub(super) fn end(&mut self, partition: PartitionId, learner: Member) {
        self.feeds.retain(|feed| (feed.partition, feed.learner) != (partition, learner));
        self.untaken.remove(&(learner, partition));
        self.wake();
    }

    /// Takes one to go on with, in turn, for a node that has taken all but fewer than `untaken_max` of the pieces that it was given of any
    /// partition.
    pub(super) fn take(&mut self, untaken_max: usize, now: Time) -> Option<Feed> {
        let has_room = |feed: &Feed| self.untaken_by(feed.learner, now) < untaken_max;
        let index = self.feeds.iter().position(has_room)?;
        self.feeds.remove(index)
    }

    fn untaken_by(&self, learner: Member, now: Time) -> usize {
        let partitions = (learner, PartitionId(0))..=(learner, PartitionId(u16::MAX));
        let untaken = self.untaken.range(partitions).map(|(_, untaken)| untaken);
        let goes_on = untaken.filter(|untaken| now.since(untaken.heard_at) < HELD_UP_FOR);
        goes_on.map(|untaken| untaken.count).sum()
    }

    /// So many pieces of a partition are before a learner. To be told under the partition's lock, so that what is told last is so.
    pub(super) fn count_untaken(
        &mut self,
        partition: PartitionId,
        learner: Member,
        count: usize,
        now: Time,
    ) {
        match count {
            0 => self.untaken.remove(&(learner, partition)),
            _ => self.untaken.insert((learner, partition), Untaken { count, heard_at: now }),
        };
        self.wake();
    }

    /// Has `feeder` woken when it may be that there is something to do.
    pub(super) fn wakes(&mut self, feeder: &Waker) {
        self.feeder = Some(feeder.clone());
    }

    /// A learner may take another piece.
    pub(super) fn wake(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.wake();
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.feeds.len()
    }

    /// Gives one back, unless another has begun for the same learner.
    pub(super) fn give_back(&mut self, feed: Feed) {
        let is_new =
            |other: &Feed| (other.partition, other.learner) == (feed.partition, feed.learner);
        if !self.feeds.iter().any(is_new) {
            self.feeds.push_back(feed);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::{Incarnation, Memory, MemoryConfig, NodeId};

    use super::*;
    use crate::store::PartitionConfig;

    fn member(node: u64) -> Member {
        Member { node: NodeId(node), incarnation: Incarnation(1) }
    }

    #[test]
    fn a_node_that_has_pieces_before_it_is_left_alone_and_others_are_not() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let of = Partition::new(PartitionConfig { id: 0, epoch: 1, seed: 1, memory }).unwrap();
        let mut feeds = Feeds::default();
        for (partition, node) in [(1, 2), (2, 2), (3, 3)] {
            feeds.begin(Feed::new(PartitionId(partition), member(node), 1, of.snapshot()));
        }
        let now = Time::ZERO + Duration::from_secs(1);
        let take_at = |feeds: &mut Feeds, now| {
            let feed = feeds.take(2, now)?;
            let partition = feed.partition.0;
            feeds.give_back(feed);
            Some(partition)
        };
        let take = |feeds: &mut Feeds| take_at(feeds, now);
        feeds.count_untaken(PartitionId(1), member(2), 1, now);
        assert_eq!(take(&mut feeds), Some(1));
        feeds.count_untaken(PartitionId(2), member(2), 1, now);
        assert_eq!(
            [take(&mut feeds), take(&mut feeds)],
            [Some(3); 2],
            "2 has two of two partitions"
        );
        feeds.count_untaken(PartitionId(3), member(3), 2, now);
        assert_eq!(take(&mut feeds), None);
        feeds.count_untaken(PartitionId(1), member(2), 0, now);
        assert_eq!(take(&mut feeds), Some(2));
        feeds.count_untaken(PartitionId(2), member(2), 2, now);
        assert_eq!(take(&mut feeds), None);
        let later = now + HELD_UP_FOR;
        feeds.count_untaken(PartitionId(3), member(3), 2, later);
        assert_eq!(
            take_at(&mut feeds, later),
            Some(1),
            "2 may never be taken, which holds up 2 alone"
        );
        feeds.end(PartitionId(2), member(2));
        assert_eq!(take(&mut feeds), Some(1), "what was under way to it does not count any more");
    }
}
