//! In which order a worker has its vertices.

use std::cmp::Reverse;

/// A worker's vertices: those at which most edges begin first, and of those alike the lower identifier.
#[derive(Debug)]
pub(super) struct Numbering {
    /// Which vertex comes at each place.
    order: Vec<u32>,
    /// At which place each vertex comes.
    places: Vec<u32>,
}

impl Numbering {
    /// Of vertices with such identifiers, at which so many edges begin.
    pub(super) fn by_degree(identifiers: &[u64], degree: impl Fn(usize) -> usize) -> Numbering {
        // A worker has no more vertices than there are numbers of 32 bits.
        let mut order: Vec<u32> = (0..identifiers.len() as u32).collect();
        order.sort_by_cached_key(|vertex| {
            let vertex = *vertex as usize;
            (Reverse(degree(vertex)), identifiers[vertex])
        });
        let mut places = vec![0; order.len()];
        (0..).zip(&order).for_each(|(place, vertex)| places[*vertex as usize] = place);
        Numbering { order, places }
    }

    /// The vertices, by their places.
    pub(super) fn order(&self) -> impl Iterator<Item = usize> {
        self.order.iter().map(|vertex| *vertex as usize)
    }

    /// The place of a vertex.
    pub(super) fn place(&self, vertex: u32) -> u32 {
        self.places[vertex as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_with_most_edges_come_first() {
        let degrees = [1, 0, 3, 2, 0];
        let numbering = Numbering::by_degree(&[3, 7, 5, 9, 1], |vertex| degrees[vertex]);
        assert_eq!(numbering.order().collect::<Vec<_>>(), [2, 3, 0, 4, 1]);
        assert_eq!([0, 1, 2, 3, 4].map(|vertex| numbering.place(vertex)), [2, 4, 0, 1, 3]);
    }
}
