//! What watches are called: numbers that nobody guesses who does not know the node's seed.
//!
//! Whoever knows the id of a watch can take its events and end it, so that a client can go on with its own from another connection.

#![expect(
    deprecated,
    reason = "the hasher that takes its place keeps its algorithm open, and this is SipHash-2-4, a pseudorandom function"
)]

use std::hash::{Hasher, SipHasher};

/// Ids, one after the other.
#[derive(Debug)]
pub(super) struct WatchIds {
    seed: u64,
    drawn: u64,
}

impl WatchIds {
    pub(super) fn new(seed: u64) -> WatchIds {
        WatchIds { seed, drawn: 0 }
    }

    /// An id that is not `taken`, and not 0.
    pub(super) fn draw(&mut self, taken: impl Fn(u64) -> bool) -> u64 {
        loop {
            // Other uses of the seed have another half.
            let mut hasher = SipHasher::new_with_keys(self.seed, u64::from_le_bytes(*b"watch id"));
            hasher.write_u64(self.drawn);
            self.drawn += 1;
            let id = hasher.finish();
            if id != 0 && !taken(id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_depend_on_the_seed() {
        let ids = |seed| {
            let mut ids = WatchIds::new(seed);
            (0..100).map(|_| ids.draw(|_| false)).collect::<Vec<_>>()
        };
        let (mut one, other) = (ids(1), ids(2));
        assert!(one.iter().zip(&other).all(|(one, other)| one != other));
        let mut again = WatchIds::new(1);
        assert_eq!(again.draw(|id| id == one[0]), one[1], "one that is taken is left out");
        one.sort_unstable();
        one.dedup();
        assert_eq!(one.len(), 100);
    }
}
