//! A replica that gets a snapshot while its primary goes on.

use std::collections::VecDeque;

use weft_protocol::Version;
use weft_server::store::{ApplyError, Gather, Partition, Snapshot};

/// What is on its way to a learner, and how far it has come.
pub(crate) struct Learner {
    pub(crate) partition: Partition,
    snapshot: Snapshot,
    parts: VecDeque<(Version, Vec<u8>)>,
    entries: VecDeque<Vec<u8>>,
}

impl Learner {
    /// Begins with what a partition of another life may have left.
    pub(crate) fn new(partition: Partition, primary: &Partition) -> Learner {
        Learner::behind(primary.last_entry(), VecDeque::new(), partition, primary)
    }

    /// The same behind an entry after which there are more, all of which it is to get: where a snapshot was asked for before they were made.
    pub(crate) fn behind(
        start: Version,
        entries: VecDeque<Vec<u8>>,
        mut partition: Partition,
        primary: &Partition,
    ) -> Learner {
        let snapshot = primary.snapshot();
        partition.set_following(true);
        partition.begin_snapshot(start, snapshot.head()).unwrap();
        assert!(partition.is_learning());
        assert_eq!(partition.last_entry(), start);
        Learner { partition, snapshot, parts: VecDeque::new(), entries }
    }

    /// Takes note of an entry that was made.
    pub(crate) fn push(&mut self, entry: &[u8]) {
        self.entries.push_back(entry.to_vec());
    }

    /// Has the primary send a part.
    pub(crate) fn send_part(&mut self, primary: &Partition, budget: usize) {
        let mut part = Gather::default();
        let as_of = primary.snapshot_part(&mut self.snapshot, budget, &mut part);
        assert_eq!(as_of, primary.last_entry());
        self.parts.push_back((as_of, part.all().to_vec()));
    }

    /// Has entries arrive.
    pub(crate) fn apply_entries(&mut self, count: usize, now_ms: u64) {
        for _ in 0..count {
            let Some(entry) = self.entries.pop_front() else { return };
            self.partition.apply_entries(&entry, now_ms).unwrap();
        }
    }

    /// Has a part arrive, maybe twice. It waits for the entries that it is as new as.
    pub(crate) fn apply_part(&mut self, is_repeated: bool, now_ms: u64) {
        let Some((as_of, part)) = self.parts.pop_front() else { return };
        let last = self.partition.last_entry();
        let applied = self.partition.apply_snapshot(as_of, &part, now_ms);
        if as_of.sequence() > last.sequence() {
            assert_eq!(applied, Err(ApplyError::TooEarly { last, needed: as_of }));
            return self.parts.push_front((as_of, part));
        }
        applied.unwrap();
        if is_repeated {
            let before = self.partition.digest(now_ms);
            self.partition.apply_snapshot(as_of, &part, now_ms).unwrap();
            assert_eq!(self.partition.digest(now_ms), before);
        }
    }

    /// Has all the rest arrive, and returns the partition.
    pub(crate) fn finish(mut self, primary: &Partition, budget: usize, now_ms: u64) -> Partition {
        while !self.snapshot.is_done() {
            self.send_part(primary, budget);
        }
        self.apply_entries(usize::MAX, now_ms);
        while !self.parts.is_empty() {
            self.apply_part(false, now_ms);
        }
        self.partition.end_snapshot();
        assert!(!self.partition.is_learning());
        self.partition
    }
}
