//! In which order a worker has its vertices.

use std::cmp::Reverse;
use std::ops::Range;

use super::Edge;

/// A worker's vertices: those at which most edges begin first, and of those alike the lower identifier.
#[derive(Debug)]
pub(super) struct Numbering {
    /// In ascending order.
    identifiers: Vec<u64>,
    /// Where the edges of each begin, and behind them the end.
    offsets: Vec<u64>,
    /// Which of them comes at each place.
    order: Vec<u32>,
    /// At which place each of them comes.
    places: Vec<u32>,
}

impl Numbering {
    /// Of identifiers in ascending order, and edges in the order of their sources, each of which is one of them.
    pub(super) fn by_degree(identifiers: Vec<u64>, edges: &[Edge]) -> Numbering {
        let mut offsets = Vec::with_capacity(identifiers.len() + 1);
        offsets.push(0);
        let mut runs = edges.chunk_by(|one, other| one.key == other.key).peekable();
        let mut end = 0;
        for identifier in &identifiers {
            end += runs.next_if(|run| run[0].key == *identifier).map_or(0, <[Edge]>::len);
            offsets.push(end as u64);
        }
        debug_assert_eq!(end, edges.len());
        // A worker has no more vertices than there are, which are fewer than 2^32.
        let mut order: Vec<u32> = (0..identifiers.len() as u32).collect();
        let degree = |vertex: &u32| offsets[*vertex as usize + 1] - offsets[*vertex as usize];
        order.sort_by_cached_key(|vertex| Reverse(degree(vertex)));
        let mut places = vec![0; order.len()];
        (0..).zip(&order).for_each(|(place, vertex)| places[*vertex as usize] = place);
        Numbering { identifiers, offsets, order, places }
    }

    pub(super) fn len(&self) -> usize {
        self.identifiers.len()
    }

    /// The place of a vertex, if there is such a one.
    pub(super) fn index_of(&self, identifier: u64) -> Option<usize> {
        let vertex = self.identifiers.binary_search(&identifier).ok()?;
        Some(self.places[vertex] as usize)
    }

    /// Which edges begin at the vertex at a place.
    pub(super) fn edges(&self, index: usize) -> Range<usize> {
        let vertex = self.order[index] as usize;
        self.offsets[vertex] as usize..self.offsets[vertex + 1] as usize
    }

    /// The identifiers and how many edges begin at each, by place.
    pub(super) fn into_parts(self) -> (Vec<u64>, Vec<u32>) {
        // No two edges are the same, so they are no more than there are vertices.
        let degrees = (0..self.len()).map(|index| self.edges(index).len() as u32).collect();
        let identifiers = self.order.iter().map(|vertex| self.identifiers[*vertex as usize]);
        (identifiers.collect(), degrees)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_with_most_edges_come_first() {
        let edge = |(key, value)| Edge { key, value };
        let edges = [(3, 9), (5, 3), (5, 4), (5, 9), (9, 3), (9, 9)].map(edge);
        let numbering = Numbering::by_degree(vec![1, 3, 5, 7, 9], &edges);
        assert_eq!(numbering.len(), 5);
        let places = [1, 3, 5, 7, 9].map(|identifier| numbering.index_of(identifier).unwrap());
        assert_eq!(places, [3, 2, 0, 4, 1]);
        assert_eq!(numbering.index_of(4), None);
        let runs: Vec<_> = (0..5).map(|index| numbering.edges(index)).collect();
        assert_eq!(runs, [1..4, 4..6, 0..1, 0..0, 4..4]);
        assert_eq!(numbering.into_parts(), (vec![5, 9, 3, 1, 7], vec![3, 2, 1, 0, 0]));
    }
}
