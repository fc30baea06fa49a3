//! Pieces of records in memory that is taken as they come, and given back at once.

use crate::budget::{Budget, Taken};

/// Bytes that an allocator has the system map by themselves, whatever it has done before; glibc's does from 32 MiB on. Those that nothing was written to take no memory then, and all go back when
/// they are freed, where lesser ones may stay with the allocator.
pub(super) const MAPPED_BYTES: usize = 36 << 20;

/// Bytes that are taken from the budget at once.
const STEP_BYTES: u64 = 1 << 20;

/// Pieces of the same length.
pub(super) struct Pieces<T> {
    piece_len: usize,
    /// Each has as many pieces as any other, but for the last.
    blocks: Vec<Vec<T>>,
    count: usize,
    taken: Vec<Taken>,
}

impl<T: Copy> Pieces<T> {
    pub(super) fn new(piece_len: usize) -> Pieces<T> {
        Pieces { piece_len, blocks: Vec::new(), count: 0, taken: Vec::new() }
    }

    /// Adds a piece, if the budget has room for it, of which half is for pieces: its number.
    pub(super) fn push(&mut self, piece: &[T], budget: &Budget) -> Option<u32> {
        debug_assert_eq!(piece.len(), self.piece_len);
        let bytes = ((self.count + 1) * size_of_val(piece)) as u64;
        while bytes > self.taken.len() as u64 * STEP_BYTES {
            let has_room = bytes <= budget.share();
            self.taken.push(has_room.then(|| budget.take(STEP_BYTES)).flatten()?);
        }
        let number = u32::try_from(self.count).ok()?;
        let of_block = self.pieces_of_block();
        if self.count == self.blocks.len() * of_block {
            self.blocks.push(Vec::with_capacity(of_block * self.piece_len));
        }
        self.blocks[self.count / of_block].extend_from_slice(piece);
        self.count += 1;
        Some(number)
    }

    /// A piece, by its number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &[T] {
        let (number, of_block) = (number as usize, self.pieces_of_block());
        let begin = number % of_block * self.piece_len;
        &self.blocks[number / of_block][begin..begin + self.piece_len]
    }

    /// Records of all pieces.
    pub(super) fn records(&self) -> usize {
        self.count * self.piece_len
    }

    fn pieces_of_block(&self) -> usize {
        (MAPPED_BYTES / size_of::<T>()).div_ceil(self.piece_len)
    }
}

#[cfg(test)]
mod tests {
    use weft_object::Types;

    use super::*;
    use crate::spill::Spilling;

    #[test]
    fn pieces_are_what_they_were_made_of() {
        const LEN: usize = 300_000;
        let spilling = Spilling::with_room(512 << 20, Types::new());
        let mut pieces = Pieces::new(LEN);
        // More than a block of them.
        let piece = |number: u32| vec![u64::from(number); LEN];
        for number in 0..40 {
            assert_eq!(pieces.push(&piece(number), &spilling.budget), Some(number));
        }
        assert!(pieces.blocks.len() > 1);
        (0..40).for_each(|number| assert!(pieces.get(number) == piece(number)));
    }

    #[test]
    fn pieces_take_up_to_half_of_the_memory_and_give_it_back() {
        let spilling = Spilling::with_room(16 << 20, Types::new());
        let budget = &spilling.budget;
        let mut pieces = Pieces::new(1 << 10);
        let piece = [0_u64; 1 << 10];
        let count = (0..).take_while(|_| pieces.push(&piece, budget).is_some()).count() as u64;
        assert!((7 << 20..=budget.share()).contains(&(count << 13)), "{count} pieces");
        assert!(budget.take(16 << 20).is_none());
        drop(pieces);
        assert!(budget.take(16 << 20).is_some());
    }
}
