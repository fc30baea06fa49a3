//! Walks through partitions for learners, a piece at a time.

use std::collections::VecDeque;
use std::task::Waker;

use weft_protocol::limits::SNAPSHOT_PIECE_MAX;
use weft_protocol::{Member, PartitionId};

use super::hosted::PIECE_HEAD;
use crate::store::{Gather, Partition, Snapshot};

/// Bytes of a piece, about: a value may make it longer.
const PIECE_BYTES: usize = 32 << 10;

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

/// All walks of a node.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    feeds: VecDeque<Feed>,
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
    }

    /// Takes one to go on with, in turn.
    pub(super) fn take(&mut self) -> Option<Feed> {
        self.feeds.pop_front()
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
