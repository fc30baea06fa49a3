//! What a log has of each partition, as its frames say one after the other.
//!
//! One function, [`Holdings::apply`], serves all who have to know: the log for what it was given, what it has written, and what was synced,
//! and recovery for what it reads. So who reads comes to the same as who wrote, or notices.

use weft_protocol::{PartitionId, Version};

use super::by_partition::ByPartition;
use super::completeness::Incomplete;
use super::frame::{FrameHeader, FrameKind};
use super::roster::RosterEntry;

/// Where a frame stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) file: u64,
    pub(super) offset: u64,
}

/// A partition in the log.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// Its last entry.
    pub(super) last: Version,
    /// It takes nothing of a lower epoch.
    pub(super) epoch: u32,
    /// From here on its frames are needed: where its last complete snapshot began.
    pub(super) base: Position,
    /// Where that snapshot ended; pieces behind are of another.
    pub(super) base_end: Position,
    /// A snapshot that has not ended. It and the next are boxed since there seldom is one: what is looked at for every entry fits in a line of the cache.
    pub(super) begun: Option<Box<Begun>>,
    /// Why it is not complete.
    pub(super) broken: Option<Box<Incomplete>>,
}

/// A snapshot that has not ended.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    at: Position,
    /// How many pieces it has so far.
    pub(super) pieces: u64,
    /// Whether nothing is missing since it began.
    is_whole: bool,
}

/// All partitions of a log.
#[derive(Debug, Clone, Default)]
pub(super) struct Holdings {
    held: ByPartition<Held>,
}

impl Holdings {
    pub(super) fn get(&self, partition: PartitionId) -> Option<&Held> {
        self.held.get(partition)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PartitionId, &Held)> {
        self.held.iter()
    }

    /// The oldest file that anybody needs. What is broken keeps its files too, until it begins anew or is forgotten: they may be all that
    /// is left to look at.
    pub(super) fn oldest_needed(&self) -> Option<u64> {
        self.held.iter().map(|(_, held)| held.base.file).min()
    }

    /// Follows a frame of a partition. What does not fit to what came before breaks the partition.
    pub(super) fn apply(&mut self, header: &FrameHeader, at: Position) {
        match header.kind {
            FrameKind::AnewBegin => {
                let mut held = Held::new(header, at, Incomplete::Unfinished);
                held.begin(at);
                *self.held.slot(header.partition) = Some(held);
            }
            FrameKind::Forgotten => drop(self.held.remove(header.partition)),
            FrameKind::Roster | FrameKind::Mark | FrameKind::Close => {}
            FrameKind::Entries
            | FrameKind::Fence
            | FrameKind::SnapshotBegin
            | FrameKind::SnapshotPiece
            | FrameKind::SnapshotEnd => {
                let held = self.held.slot(header.partition);
                held.get_or_insert_with(|| Held::new(header, at, Incomplete::Unknown))
                    .apply(header, at)
            }
        }
    }

    /// Takes what the roster of file `file` says of all partitions as of its beginning. `oldest` is the oldest file there is.
    pub(super) fn apply_roster(&mut self, roster: &[RosterEntry], file: u64, oldest: u64) {
        self.held.retain(|partition| {
            roster.binary_search_by_key(&partition, |entry| entry.partition).is_ok()
        });
        for entry in roster {
            let held = self.held.slot(entry.partition).get_or_insert_with(|| {
                // Its frames are in files that are not there: removed because a snapshot was made later, which is to be seen then, or lost.
                let file = entry.base.file.min(oldest.saturating_sub(1));
                Held {
                    last: entry.last,
                    epoch: entry.epoch,
                    base: entry.base,
                    base_end: entry.base,
                    begun: None,
                    broken: Some(Box::new(Incomplete::MissingFile { file })),
                }
            });
            if held.last != entry.last {
                let at = Position { file, offset: 0 };
                held.break_off(Incomplete::Gap { file, offset: at.offset, after: held.last });
                held.last = entry.last;
            }
            held.epoch = held.epoch.max(entry.epoch);
            // A replica that is being given a snapshot is not complete, and its snapshot goes on.
            if entry.is_broken && held.broken.is_none() {
                held.break_off(Incomplete::Earlier);
            }
        }
    }

    /// Something is missing that may be of any partition.
    pub(super) fn break_all(&mut self, reason: &Incomplete) {
        self.held.values_mut().for_each(|held| held.break_off(reason.clone()));
    }

    /// Something of this partition is missing.
    pub(super) fn break_one(&mut self, partition: PartitionId, reason: Incomplete) {
        if let Some(held) = self.held.get_mut(partition) {
            held.break_off(reason);
        }
    }

    /// Snapshots that were under way when the log ended never end.
    pub(super) fn end_life(&mut self) {
        self.held.values_mut().for_each(|held| held.begun = None);
    }
}

impl Held {
    fn new(header: &FrameHeader, at: Position, broken: Incomplete) -> Held {
        let (last, epoch) = (header.last, header.epoch);
        let broken = Some(Box::new(broken));
        Held { last, epoch, base: at, base_end: at, begun: None, broken }
    }

    fn begin(&mut self, at: Position) {
        self.begun = Some(Box::new(Begun { at, pieces: 0, is_whole: true }));
    }

    fn apply(&mut self, header: &FrameHeader, at: Position) {
        match header.kind {
            FrameKind::Entries => {
                if !self.is_next(header.first) {
                    self.break_at(at);
                }
                self.last = header.last;
            }
            FrameKind::Fence => self.epoch = self.epoch.max(header.epoch),
            FrameKind::SnapshotBegin => {
                if header.last != self.last {
                    self.break_at(at);
                }
                self.last = header.last;
                self.epoch = self.epoch.max(header.epoch);
                self.begin(at);
            }
            FrameKind::SnapshotPiece => {
                if let Some(begun) = &mut self.begun {
                    begun.is_whole &= begun.pieces == header.first.0;
                    begun.pieces += 1;
                }
            }
            FrameKind::SnapshotEnd => {
                let whole = self.begun.take().filter(|begun| begun.is_whole);
                if let Some(begun) = whole.filter(|begun| begun.pieces == header.first.0) {
                    (self.base, self.base_end) = (begun.at, at);
                    // Who wrote the snapshot had all of it in memory, whatever has become of older files.
                    self.broken = None;
                }
            }
            FrameKind::AnewBegin
            | FrameKind::Forgotten
            | FrameKind::Roster
            | FrameKind::Mark
            | FrameKind::Close => {}
        }
    }

    /// Whether an entry of this version comes right after the last.
    pub(super) fn is_next(&self, first: Version) -> bool {
        first.sequence() == self.last.sequence() + 1 && first.epoch() >= self.last.epoch()
    }

    fn break_at(&mut self, at: Position) {
        let Position { file, offset } = at;
        self.break_off(Incomplete::Gap { file, offset, after: self.last });
    }

    fn break_off(&mut self, reason: Incomplete) {
        // The first reason is the cause of the others. But a snapshot that goes on would have made it whole.
        let is_on_its_way = self.begun.as_ref().is_some_and(|begun| begun.is_whole);
        match self.broken.as_deref() {
            Some(Incomplete::Unfinished) if is_on_its_way => self.broken = Some(Box::new(reason)),
            Some(_) => {}
            None => self.broken = Some(Box::new(reason)),
        }
        if let Some(begun) = &mut self.begun {
            begun.is_whole = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Damage within a snapshot is what is wrong, and not that the snapshot had not ended there.
    #[test]
    fn what_is_damaged_before_a_snapshot_has_ended_is_told_as_damaged() {
        let partition = PartitionId(3);
        let at = |offset| Position { file: 1, offset };
        let frame = |kind, first| FrameHeader {
            first: Version(first),
            ..FrameHeader::new(kind, partition)
        };
        let mut holdings = Holdings::default();
        holdings.apply(&frame(FrameKind::AnewBegin, 0), at(0));
        holdings.apply(&frame(FrameKind::SnapshotPiece, 0), at(100));
        let damage = Incomplete::Corrupt { file: 1, offset: 200 };
        holdings.break_all(&damage);
        holdings.break_all(&Incomplete::NotClosed);
        holdings.apply(&frame(FrameKind::SnapshotEnd, 2), at(300));
        assert_eq!(holdings.get(partition).unwrap().broken.as_deref(), Some(&damage));
        // One that goes on and ends is whole; one that never ended is not.
        holdings.apply(&frame(FrameKind::AnewBegin, 0), at(400));
        holdings.apply(&frame(FrameKind::SnapshotEnd, 0), at(500));
        assert_eq!(holdings.get(partition).unwrap().broken, None);
        holdings.apply(&frame(FrameKind::AnewBegin, 0), at(600));
        let broken = holdings.get(partition).unwrap().broken.as_deref();
        assert_eq!(broken, Some(&Incomplete::Unfinished));
    }
}
