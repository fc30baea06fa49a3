//! Memory that requests are worked off in, beside what they store and what their replies are sent from: counted before it is taken.
//!
//! It is bounded by what a request can ask for, so nothing is refused for want of it: a node keeps back enough for one, and
//! who finds no other room waits for a turn at that.

use parking_lot::{Mutex, MutexGuard};
use weft_protocol::limits::{
    FIELDS_MAX, KEY_MAX, MULTI_KEYS_MAX, REQUEST_VALUE_MAX, SCAN_OBJECTS_MAX, SCAN_PAGE_BYTES,
    TABLE_NAME_MAX, TABLES_MAX,
};
use weft_protocol::{FieldChange, ReplyHead, TableEntry};
use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{Charge, Memory, MemoryError, Purpose, Reserve, Taken};

use crate::limits::{COPY_MAX, PART_BYTES, RANGE_KEYS_BYTES};

/// What a request puts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A part of the reply to a multi-operation.
    Part,
    /// A page of a scan.
    Page,
    /// A page of a range, and the keys among which its first ones are looked for.
    Range,
    /// A record with some of its fields changed.
    Record,
    /// A catalog, or what its tables hold.
    Tables,
}

/// A buffer that doubles has up to so many times its bytes.
const DOUBLING: usize = 2;

/// The longest parts: heads without values for all keys that there may be, or values up to where a part is sent.
const PART_MAX: usize = {
    let (heads, values) = ((1 + MULTI_KEYS_MAX) * ReplyHead::LEN, PART_BYTES + 2 * COPY_MAX);
    DOUBLING * if heads > values { heads } else { values }
};

/// What is noted of a key of a range: where it is, and its tag in the index.
const RANGE_ENTRY_BYTES: usize = 48;

/// A page, the keys that are looked through, those of them that are first, and what is noted of both.
const RANGE_MAX: usize = SCAN_PAGE_BYTES
    + RANGE_KEYS_BYTES
    + (SCAN_PAGE_BYTES + KEY_MAX)
    + 2 * SCAN_OBJECTS_MAX * RANGE_ENTRY_BYTES;

/// The longest record, and lists of its fields, of those that change, and of the two together.
const RECORD_MAX: usize = REQUEST_VALUE_MAX + 4 * FIELDS_MAX * size_of::<FieldChange<'_>>();

/// A catalog, and lists of what is made, altered and dropped.
const TABLES_BYTES: usize = DOUBLING * TABLES_MAX * (size_of::<TableEntry>() + TABLE_NAME_MAX);

impl Use {
    const ALL: [Use; 5] = [Use::Part, Use::Page, Use::Range, Use::Record, Use::Tables];

    /// The most that it takes, in bytes.
    const fn bytes(self) -> usize {
        match self {
            Use::Part => PART_MAX,
            Use::Page => MESSAGE_MAX,
            Use::Range => RANGE_MAX,
            Use::Record => RECORD_MAX,
            Use::Tables => TABLES_BYTES,
        }
    }
}

/// The part of the network's memory, without what is reserved, that is left for frames: a connection whose frames find none is lost.
const LEFT_SHARE: u64 = 2;

/// What is kept back: enough for any one request.
const KEPT_BACK_BYTES: usize = {
    let (mut most, mut at) = (0, 0);
    while at < Use::ALL.len() {
        let bytes = Use::ALL[at].bytes();
        most = if bytes > most { bytes } else { most };
        at += 1;
    }
    most
};

/// Where room for it comes from.
#[derive(Debug)]
pub(crate) struct Scratch {
    network: Memory,
    turn: Mutex<()>,
    kept_back: Reserve,
}

/// Room for one use. The buffers that it is for are gone before it is.
#[derive(Debug)]
pub(crate) struct Room<'n> {
    use_: Use,
    place: Place<'n>,
}

#[derive(Debug)]
enum Place<'n> {
    Counted {
        _charge: Charge,
    },
    /// Given up in this order.
    KeptBack {
        _taken: Taken<'n>,
        _turn: MutexGuard<'n, ()>,
    },
}

impl Scratch {
    /// Keeps back what one request needs, of `network`.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`].
    pub(crate) fn new(network: Memory) -> Result<Scratch, MemoryError> {
        let kept_back = network.reserve(KEPT_BACK_BYTES as u64, Purpose::Scratch)?;
        Ok(Scratch { network, turn: Mutex::new(()), kept_back })
    }

    /// Room for `use_`, of the network's memory, if there is plenty left of that, or, in turn with others, of what is kept back. The
    /// caller may hold no partition's lock, which whoever has the turn may wait for.
    pub(crate) fn room(&self, use_: Use) -> Room<'_> {
        let bytes = use_.bytes() as u64;
        let counted = if self.network.can_spare(bytes, LEFT_SHARE) {
            self.network.charge(bytes, Purpose::Scratch).ok()
        } else {
            None
        };
        let place = match counted {
            Some(charge) => Place::Counted { _charge: charge },
            None => {
                let turn = self.turn.lock();
                Place::KeptBack { _taken: self.kept_back.take(), _turn: turn }
            }
        };
        Room { use_, place }
    }
}

impl Room<'_> {
    /// What it is for.
    pub(crate) fn use_(&self) -> Use {
        self.use_
    }

    /// Whether it is what is kept back.
    pub(crate) fn is_kept_back(&self) -> bool {
        matches!(self.place, Place::KeptBack { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::memory::NodeMemory;

    #[test]
    fn who_finds_no_room_takes_turns() {
        let memory = NodeMemory::divide(64 << 20).unwrap();
        let scratch = Scratch::new(memory.network.clone()).unwrap();
        let kept_back = memory.allocated_for(Purpose::Scratch);
        let counted = scratch.room(Use::Part);
        let both = memory.allocated_for(Purpose::Scratch);
        assert_eq!(both, kept_back + Use::Part.bytes() as u64);
        let half = memory.network.free_bytes() / LEFT_SHARE;
        let heap_bytes = || memory.network.account().heap_bytes;
        let heap_before = heap_bytes();
        let taken = memory.network.charge(half, Purpose::Send).unwrap();
        let has_turn = AtomicBool::new(false);
        assert_eq!(heap_bytes(), heap_before + half, "what is kept back is not taken");
        std::thread::scope(|scope| {
            let first = scratch.room(Use::Range);
            let (scratch, has_turn) = (&scratch, &has_turn);
            let second = scope.spawn(move || {
                let second = scratch.room(Use::Record);
                assert!(has_turn.load(Ordering::Relaxed), "two have the turn");
                drop(second);
            });
            assert_eq!(memory.allocated_for(Purpose::Scratch), both);
            assert_eq!(heap_bytes(), heap_before + half + KEPT_BACK_BYTES as u64, "it is taken");
            has_turn.store(true, Ordering::Relaxed);
            drop(first);
            second.join().unwrap();
        });
        drop((taken, counted));
        assert_eq!(memory.allocated_for(Purpose::Scratch), kept_back);
    }

    /// A connection whose frames find no memory is lost, so half of what is for frames stays theirs.
    #[test]
    fn frames_keep_their_half() {
        let memory = NodeMemory::divide(64 << 20).unwrap();
        let scratch = Scratch::new(memory.network.clone()).unwrap();
        let rooms = std::iter::from_fn(|| Some(scratch.room(Use::Record)));
        let rooms: Vec<_> = rooms.take_while(|room| !room.is_kept_back()).collect();
        assert!(!rooms.is_empty());
        let account = memory.network.account();
        assert!(account.free_bytes() >= account.shared_bytes() / LEFT_SHARE);
    }
}
