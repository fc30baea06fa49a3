//! How segments with few live objects become free: what is live in them moves to the end of the log.
//!
//! Which ones first is RAMCloud's rule for memory (Rumble et al., FAST '14), after Sprite's
//! (Rosenblum and Ousterhout, SOSP '91): those that give the most bytes for a byte that has to move,
//! with more weight on what has not been written for long, since what was written lately is about to
//! die by itself. Time is counted in writes, so that the rule needs no clock.
//!
//! A segment is emptied in steps, so that whoever waits for the partition waits for one step only.
//! Between two of them anything may happen to it.

use arrayvec::ArrayVec;

use super::address::Address;
use super::error::StoreError;
use super::index::Tag;
use super::partition::Partition;
use super::segment::Segment;

/// Records that are looked up together: each lookup is a miss in the index.
const LOOKUPS: usize = 16;
/// What a step is charged for a record beside its bytes: about the time of a lookup, in bytes that could be
/// copied meanwhile.
const RECORD_COST: usize = 128;
/// What a step is charged for a dead record: a look at its header.
const DEAD_COST: usize = 16;

/// A segment that is to be emptied, and how far that has come.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    number: u32,
    birth: u64,
    /// Where the next record starts.
    offset: usize,
    worth: f64,
    is_pinned: bool,
}

impl Victim {
    fn of(number: u32, segment: &Segment, worth: f64) -> Victim {
        let (birth, is_pinned) = (segment.birth(), segment.is_pinned());
        Victim { number, birth, offset: 0, worth, is_pinned }
    }

    /// How much it gives for what it costs. The higher the better; without a unit.
    pub fn worth(&self) -> f64 {
        self.worth
    }

    /// Whether replies are being sent from it: it would stay, emptied or not.
    pub fn is_pinned(&self) -> bool {
        self.is_pinned
    }
}

/// What a step of cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Bytes of records that were moved.
    pub moved_bytes: u64,
    /// Bytes of the segment, as the memory's account counts them, if it is free by now.
    pub freed_bytes: u64,
    /// Whether nothing is left to do for this segment: it is gone, or was pinned when it was to be begun, or too large for what is free.
    pub is_done: bool,
    /// Why there is no place to move the next object to, if so. It is still where it was.
    pub refused: Option<StoreError>,
}

impl Cleaned {
    /// Whether the next step is for another segment.
    pub(crate) fn is_over(&self) -> bool {
        self.is_done || self.refused.is_some()
    }
}

/// How much of a log is live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUse {
    /// Records that are live.
    pub objects: u64,
    /// Bytes of its segments, as the memory's account counts them.
    pub bytes: u64,
    /// Bytes of the records that are live.
    pub live_bytes: u64,
    /// Bytes of all records that have died so far. As long as that stays the same, no segment has become worth more.
    pub killed_bytes: u64,
}

/// The next live records of a segment, and where the record after them starts.
struct Batch {
    live: ArrayVec<(Tag, Address, usize), LOOKUPS>,
    end: usize,
    cost: usize,
}

impl Partition {
    /// The segments of whose records at most `use_max` (0 to 1) is live, by their bytes. Those that take
    /// whatever comes are none, nor are those that could be emptied in part only. The unused end of a segment does not count: what is
    /// moved may leave as much unused again, and be moved for ever.
    pub fn victims(&self, use_max: f64) -> impl Iterator<Item = Victim> {
        let now = self.version().sequence();
        self.log.closed_segments().filter_map(move |(number, segment)| {
            let live_share = segment.live_bytes() as f64 / segment.committed() as f64;
            let age = now.saturating_sub(segment.mean_sequence()) as f64 + 1.0;
            let worth = (1.0 - live_share) * age / live_share;
            let is_one = live_share <= use_max && self.log.has_room_to_move(segment);
            is_one.then(|| Victim::of(number, segment, worth))
        })
    }

    /// The segments of which at most `use_max` (0 to 1) is used by what is live: unlike of [`victims`](Self::victims), their unused ends count.
    pub(crate) fn roomy(&self, use_max: f64) -> impl Iterator<Item = Victim> {
        self.log.closed_segments().filter_map(move |(number, segment)| {
            let use_share = segment.live_bytes() as f64 / segment.footprint() as f64;
            let is_one = use_share <= use_max && self.log.has_room_to_move(segment);
            is_one.then(|| Victim::of(number, segment, 1.0 - use_share))
        })
    }

    /// Bytes of log that writes have taken so far.
    #[inline]
    pub fn written_bytes(&self) -> u64 {
        self.log.written_bytes()
    }

    /// How much of the log is live.
    pub fn log_use(&self) -> LogUse {
        LogUse {
            objects: self.log.live_objects() as u64,
            bytes: self.log.footprint() as u64,
            live_bytes: self.log.live_bytes() as u64,
            killed_bytes: self.log.killed_bytes(),
        }
    }

    /// Moves objects out of a segment, about `budget` bytes of them, and removes those that have expired or whose table is gone.
    /// Takes what the memory keeps back, if need be. No object and no version changes.
    pub fn clean(&mut self, victim: &mut Victim, budget: usize, now_ms: u64) -> Cleaned {
        let mut cleaned = Cleaned::default();
        let mut spent = 0;
        loop {
            let Some(segment) = self.log.segment_of(victim.number, victim.birth) else {
                cleaned.is_done = true;
                self.log.hand_over_moved();
                return cleaned;
            };
            if spent >= budget {
                return cleaned;
            }
            let (footprint, is_pinned) = (segment.footprint(), segment.is_pinned());
            if victim.offset == 0 && (is_pinned || !self.log.has_room_to_move(segment)) {
                // Since it was chosen. It would take memory and give none.
                cleaned.is_done = true;
                return cleaned;
            }
            // Nobody appends behind what is moved.
            self.log.close(victim.number);
            let batch = self.next_live(victim, budget - spent);
            assert!(batch.end > victim.offset, "a segment that is there holds a live record");
            spent += batch.cost;
            for (tag, address, len) in batch.live {
                match self.move_away(tag, address, now_ms) {
                    Ok(is_moved) => cleaned.moved_bytes += if is_moved { len as u64 } else { 0 },
                    Err(refused) => {
                        // It is the first when this is tried again.
                        victim.offset = address.offset();
                        cleaned.refused = Some(refused);
                        return cleaned;
                    }
                }
            }
            victim.offset = batch.end;
            if self.log.segment_of(victim.number, victim.birth).is_none() && !is_pinned {
                cleaned.freed_bytes = footprint as u64;
            }
        }
    }

    /// Gives what is left of segments that objects were moved to, to whoever writes: for a write that no segment can be emptied for. Returns whether
    /// there was any.
    pub(crate) fn hand_over_moved(&mut self) -> bool {
        self.log.hand_over_at_last()
    }

    /// The next live records of a segment that is there, for about `budget` bytes of work, with their
    /// buckets on the way into the cache.
    fn next_live(&self, victim: &Victim, budget: usize) -> Batch {
        let mut batch = Batch { live: ArrayVec::new(), end: victim.offset, cost: 0 };
        let segment = self.log.segment(victim.number);
        for (offset, record) in segment.records_from(victim.offset) {
            batch.end = offset + record.len();
            batch.cost += DEAD_COST;
            if record.is_live() {
                let tag = self.index.tag(record.table(), record.key());
                self.index.prefetch(tag);
                batch.live.push((tag, Address::new(victim.number, offset), record.len()));
                batch.cost += RECORD_COST + record.len();
            }
            if batch.live.is_full() || batch.cost >= budget {
                break;
            }
        }
        batch
    }

    /// Moves an object to the end of the log, or removes it if it has expired. Says whether it was moved.
    fn move_away(&mut self, tag: Tag, address: Address, now_ms: u64) -> Result<bool, StoreError> {
        let found = self.index.find(tag, |found| found == address);
        let (slot, _) = found.expect("the index leads to every live record");
        let record = self.log.record(address);
        if self.is_removable(&record, now_ms) {
            self.remove_gone(slot, address);
            return Ok(false);
        }
        let ordered = self.tables.get_mut(record.table()).and_then(|table| table.ordered.as_mut());
        let place = ordered.as_ref().map(|ordered| {
            let key_of = |address| self.log.record(address).key();
            ordered.find(record.key(), key_of).expect("every key is in order")
        });
        // Live at its new place before it is dead at the old one, as with an overwrite.
        let moved = self.log.relocate(address)?;
        self.index.replace(slot, moved);
        if let (Some(ordered), Some(place)) = (ordered, place) {
            ordered.replace(place, moved);
        }
        Ok(true)
    }
}
