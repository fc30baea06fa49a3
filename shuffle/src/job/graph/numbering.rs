//! In which order a worker has its vertices.

use std::cmp::Reverse;

use crate::budget::{Budget, Required};
use crate::error::JobError;

/// Bytes that a vertex takes here.
const VERTEX_BYTES: u64 = 20;

/// Bytes that it takes while vertices are put in order.
const SORTING_BYTES: u64 = size_of::<(Reverse<u32>, u64, u32)>() as u64;

/// Vertices at which edges begin: those with most edges first, each counted as often as it came, and of those alike the lower identifier.
#[derive(Debug)]
pub(super) struct Numbering {
    /// Which vertex comes at each place.
    order: Vec<u32>,
    /// At which place each vertex comes.
    places: Vec<u32>,
    /// By place.
    identifiers: Vec<u64>,
    degrees: Vec<u32>,
}

impl Numbering {
    /// What so many vertices take, and what they take while they are put in order.
    pub(super) fn require(
        vertices: usize,
        budget: &Budget,
    ) -> Result<(Required, Required), JobError> {
        let [kept, sorting] =
            [VERTEX_BYTES, SORTING_BYTES].map(|bytes| budget.require(vertices as u64 * bytes));
        Ok((kept?, sorting?))
    }

    /// Of vertices with such identifiers, at which so many edges begin. There are no more than numbers of 32 bits.
    pub(super) fn by_degree(identifiers: &[u64], degree: impl Fn(usize) -> u32) -> Numbering {
        let vertices = identifiers.iter().enumerate();
        let mut vertices: Vec<(Reverse<u32>, u64, u32)> = vertices
            .map(|(vertex, identifier)| (Reverse(degree(vertex)), *identifier, vertex as u32))
            .collect();
        vertices.sort_unstable();
        let mut places = vec![0; vertices.len()];
        (0..).zip(&vertices).for_each(|(place, (_, _, vertex))| places[*vertex as usize] = place);
        Numbering {
            order: vertices.iter().map(|(_, _, vertex)| *vertex).collect(),
            places,
            identifiers: vertices.iter().map(|(_, identifier, _)| *identifier).collect(),
            degrees: vertices.iter().map(|(Reverse(degree), _, _)| *degree).collect(),
        }
    }

    /// The vertices, by their places.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The place of each vertex.
    pub(super) fn places(&self) -> &[u32] {
        &self.places
    }

    /// The identifiers, by place.
    pub(super) fn identifiers(&self) -> &[u64] {
        &self.identifiers
    }

    /// An edge that was counted begins at this place, and is there once more.
    pub(super) fn count_once_less(&mut self, place: u32) {
        self.degrees[place as usize] -= 1;
    }

    /// How many edges begin at each, by place.
    pub(super) fn degrees(&self) -> &[u32] {
        &self.degrees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_with_most_edges_come_first() {
        let degrees = [1, 1, 3, 2, 1];
        let numbering = Numbering::by_degree(&[7, 3, 5, 9, 8], |vertex| degrees[vertex]);
        assert_eq!(numbering.order(), [2, 3, 1, 0, 4]);
        assert_eq!(numbering.places(), [3, 2, 0, 1, 4]);
        assert_eq!(numbering.identifiers(), [5, 9, 3, 7, 8]);
        assert_eq!(numbering.degrees(), [3, 2, 1, 1, 1]);
    }
}
