//! Edges, in parts by one of their ends.
//!
//! What is looked up for an end, or added to it, lies in a table that no cache has room for; waiting for memory would be half of what loading takes. A part of that
//! table fits into a core's cache while all edges that ask for it are gone through, as in the radix joins of databases (Manegold, Boncz, Kersten, VLDB 2000).

const PARTS_BITS: u32 = 8;

/// Into how many parts edges are put: so many that rows of a part, of the tens of millions of edges that a worker may have, fit into the cache of a core, and so few that it has the ends of all parts, too.
pub(super) const PARTS: usize = 1 << PARTS_BITS;

/// Records whose memory is given back at once: few enough that it is soon, and that small graphs take little.
pub(super) const PIECE_LEN: usize = 4096;

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

/// All parts.
pub(super) struct Parts<T> {
    /// The last piece of each part.
    filling: Vec<Vec<T>>,
    full: Vec<Vec<Vec<T>>>,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        let filling = (0..PARTS).map(|_| Vec::new()).collect();
        Parts { filling, full: (0..PARTS).map(|_| Vec::new()).collect() }
    }
}

impl<T> Parts<T> {
    #[inline(always)]
    pub(super) fn push(&mut self, part: usize, record: T) {
        let piece = &mut self.filling[part];
        piece.push(record);
        if piece.len() == PIECE_LEN {
            self.begin_piece(part);
        }
    }

    #[cold]
    fn begin_piece(&mut self, part: usize) {
        let next = Vec::with_capacity(PIECE_LEN);
        self.full[part].push(std::mem::replace(&mut self.filling[part], next));
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        let full: usize = self.full.iter().map(Vec::len).sum();
        full * PIECE_LEN + self.filling.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces of each part.
    pub(super) fn into_parts(self) -> impl Iterator<Item = Vec<Vec<T>>> {
        self.full.into_iter().zip(self.filling).map(|(mut pieces, last)| {
            pieces.push(last);
            pieces
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_are_in_the_part_that_they_were_put_in() {
        let mut parts = Parts::default();
        for number in 0..3 * PIECE_LEN {
            parts.push(7, number);
            parts.push(number % 2, number);
        }
        assert_eq!((parts.len(), parts.is_empty()), (6 * PIECE_LEN, false));
        let found: Vec<Vec<usize>> = parts.into_parts().map(|pieces| pieces.concat()).collect();
        assert_eq!(found.len(), PARTS);
        assert!(found[7].iter().copied().eq(0..3 * PIECE_LEN));
        assert!(found[1].iter().copied().eq((1..3 * PIECE_LEN).step_by(2)));
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
