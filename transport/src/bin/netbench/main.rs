//! `netbench`: how fast the transport moves bytes on this machine, beside what plain sockets reach
//! in the same run.
//!
//! The two sides are two processes, each pinned to a processor of its own, and each half of a run
//! has a fresh server process: nothing that one half leaves behind (spinning threads, socket
//! buffers) is there when the other is measured. Halves alternate, run by run, and the figures are
//! medians, because the machines are shared and noisy. One process with two threads was the
//! alternative; both sides would then share an allocator, a poll policy and a spinning budget that
//! two nodes never share.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark has processes, bare sockets and a clock"
)]

mod affinity;
mod apart;
mod args;
mod beside;
mod bounds;
mod buffers;
mod idle;
mod links;
mod measure;
mod mesh;
mod numbered;
mod peers;
mod phases;
mod process;
mod quantiles;
mod raw;
mod report;
mod serve;
mod server_process;
mod shape;
mod sizes;
mod streams;
mod table;
mod tally;
mod weft;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Task};

fn main() -> ExitCode {
    let outcome = match Args::parse().into_task() {
        Task::Serve(order) => serve::serve(&order),
        Task::Node(options) => mesh::node::run(options),
        Task::Measure(plan) => measure::measure(&plan)
            .map(|report| if plan.json { report.json() } else { report.text() })
            .and_then(print),
        Task::Streams(plan) => streams::measure(&plan).and_then(print),
        Task::Buffers(plan) => buffers::measure(&plan).and_then(print),
        Task::Mesh(plan) => mesh::measure(&plan).and_then(print),
        Task::Sizes(plan) => sizes::measure(&plan).and_then(print),
        Task::Peers(plan) => peers::measure(&plan).and_then(print),
        Task::Beside(plan) => beside::measure(&plan).and_then(print),
        Task::Apart(plan) => apart::measure(&plan).and_then(print),
        Task::Idle(plan) => idle::measure(&plan).and_then(print),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr leaves nobody to tell, and the exit code still says it.
            let _ = writeln!(std::io::stderr(), "netbench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: String) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}
