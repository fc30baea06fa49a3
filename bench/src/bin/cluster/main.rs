//! `cluster`: what clusters of real processes on this machine do when nodes are killed, stopped and started again, and what it costs to
//! have objects on several nodes and on disk. Every acknowledged write is accounted for.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the figures are what this is for")]
#![expect(clippy::disallowed_methods, reason = "a program that measures, and starts processes")]

mod control;
mod durability;
mod killed;
mod ledger;
mod load;
mod rate;
mod restart;
mod servers;
mod setup;
mod stopped;
mod tail;
mod writes;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::killed::Victim;
use crate::setup::Setup;

/// Have something happen to a cluster of processes, and print what came of it as JSON
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    setup: Setup,
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Kill one node after the other
    Failover {
        #[arg(long, default_value_t = 20)]
        kills: u32,
    },
    /// Kill whoever leads the coordinators
    Coordinator {
        #[arg(long, default_value_t = 5)]
        kills: u32,
    },
    /// Stop a node for longer than its leases last, and let it go on
    Stopped {
        #[arg(long, default_value_t = 5)]
        rounds: u32,
    },
    /// Write to tables with one, two and three replicas
    Writes {
        #[arg(long, default_value_t = 5)]
        rounds: u32,
        /// How long each figure is measured
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// Write to tables of each durability
    Durability {
        #[arg(long, default_value_t = 5)]
        rounds: u32,
        /// How long each figure is measured
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// Stop or kill all nodes at once
    Restart {
        #[arg(long, default_value_t = 3)]
        rounds: u32,
    },
}

fn main() -> Result<()> {
    let Args { setup, part } = Args::parse();
    let report = match part {
        Part::Failover { kills } => killed::run(&setup, kills, Victim::InTurn)?,
        Part::Coordinator { kills } => killed::run(&setup, kills, Victim::Leader)?,
        Part::Stopped { rounds } => stopped::run(&setup, rounds)?,
        Part::Writes { rounds, seconds } => writes::run(&setup, rounds, seconds)?,
        Part::Durability { rounds, seconds } => durability::run(&setup, rounds, seconds)?,
        Part::Restart { rounds } => restart::run(&setup, rounds)?,
    };
    println!("{report}");
    Ok(())
}
