//! Synthetic inputs, equal to the last byte for equal arguments, on any machine and with any number of threads.

mod rmat;
mod terasort;
mod zipf_words;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _};

pub use rmat::{EdgeFormat, Rmat};
pub use terasort::TeraSort;
pub use zipf_words::ZipfWords;

/// An input that is made in chunks, one after the other in a file. Each can be made by itself, so that many threads can work on one.
#[derive(Clone, Debug)]
pub enum Generator {
    /// A graph with the skew of real ones.
    Rmat(Rmat),
    /// Records to sort.
    TeraSort(TeraSort),
    /// Text whose words are as frequent as in a natural language.
    ZipfWords(ZipfWords),
}

impl Generator {
    /// How many chunks there are.
    pub fn chunks(&self) -> u64 {
        match self {
            Generator::Rmat(graph) => graph.chunks(),
            Generator::TeraSort(records) => records.chunks(),
            Generator::ZipfWords(text) => text.chunks(),
        }
    }

    /// Writes a chunk, of those from 0 to [`chunks`](Self::chunks), behind what is there: some MiB at most.
    pub fn write_chunk(&self, chunk: u64, into: &mut Vec<u8>) {
        match self {
            Generator::Rmat(graph) => graph.write_chunk(chunk, into),
            Generator::TeraSort(records) => records.write_chunk(chunk, into),
            Generator::ZipfWords(text) => text.write_chunk(chunk, into),
        }
    }
}

/// The random numbers of one chunk. The cipher is named, and nothing but its bits is used, so that no release of a library changes what a seed makes.
pub(crate) struct Bits(ChaCha8Rng);

impl Bits {
    pub(crate) fn of_chunk(seed: u64, chunk: u64) -> Bits {
        let mut bits = ChaCha8Rng::seed_from_u64(seed);
        bits.set_stream(chunk);
        Bits(bits)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which is not 0; each as likely as any other but for one part in 2^64 / `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0, and below 1, with 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
