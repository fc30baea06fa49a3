//! `objects`: what building, sending, receiving and using graphs of objects takes, step by step: Weft's, which are built as they are
//! sent, beside formats that encode what was built with boxes and vectors. One thread, no network.

#![deny(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the figures are what this is for")]
#![expect(clippy::disallowed_methods, reason = "a program that measures and draws")]

mod codecs;
mod figure;
mod heap;
mod ours;
mod rkyv_archives;
mod shared;
mod steps;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use crate::steps::{Medians, Steps};

/// Measure each step, and print it as JSON, a line a shape, size and format
#[derive(Debug, Parser)]
struct Args {
    /// The logarithms of how many elements there are
    #[arg(long, default_values_t = [10, 13, 14, 17, 20])]
    elements: Vec<u32>,
    /// How often each step is taken, of which the median counts
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    #[arg(long)]
    shape: Vec<Shape>,
    #[arg(long)]
    format: Vec<Format>,
    /// Where to draw what sending and receiving takes, by the number of elements
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What is sent: Naos's three types of data, and others that are graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// A vector of f32
    Floats,
    /// A vector of points of two f64, one behind the other
    Points,
    /// A vector of boxes of such points
    LinkedPoints,
    /// The same, in another order than they were made in
    Scattered,
    /// A vector of boxes of an i32 and a text of five bytes
    Pairs,
    /// A linked list of f64
    List,
    /// Nodes each of which shares a point with seven others
    Sharing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Weft,
    Rkyv,
    /// Without the check, which is for peers that are trusted with the memory
    RkyvUnchecked,
    Bitcode,
    Postcard,
    SerdeJson,
    /// A copy of as many bytes as the elements have
    Memcpy,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut reports = Vec::new();
    for shape in chosen(&args.shape) {
        for &logarithm in &args.elements {
            for format in chosen(&args.format) {
                let mut steps = Steps::new(args.rounds);
                if !measure(shape, format, 1 << logarithm, &mut steps)? {
                    continue;
                }
                let ns = steps.medians_ns();
                let report = Report { shape: name(shape), format: name(format), logarithm, ns };
                println!("{}", report.json(&steps));
                reports.push(report);
            }
        }
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, figure::svg(&reports)?)?;
    }
    Ok(())
}

/// What is known of one shape, size and format.
#[derive(Debug)]
struct Report {
    shape: String,
    format: String,
    logarithm: u32,
    ns: Medians,
}

impl Report {
    fn json(&self, steps: &Steps) -> Value {
        let Medians { build, send, receive, uses } = self.ns;
        json!({
            "shape": self.shape,
            "format": self.format,
            "logarithm": self.logarithm,
            "ns": { "build": build, "send": send, "receive": receive, "use": uses },
            "p5_ns": steps.percentiles_ns(0.05),
            "p95_ns": steps.percentiles_ns(0.95),
            "bytes": steps.bytes,
            "segments": steps.segments,
        })
    }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn chosen<T: ValueEnum>(some: &[T]) -> Vec<T> {
    if some.is_empty() { T::value_variants().to_vec() } else { some.to_vec() }
}

/// Takes the steps. Returns whether the format can do this at all.
fn measure(shape: Shape, format: Format, count: usize, steps: &mut Steps) -> Result<bool> {
    match format {
        Format::Weft => ours::measure(shape, count, steps).map(|()| true),
        Format::Rkyv => rkyv_archives::measure(shape, count, true, steps),
        Format::RkyvUnchecked => rkyv_archives::measure(shape, count, false, steps),
        Format::Bitcode => codecs::bitcode(shape, count, steps),
        Format::Postcard => codecs::postcard(shape, count, steps),
        Format::SerdeJson => codecs::serde_json(shape, count, steps),
        Format::Memcpy => {
            codecs::memcpy(shape, count, steps);
            Ok(true)
        }
    }
}
