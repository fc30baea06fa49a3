//! What is given to a worker's vertices, by their identifiers.

use super::order::Order;

/// Updates that are looked up before any of them is added, so that the processor waits for all of their lines of memory at once.
const TOGETHER: usize = 32;

/// A sum for each of a worker's vertices, which is found by the vertex's identifier: a hash table with open addressing, whose slots have the sums themselves, so that to add is to
/// wait for one line of memory. Slots are in the order in which messages name vertices: whoever adds them goes through the table, roughly.
#[derive(Clone, Debug)]
pub struct VertexSums {
    order: Order,
    /// A power of two of them, of which at most half are taken.
    slots: Vec<Slot>,
    /// Bits of a vertex's place in the order that do not tell its slot.
    shift: u32,
    /// What is where no vertex is: an identifier that none of them has.
    vacant: u64,
    /// The slots of the vertices, in their order.
    places: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    vertex: u64,
    sum: f64,
}

impl VertexSums {
    /// Sums of zero for these vertices, which are less than 2^31 and all different.
    pub(super) fn of(vertices: &[u64], order: Order) -> VertexSums {
        let vacant = absent(vertices);
        let len = (2 * vertices.len()).next_power_of_two().max(2);
        let slots = vec![Slot { vertex: vacant, sum: 0.0 }; len];
        let shift = u64::BITS - len.trailing_zeros();
        let places = Vec::with_capacity(vertices.len());
        let mut sums = VertexSums { order, slots, shift, vacant, places };
        for vertex in vertices {
            let place = sums.place(*vertex);
            sums.slots[place].vertex = *vertex;
            sums.places.push(place as u32);
        }
        sums
    }

    /// Adds a value to the sum of each of these vertices.
    ///
    /// # Errors
    /// A vertex that is none of the worker's; some may have been added then.
    #[inline(always)]
    pub fn add_all(&mut self, updates: impl Iterator<Item = (u64, f64)>) -> Result<(), NotOwn> {
        let mut updates = updates.fuse();
        loop {
            let mut places = [0; TOGETHER];
            let mut values = [0.0; TOGETHER];
            let mut len = 0;
            for (vertex, value) in updates.by_ref().take(TOGETHER) {
                // Nobody looks at the sum of a slot where no vertex is.
                places[len] = self.place(vertex);
                values[len] = value;
                if self.slots[places[len]].vertex == self.vacant {
                    return Err(NotOwn { vertex });
                }
                len += 1;
            }
            for (place, value) in places[..len].iter().zip(values) {
                self.slots[*place].sum += value;
            }
            if len < TOGETHER {
                return Ok(());
            }
        }
    }

    /// The sums in the order of the vertices; zero is what is left.
    pub(super) fn take(&mut self) -> impl Iterator<Item = f64> {
        let slots = &mut self.slots;
        self.places.iter().map(|place| std::mem::take(&mut slots[*place as usize].sum))
    }

    /// Where a vertex is, or could be.
    #[inline(always)]
    fn place(&self, vertex: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = (self.order.of(vertex) >> self.shift) as usize & mask;
        loop {
            let found = self.slots[place].vertex;
            if found == vertex || found == self.vacant {
                return place;
            }
            place = (place + 1) & mask;
        }
    }
}

/// A vertex that is none of a worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOwn {
    /// Its identifier.
    pub vertex: u64,
}

/// The lowest number that is none of these.
fn absent(vertices: &[u64]) -> u64 {
    let mut is_there = vec![false; vertices.len() + 1];
    let small = vertices.iter().filter_map(|vertex| usize::try_from(*vertex).ok());
    small.for_each(|vertex| is_there.get_mut(vertex).into_iter().for_each(|there| *there = true));
    is_there.iter().position(|there| !there).expect("there are more numbers than vertices") as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn order() -> Order {
        Order::with_seed(7)
    }

    #[test]
    fn sums_are_those_of_the_vertices_by_their_identifiers() {
        let vertices: Vec<u64> = (0..5000).map(|at| if at % 2 == 0 { at } else { !at }).collect();
        let mut sums = VertexSums::of(&vertices, order());
        let mut expected: BTreeMap<u64, f64> = vertices.iter().map(|at| (*at, 0.0)).collect();
        for round in 0..2 {
            let updates =
                (0..20_000_u64).map(|at| (vertices[(at * at) as usize % 5000], at as f64));
            sums.add_all(updates.clone()).unwrap();
            updates.for_each(|(vertex, value)| *expected.get_mut(&vertex).unwrap() += value);
            let found: Vec<f64> = sums.take().collect();
            let wanted: Vec<f64> = vertices.iter().map(|vertex| expected[vertex]).collect();
            assert_eq!(found, wanted, "in round {round}");
            expected.values_mut().for_each(|sum| *sum = 0.0);
        }
    }

    #[test]
    fn a_vertex_of_others_is_none() {
        let mut sums = VertexSums::of(&[0, 1, 3, u64::MAX], order());
        for vertex in [2, 4, 7, 1 << 63, u64::MAX - 1] {
            assert_eq!(sums.add_all([(0, 0.0), (vertex, 1.0)].into_iter()), Err(NotOwn { vertex }));
        }
        // 2 is what is where no vertex is.
        assert_eq!(sums.vacant, 2);
        assert!(sums.take().all(|sum| sum == 0.0));
        assert!(VertexSums::of(&[], order()).add_all([(0, 1.0)].into_iter()).is_err());
    }
}
