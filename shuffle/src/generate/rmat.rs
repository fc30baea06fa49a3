//! Graphs with the skew of real ones: R-MAT (Chakrabarti, Zhan, Faloutsos: SDM 2004), with the parameters of Graph500 and of the GAP
//! benchmark suite (Beamer, Asanović, Patterson 2015).

use super::Bits;
use crate::edge_list::binary::{self, Width};

/// Where an edge goes at each halving of the adjacency matrix, in 2^32 parts: where the left upper quarter ends, and the right upper and the left lower one
/// behind it, of 0.57, 0.19 and 0.19. What is left is the right lower one's.
const ENDS: [u32; 3] = [part(0.57), part(0.57 + 0.19), part(0.57 + 0.19 + 0.19)];

/// Edges of a chunk: about a MiB of text.
const CHUNK_EDGES: u64 = 1 << 16;

/// What names are drawn by: not a chunk's number.
const NAMES: u64 = u64::MAX;

const fn part(of_one: f64) -> u32 {
    (of_one * (1_u64 << 32) as f64) as u32
}

/// How edges are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EdgeFormat {
    /// A line of two decimal numbers each.
    #[default]
    Text,
    /// The binary format of edge lists, with identifiers of 32 bits.
    Binary,
}

/// A directed graph. Parallel edges and loops are kept, and some vertices have no edge, as with real ones' generators.
#[derive(Clone, Debug)]
pub struct Rmat {
    edges: u64,
    seed: u64,
    /// Halvings of the matrix.
    scale: u32,
    /// What the vertices are called: otherwise low numbers would be the popular ones.
    names: Box<[u32]>,
    format: EdgeFormat,
}

impl Rmat {
    /// How many vertices a graph can have. Their names take four bytes each.
    pub const VERTICES_MAX: u32 = 1 << 30;

    /// A graph of `edges` edges between vertices from 0 to `vertices`. Of a number that is no power of two, the graph of the next power is folded: numbers
    /// beyond are taken modulo it.
    ///
    /// # Panics
    /// `vertices` is 0 or more than [`VERTICES_MAX`](Self::VERTICES_MAX).
    pub fn new(vertices: u32, edges: u64, seed: u64) -> Rmat {
        assert!((1..=Rmat::VERTICES_MAX).contains(&vertices), "{vertices} vertices");
        let mut bits = Bits::of_chunk(seed, NAMES);
        let mut names: Vec<u32> = (0..vertices).collect();
        for index in (1..names.len()).rev() {
            names.swap(index, bits.below(index as u64 + 1) as usize);
        }
        let scale = vertices.next_power_of_two().trailing_zeros();
        Rmat { edges, seed, scale, names: names.into(), format: EdgeFormat::Text }
    }

    /// The same graph, written as `format` says; text unless it is said.
    #[must_use]
    pub fn with_format(self, format: EdgeFormat) -> Rmat {
        Rmat { format, ..self }
    }

    pub(super) fn chunks(&self) -> u64 {
        let chunks = self.edges.div_ceil(CHUNK_EDGES);
        match self.format {
            EdgeFormat::Text => chunks,
            // A header without an edge, too.
            EdgeFormat::Binary => chunks.max(1),
        }
    }

    pub(super) fn write_chunk(&self, chunk: u64, into: &mut Vec<u8>) {
        let mut bits = Bits::of_chunk(self.seed, chunk);
        let first = chunk * CHUNK_EDGES;
        if chunk == 0 && self.format == EdgeFormat::Binary {
            into.extend_from_slice(&binary::header(Width::Narrow, self.edges));
        }
        for _ in first..self.edges.min(first + CHUNK_EDGES) {
            let (from, to) = self.edge(&mut bits);
            let (from, to) = (self.name(from), self.name(to));
            match self.format {
                EdgeFormat::Text => {
                    push_decimal(into, from);
                    into.push(b' ');
                    push_decimal(into, to);
                    into.push(b'\n');
                }
                EdgeFormat::Binary => {
                    into.extend_from_slice(&from.to_le_bytes());
                    into.extend_from_slice(&to.to_le_bytes());
                }
            }
        }
    }

    fn edge(&self, bits: &mut Bits) -> (u32, u32) {
        let (mut from, mut to, mut left) = (0, 0, 0);
        for level in 0..self.scale {
            // Every number is good for two levels.
            left = if level % 2 == 0 { bits.next() } else { left >> 32 };
            let at = left as u32;
            let [upper_left, upper, lower_left] = ENDS;
            let is_right = (upper_left..upper).contains(&at) || at >= lower_left;
            from = from << 1 | u32::from(at >= upper);
            to = to << 1 | u32::from(is_right);
        }
        (from, to)
    }

    fn name(&self, vertex: u32) -> u32 {
        self.names[vertex as usize % self.names.len()]
    }
}

fn push_decimal(into: &mut Vec<u8>, number: u32) {
    let mut digits = [0; 10];
    let (mut left, mut at) = (number, digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(graph: &Rmat) -> Vec<(u32, u32)> {
        let mut text = Vec::new();
        (0..graph.chunks()).for_each(|chunk| graph.write_chunk(chunk, &mut text));
        let edge = |line: &str| {
            let (from, to) = line.split_once(' ').unwrap();
            (from.parse().unwrap(), to.parse().unwrap())
        };
        std::str::from_utf8(&text).unwrap().lines().map(edge).collect()
    }

    #[test]
    fn there_are_as_many_edges_as_asked_for_between_the_vertices_that_there_are() {
        for (vertices, count) in [(1, 3), (2, 10), (1000, 0), (1000, 70_000), (1024, 65_536)] {
            let edges = edges(&Rmat::new(vertices, count, 1));
            assert_eq!(edges.len() as u64, count);
            assert!(edges.iter().all(|(from, to)| *from < vertices && *to < vertices));
        }
    }

    /// At each halving, 0.76 of the edges begin in the upper half and as many lead to the left one: so a vertex whose number has k ones has
    /// 0.76^(10 - k) * 0.24^k of all beginnings.
    #[test]
    fn vertices_have_as_many_edges_as_the_model_says() {
        let count = 2_000_000;
        let graph = Rmat::new(1 << 10, count, 5);
        let mut number_of = vec![0; 1 << 10];
        for (number, name) in graph.names.iter().enumerate() {
            number_of[*name as usize] = number;
        }
        let edges = edges(&graph);
        for is_beginning in [true, false] {
            let mut by_ones = [0; 11];
            for (from, to) in &edges {
                let vertex = if is_beginning { *from } else { *to };
                by_ones[number_of[vertex as usize].count_ones() as usize] += 1;
            }
            let mut vertices = 1.0;
            for (ones, found) in by_ones.into_iter().enumerate() {
                let each = 0.76_f64.powi(10 - ones as i32) * 0.24_f64.powi(ones as i32);
                let expected = count as f64 * vertices * each;
                // Five standard deviations of a count.
                let apart = (f64::from(found) - expected).abs();
                assert!(apart < 5.0 * expected.sqrt() + 1.0, "{ones}: {found}, {expected}");
                vertices *= (10 - ones) as f64 / (ones + 1) as f64;
            }
        }
        // And both at once: of the first halving, 0.57 stay in the left upper quarter.
        let in_quarter = |edge: &&(u32, u32)| {
            number_of[edge.0 as usize] < 512 && number_of[edge.1 as usize] < 512
        };
        let part = edges.iter().filter(in_quarter).count() as f64 / count as f64;
        assert!((part - 0.57).abs() < 0.002, "{part}");
    }

    #[test]
    fn a_seed_makes_the_same_graph_and_another_seed_another() {
        let graph = |seed| edges(&Rmat::new(500, 100_000, seed));
        assert!(graph(1) == graph(1));
        assert!(graph(1) != graph(2));
        let beginning = [(353, 282), (36, 295), (141, 22), (180, 204)];
        assert_eq!(graph(1)[..4], beginning, "the graph that this seed has always made");
    }
}
