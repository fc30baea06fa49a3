//! Edges, in parts by one of their ends.
//!
//! What is looked up for an end, or added to it, lies in a table that no cache has room for; waiting for memory would be half of what loading takes. A part of that
//! table fits into a core's cache while all edges that ask for it are gone through, as in the radix joins of databases (Manegold, Boncz, Kersten, VLDB 2000).
//! And of edges that memory has no room for, a part is read at a time, as in joins by hash with partitions on disk (GRACE: Kitsuregawa, Tanaka, Moto-oka, 1983).

use std::rc::Rc;

use weft_object::Wire;

use super::pieces::Pieces;
use crate::budget::{Budget, Required};
use crate::error::JobError;
use crate::spill::{Run, SpillFile, Spilling};

const PARTS_BITS: u32 = 8;

/// Into how many parts edges are put: so many that rows of a part, of the tens of millions of edges that a worker may have, fit into the cache of a core, and so few that it has the ends of all parts, too.
pub(super) const PARTS: usize = 1 << PARTS_BITS;

/// The longest piece that stays in memory: with all that are not full, in the cache of a core, with as much beside it.
const KEPT_LEN: usize = 256;

/// The longest piece: what is written to a file at once.
pub(super) const PIECE_LEN: usize = 2048;

/// The shortest piece, however little memory there is: a page of a file, nearly.
const PIECE_LEN_MIN: usize = 64;

/// The part of an identifier. With [`place_of`], no two have the same; and identifiers that are alike in their last digits are in as many parts as others.
#[inline(always)]
pub(super) fn part_of(identifier: u64) -> usize {
    (identifier as usize ^ mixed(place_of(identifier))) % PARTS
}

/// Which of its part an identifier is, were all below it there.
#[inline(always)]
pub(super) fn place_of(identifier: u64) -> u64 {
    identifier >> PARTS_BITS
}

/// The identifier of a part that has such a place.
#[inline(always)]
pub(super) fn identifier_at(part: usize, place: u64) -> u64 {
    place << PARTS_BITS | ((part ^ mixed(place)) % PARTS) as u64
}

/// The golden ratio, by which Knuth multiplies: the first bits of the product depend on all bits.
fn mixed(place: u64) -> usize {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PARTS_BITS)) as usize
}

/// Records in parts, of which each has them in the order in which they came. Those of a part are put together in a *piece*, which stays in the cache until it is full: then it goes to others
/// in memory, as long as the budget has room, up to half of it, and behind that to a file, from which it is read when it is its part's turn.
pub(super) struct Parts<T> {
    spilling: Spilling,
    /// The last piece of each part.
    filling: Vec<Vec<T>>,
    /// For all of these, when they are as long as what is written at once.
    required: Required,
    /// How long a piece is that goes to others in memory, or to the file.
    piece_len: usize,
    full: Pieces<T>,
    /// The numbers of those of each part.
    numbers: Vec<Vec<u32>>,
    file: SpillFile<T>,
    /// What is in the file of each part. Once there is anything, everything goes there, so that the order stays.
    written: Vec<WrittenPart>,
    /// How long a piece is that goes there.
    written_len: usize,
    has_spilled: bool,
}

/// The records of a part that are in a file.
#[derive(Clone, Default)]
struct WrittenPart {
    runs: Vec<Run>,
    records: usize,
}

/// The records of a part, in memory.
pub(super) struct Part<T> {
    full: Rc<Pieces<T>>,
    numbers: Vec<u32>,
    /// What was in a file, and the last piece.
    pieces: Vec<Vec<T>>,
    required: Vec<Required>,
}

impl<T: Wire> Parts<T> {
    /// None yet.
    ///
    /// # Errors
    /// There is no memory for a piece of each part.
    pub(super) fn new(spilling: &Spilling) -> Result<Parts<T>, JobError> {
        let record_bytes = size_of::<T>();
        // An eighth of the memory for pieces that are not full.
        let piece_bytes = spilling.budget.share() as usize / 4 / PARTS;
        let written_len = (piece_bytes / record_bytes).clamp(PIECE_LEN_MIN, PIECE_LEN);
        let piece_len = written_len.min(KEPT_LEN);
        let filling_bytes = PARTS * written_len * record_bytes;
        Ok(Parts {
            filling: (0..PARTS).map(|_| Vec::new()).collect(),
            required: spilling.budget.require(filling_bytes as u64)?,
            piece_len,
            full: Pieces::new(piece_len),
            numbers: vec![Vec::new(); PARTS],
            file: SpillFile::new(spilling.clone()),
            written: vec![WrittenPart::default(); PARTS],
            written_len,
            has_spilled: false,
            spilling: spilling.clone(),
        })
    }

    #[inline(always)]
    pub(super) fn push(&mut self, part: usize, record: T) -> Result<(), JobError> {
        let piece = &mut self.filling[part];
        piece.push(record);
        if piece.len() == self.piece_len { self.end_piece(part) } else { Ok(()) }
    }

    #[cold]
    fn end_piece(&mut self, part: usize) -> Result<(), JobError> {
        let (piece, budget) = (&mut self.filling[part], &self.spilling.budget);
        let kept = (!self.has_spilled).then(|| self.full.push(piece, budget)).flatten();
        match kept {
            Some(number) => self.numbers[part].push(number),
            None => {
                self.has_spilled = true;
                self.piece_len = self.written_len;
                let (mut run, written) = (self.file.begin(), &mut self.written[part]);
                piece.iter().try_for_each(|record| run.push(record))?;
                written.runs.push(run.finish()?);
                written.records += piece.len();
            }
        }
        piece.clear();
        Ok(())
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        let full = self.full.records();
        let written: usize = self.written.iter().map(|part| part.records).sum();
        full + written + self.filling.iter().map(Vec::len).sum::<usize>()
    }

    /// The parts, one after the other.
    pub(super) fn into_parts(self) -> impl Iterator<Item = Result<Part<T>, JobError>> {
        let Parts { spilling, filling, required, full, numbers, file, written, .. } = self;
        let (full, written_len) = (Rc::new(full), self.written_len);
        numbers.into_iter().zip(written).zip(filling).map(move |((numbers, written), last)| {
            // Until the last part is gone.
            let _ = &required;
            let read_bytes = written.records * size_of::<T>();
            let required = vec![spilling.budget.require(read_bytes as u64)?];
            let mut pieces = Vec::with_capacity(written.runs.len() + 1);
            for run in written.runs {
                let (mut reader, mut piece) = (file.read(run), Vec::with_capacity(written_len));
                while reader.read_some(written_len, &mut piece)? > 0 {}
                pieces.push(piece);
            }
            pieces.push(last);
            Ok(Part { full: Rc::clone(&full), numbers, pieces, required })
        })
    }
}

impl<T: Copy> Part<T> {
    /// Its records, in order.
    pub(super) fn records(&self) -> impl Iterator<Item = T> + Clone {
        let full = self.numbers.iter().map(|number| self.full.get(*number));
        full.chain(self.pieces.iter().map(Vec::as_slice)).flatten().copied()
    }

    /// Adds records behind the others.
    ///
    /// # Errors
    /// Memory has no room for them.
    pub(super) fn append(
        &mut self,
        records: impl Iterator<Item = T>,
        budget: &Budget,
    ) -> Result<(), JobError> {
        let piece: Vec<T> = records.collect();
        self.required.push(budget.require(size_of_val(&piece[..]) as u64)?);
        self.pieces.push(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_object::Types;

    use super::*;

    #[test]
    fn records_are_in_the_part_that_they_were_put_in_whether_memory_has_room_or_not() {
        for (room_bytes, is_spilled) in [(256 << 20, false), (2 << 20, true), (0, true)] {
            let spilling = Spilling::with_room(room_bytes, Types::new().with::<u64>());
            let mut parts = Parts::new(&spilling).unwrap();
            let count = 64 * PIECE_LEN as u64;
            for number in 0..count {
                parts.push(7, number).unwrap();
                parts.push(number as usize % 2, number).unwrap();
            }
            assert_eq!(parts.len() as u64, 2 * count);
            assert_eq!(spilling.bytes_spilled() > 0, is_spilled, "room for {room_bytes}");
            let found: Vec<Vec<u64>> =
                parts.into_parts().map(|part| part.unwrap().records().collect()).collect();
            assert_eq!(found.len(), PARTS);
            assert!(found[7].iter().copied().eq(0..count));
            assert!(found[1].iter().copied().eq((1..count).step_by(2)));
        }
    }

    #[test]
    fn records_that_were_damaged_in_their_file_are_an_error() {
        let types = Types::new().with::<u64>();
        let spilling = Spilling::with_room(0, types);
        let mut parts = Parts::new(&spilling).unwrap();
        (0..10 * PIECE_LEN_MIN as u64).for_each(|number| parts.push(3, number).unwrap());
        parts.file.damage(4000);
        let found: Vec<bool> = parts.into_parts().map(|part| part.is_ok()).collect();
        assert!((0..PARTS).all(|part| found[part] == (part != 3)));
    }

    #[test]
    fn a_part_that_memory_has_no_room_for_is_an_error() {
        let spilling = Spilling::with_room(0, Types::new().with::<u64>());
        let mut parts = Parts::new(&spilling).unwrap();
        (0..1 << 20).for_each(|number: u64| parts.push(3, number).unwrap());
        let error = parts.into_parts().find_map(Result::err).unwrap();
        assert!(matches!(error, JobError::TooLittleMemory { .. }), "{error}");
    }

    #[test]
    fn identifiers_that_are_alike_are_in_different_parts() {
        for shift in [0, 1, 9, 20, 40] {
            let mut counts = vec![0; PARTS];
            (0..64 * PARTS as u64).for_each(|number| counts[part_of(number << shift)] += 1);
            assert!(counts.iter().all(|count| (16..256).contains(count)), "{shift}: {counts:?}");
        }
    }

    proptest! {
        #[test]
        fn an_identifier_follows_from_its_part_and_its_place(identifier: u64) {
            let (part, place) = (part_of(identifier), place_of(identifier));
            prop_assert_eq!(identifier_at(part, place), identifier);
        }
    }
}
