//! `transfer`: graphs of objects from one process to another, Weft's beside what is encoded there and decoded here, and beside as many bytes that nobody
//! looks at. Experiments as in Naos's figures 7 to 10.

#![deny(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the figures are what this is for")]
#![expect(clippy::disallowed_methods, reason = "a program that measures")]

#[path = "../objects/heap.rs"]
mod heap;
mod measuring;
mod receiver;
mod sender;
mod shapes;
mod speech;

use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use weft_transport::{
    EndpointConfig, Incarnation, LinkPolicy, Memory, MemoryConfig, NodeId, Windows,
};

/// Measure, and print JSON, a line a figure
#[derive(Debug, Parser)]
struct Args {
    /// Be the process that receives
    #[arg(long)]
    receive: bool,
    #[arg(long, default_value = "shm")]
    link: LinkPolicy,
    /// The logarithms of how many elements there are
    #[arg(long, default_values_t = [0, 2, 4, 6, 8, 10, 12, 14, 16])]
    elements: Vec<u32>,
    /// How long each figure is measured
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    #[arg(long)]
    experiment: Vec<Experiment>,
    /// The processor that the receiving process runs on
    #[arg(long)]
    receiver_cpu: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// One graph after the other (Naos's figure 7)
    Latency,
    /// 32 under way (figure 8)
    Throughput,
    /// 2^20 elements, by how many there are in a graph (figure 9)
    Streaming,
    /// A graph of 2^20 elements, checked as it comes and when all is there (figure 10)
    Pipelining,
    /// A graph with floats that lie elsewhere, copied into it and sent from there
    Lending,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.receive { receiver::run(args.link) } else { sender::run(&args) }
}

/// An endpoint's configuration: windows that do not hold up what is measured.
fn config(node: NodeId, links: LinkPolicy) -> Result<EndpointConfig> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 3 << 30 })?;
    let windows = Windows { reply: 4 << 20, replication: 4 << 20, request: 64 << 20 };
    let config = EndpointConfig::new(node, Incarnation(1), memory);
    Ok(EndpointConfig { links, windows, connect_timeout: Duration::from_secs(10), ..config })
}
