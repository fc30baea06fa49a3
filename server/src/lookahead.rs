//! Walking a multi-request with memory one run of keys ahead.

use arrayvec::ArrayVec;
use weft_protocol::{Key, TableId};

use crate::limits::BATCH_MAX;
use crate::partitions::{Held, Place};

/// The elements of a multi-request with the places of their keys. Before the first of every [`BATCH_MAX`]
/// elements is handed out, what lookups of all of them read is on its way into the cache.
#[derive(Debug)]
pub(crate) struct Lookahead<I, K> {
    table: TableId,
    items: I,
    key_of: K,
    /// The places of the run that `items` is in.
    places: ArrayVec<Place, BATCH_MAX>,
    index: usize,
}

impl<'a, I, K> Lookahead<I, K>
where
    I: Iterator + Clone,
    K: Fn(&I::Item) -> Key<'a>,
{
    /// Walks `items`, whose keys `key_of` tells, in `table`.
    pub(crate) fn new(table: TableId, items: I, key_of: K) -> Self {
        Lookahead { table, items, key_of, places: ArrayVec::new(), index: 0 }
    }

    /// The next element, with its position in the request and the place of its key.
    pub(crate) fn next(&mut self, held: &mut Held<'_>) -> Option<(usize, I::Item, Place)> {
        let index = self.index;
        if index.is_multiple_of(BATCH_MAX) {
            self.look_ahead(held);
        }
        let item = self.items.next()?;
        self.index += 1;
        Some((index, item, self.places[index % BATCH_MAX]))
    }

    fn look_ahead(&mut self, held: &mut Held<'_>) {
        let (table, key_of) = (self.table, &self.key_of);
        let run = self.items.clone().take(BATCH_MAX);
        self.places = held.prefetch(run.map(|item| {
            let key = key_of(&item);
            (table, key, key.slot())
        }));
    }
}
