//! `rmat`: a seeded synthetic graph with the skew of real ones (R-MAT, Chakrabarti et al. 2004, with
//! the parameters of the GAP benchmark suite), as text, an edge a line. Parallel edges are kept.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program that writes to its standard output")]

use std::io::{BufWriter, Write as _};

use anyhow::Context as _;
use clap::Parser;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// Write a seeded R-MAT graph to standard output, an edge a line
#[derive(Debug, Parser)]
struct Args {
    /// The graph has 2^SCALE vertices
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// Edges a vertex
    #[arg(long, default_value_t = 16)]
    degree: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Where an edge goes, at each halving of the matrix: left upper, right upper, left lower quarter.
const QUARTERS: [f64; 3] = [0.57, 0.19, 0.19];

fn main() -> anyhow::Result<()> {
    let Args { scale, degree, seed } = Args::parse();
    anyhow::ensure!((1..=31).contains(&scale), "--scale is from 1 to 31");
    let mut random = StdRng::seed_from_u64(seed);
    // Without new names, low numbers would be the popular ones.
    let mut names: Vec<u32> = (0..1 << scale).collect();
    names.shuffle(&mut random);
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    writeln!(out, "# R-MAT 0.57 0.19 0.19, scale {scale}, degree {degree}, seed {seed}")?;
    for _ in 0..(1 << scale) * degree {
        let (mut from, mut to) = (0, 0);
        for _ in 0..scale {
            let at: f64 = random.random();
            let [a, b, c] = QUARTERS;
            let (down, right) = (at >= a + b, (a..a + b).contains(&at) || at >= a + b + c);
            from = from << 1 | usize::from(down);
            to = to << 1 | usize::from(right);
        }
        writeln!(out, "{} {}", names[from], names[to])?;
    }
    out.flush().context("failed to write the graph")
}
