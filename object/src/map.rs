//! Maps, as fields: sorted sequences.

use std::cmp::Ordering;

use crate::pair::Pair;
use crate::seq::Seq;
use crate::text::Text;
use crate::view::View;
use crate::wire::Wire;

/// Pairs sorted by key, found by bisection: no hash that a peer could choose its keys by. As a field it is a [`Seq`], made by
/// [`Graph::map`](crate::Graph::map) and read by [`View::map`](crate::View::map).
pub type Map<K, V> = Seq<Pair<K, V>>;

/// What a map can be sorted by: plain values that have an order, and texts.
pub trait Key: Wire {
    /// What is looked for.
    type Query: ?Sized;

    /// How a key compares with what is looked for.
    fn compare<B>(&self, view: &View<B>, query: &Self::Query) -> Ordering;
}

impl<K: Wire + Ord> Key for K {
    type Query = K;

    #[inline]
    fn compare<B>(&self, _: &View<B>, query: &K) -> Ordering {
        self.cmp(query)
    }
}

impl Key for Text {
    type Query = str;

    #[inline]
    fn compare<B>(&self, view: &View<B>, query: &str) -> Ordering {
        view.text(self).cmp(query)
    }
}

/// A map in a view.
///
/// That the pairs are sorted is the sender's word: looking costs as much as the pairs, and any number of maps may lead to the
/// same ones. Where they are not, a key that is there may not be found; nothing worse comes of it.
#[derive(Debug)]
pub struct MapView<'v, K, V, B> {
    view: &'v View<B>,
    pairs: &'v [Pair<K, V>],
}

impl<'v, K: Key, V: Wire, B> MapView<'v, K, V, B> {
    pub(crate) fn new(view: &'v View<B>, pairs: &'v [Pair<K, V>]) -> Self {
        Self { view, pairs }
    }

    /// The value of a key, by at most 33 comparisons.
    pub fn get(&self, key: &K::Query) -> Option<&'v V> {
        let at = self.pairs.binary_search_by(|pair| pair.key.compare(self.view, key));
        at.ok().map(|at| &self.pairs[at].value)
    }

    /// The pairs, in order.
    pub fn pairs(&self) -> &'v [Pair<K, V>] {
        self.pairs
    }
}
