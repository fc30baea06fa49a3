//! `services`: what a call of a typed service takes beside a bare call of the transport with as many bytes, and with what J-RPC was measured
//! with: nothing, four words, a service, arrays of bytes, linked lists; and a store of a million values. Two processes, one caller.

#![deny(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the figures are what this is for")]
#![expect(clippy::disallowed_methods, reason = "a program that measures and starts its other half")]

mod caller;
mod grpc;
mod mix;
mod served;
mod store;

use anyhow::Result;
use clap::Parser;
use weft_transport::LinkPolicy;

/// Measure calls, and print one case a line as JSON
#[derive(Debug, Parser)]
struct Args {
    /// How often each case is measured, of which the median counts
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Calls a round
    #[arg(long, default_value_t = 20_000)]
    calls: u32,
    /// What they go over: auto (shared memory), tcp or verbs
    #[arg(long, default_value = "auto")]
    link: LinkPolicy,
    /// The processor of the other process
    #[arg(long, default_value_t = 0)]
    server_cpu: u32,
    /// Be the other process: serve until the input ends
    #[arg(long, hide = true)]
    serve: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    match args.serve {
        true => served::run(args.link),
        false => caller::run(&args),
    }
}
