//! The command line, parsed into a [`Plan`] of which every value is good.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use weft_transport::{LinkPolicy, PollPolicy, VerbsOptions};

use crate::affinity::{Cpu, Placement};
use crate::numbered;
use crate::serve::Service;
use crate::streams::plan::{StreamsOptions, StreamsPlan};

/// Measure the transport on this machine, and the machine's own limit in the same run.
#[derive(Parser)]
#[command(name = "netbench", version)]
#[command(after_help = "Exit codes: 0 measured, 1 failed, 2 wrong usage. See docs/netbench.md.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Round trips of one call at a time; raw: a ping-pong over a plain socket
    Latency(Options),
    /// One-way messages a second, counted and sequence-checked by the receiver; raw: the same
    /// messages in 64 KiB writes
    Rate(Options),
    /// Bytes a second in large one-way messages; raw: a stream of 64 KiB writes
    Bandwidth(Options),
    /// Streams for tokio's programs, over each link, beside plain sockets: round trips and gathered
    /// one-way messages
    Streams(StreamsOptions),
    #[command(hide = true)]
    Serve(ServeOptions),
}

#[derive(clap::Args)]
struct Options {
    /// Link that the transport runs over
    #[arg(long, value_enum, default_value_t = LinkKind::Tcp)]
    link: LinkKind,
    #[command(flatten)]
    verbs: VerbsArgs,
    /// Bytes of a message, without headers [default: 64, bandwidth: 262144]
    #[arg(long, value_name = "BYTES", value_parser = whole)]
    size: Option<usize>,
    /// Connections between the two sides
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    connections: usize,
    /// Threads that call or produce on the client side
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    threads: usize,
    /// How an idle transport waits: busy, adaptive or park
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    poll: PollPolicy,
    /// Measured seconds of each half of a run
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = fraction)]
    seconds: f64,
    /// Seconds each half runs before it is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3, value_parser = fraction)]
    warm_up: f64,
    /// Runs of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole)]
    runs: usize,
    /// Processor of the server [default: the first this process may use, if there are two]
    #[arg(long, value_name = "CPU", value_parser = whole)]
    server_cpu: Option<usize>,
    /// Processor of the client [default: the last this process may use, if there are two]
    #[arg(long, value_name = "CPU", value_parser = whole)]
    client_cpu: Option<usize>,
    /// Leave both sides to the scheduler
    #[arg(long, conflicts_with_all = ["server_cpu", "client_cpu"])]
    unpinned: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Clone)]
struct VerbsArgs {
    /// RDMA device that verbs use [default: the first with an active port]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Index of the address (GID) that verbs use [default: the first of RoCE version 2]
    #[arg(long, value_name = "N")]
    gid_index: Option<u8>,
}

#[derive(clap::Args)]
struct ServeOptions {
    #[arg(value_enum)]
    service: Service,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    poll: PollPolicy,
    #[arg(long, value_enum)]
    link: LinkKind,
    #[command(flatten)]
    verbs: VerbsArgs,
    #[arg(long)]
    lanes: usize,
    #[arg(long)]
    cpu: Option<usize>,
}

/// What the process was started to do.
pub(crate) enum Task {
    Measure(Plan),
    Streams(StreamsPlan),
    Serve(Order),
}

/// A measurement, checked.
pub(crate) struct Plan {
    pub(crate) benchmark: Benchmark,
    pub(crate) shape: Shape,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    pub(crate) runs: usize,
    pub(crate) placement: Placement,
    /// Whether every thread of the client has a processor to spin on.
    pub(crate) can_spin: bool,
    pub(crate) json: bool,
}

/// What the server process is to serve.
pub(crate) struct Order {
    pub(crate) service: Service,
    pub(crate) size: usize,
    pub(crate) poll: PollPolicy,
    pub(crate) links: Links,
    /// Producers whose sequences are checked.
    pub(crate) lanes: usize,
    pub(crate) cpu: Option<Cpu>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Latency,
    Rate,
    Bandwidth,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkKind {
    Tcp,
    Shm,
    Verbs,
}

/// The link, and for verbs the device.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) kind: LinkKind,
    pub(crate) verbs: VerbsOptions,
}

/// The traffic: how large, over how many connections, from how many threads.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) size: usize,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) poll: PollPolicy,
    pub(crate) links: Links,
}

/// One thread's use of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) id: u32,
    pub(crate) connection: usize,
}

impl Shape {
    /// Every thread has a connection and every connection has a thread, so there are as many lanes
    /// as the larger of both.
    pub(crate) fn lanes(&self) -> usize {
        self.connections.max(self.threads)
    }

    /// The lanes that a thread takes turns over.
    pub(crate) fn lanes_of(&self, thread: usize) -> Vec<Lane> {
        (thread..self.lanes())
            .step_by(self.threads)
            .map(|lane| Lane {
                id: u32::try_from(lane).expect("lanes are limited to a few hundred"),
                connection: lane % self.connections,
            })
            .collect()
    }
}

impl Benchmark {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Benchmark::Latency => "latency",
            Benchmark::Rate => "rate",
            Benchmark::Bandwidth => "bandwidth",
        }
    }

    fn size_default(self) -> usize {
        match self {
            Benchmark::Latency | Benchmark::Rate => 64,
            Benchmark::Bandwidth => 256 << 10,
        }
    }

    fn size_min(self) -> usize {
        match self {
            Benchmark::Latency => 1,
            Benchmark::Rate | Benchmark::Bandwidth => numbered::SIZE_MIN,
        }
    }
}

impl LinkKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkKind::Tcp => "tcp",
            LinkKind::Shm => "shm",
            LinkKind::Verbs => "verbs",
        }
    }

    pub(crate) fn policy(self) -> LinkPolicy {
        match self {
            LinkKind::Tcp => LinkPolicy::Tcp,
            LinkKind::Shm => LinkPolicy::Shm,
            LinkKind::Verbs => LinkPolicy::Verbs,
        }
    }
}

/// Connections and threads: enough for any machine that two processes fit on, few enough for the
/// default descriptor limit.
const LANES_MAX: usize = 256;
const SECONDS_MAX: f64 = 3600.0;
const RUNS_MAX: usize = 1000;

impl Args {
    /// Leaves the process with exit code 2 and a message when a value is out of its range.
    pub(crate) fn into_task(self) -> Task {
        let (benchmark, options) = match self.command {
            Command::Latency(options) => (Benchmark::Latency, options),
            Command::Rate(options) => (Benchmark::Rate, options),
            Command::Bandwidth(options) => (Benchmark::Bandwidth, options),
            Command::Streams(options) => match options.into_plan() {
                Ok(plan) => return Task::Streams(plan),
                Err(message) => Args::command().error(ErrorKind::ValueValidation, message).exit(),
            },
            Command::Serve(options) => {
                return Task::Serve(Order {
                    service: options.service,
                    size: options.size,
                    poll: options.poll,
                    links: options.verbs.into_links(options.link),
                    lanes: options.lanes,
                    cpu: options.cpu.map(Cpu),
                });
            }
        };
        match options.into_plan(benchmark) {
            Ok(plan) => Task::Measure(plan),
            Err(message) => Args::command().error(ErrorKind::ValueValidation, message).exit(),
        }
    }
}

impl VerbsArgs {
    fn into_links(self, kind: LinkKind) -> Links {
        let Self { device, gid_index } = self;
        Links { kind, verbs: VerbsOptions { device, gid_index } }
    }
}

impl Options {
    fn into_plan(self, benchmark: Benchmark) -> Result<Plan, String> {
        let size = self.size.unwrap_or(benchmark.size_default());
        within("--size", size, benchmark.size_min(), weft_transport::limits::MESSAGE_MAX)?;
        within("--connections", self.connections, 1, LANES_MAX)?;
        within("--threads", self.threads, 1, LANES_MAX)?;
        within("--runs", self.runs, 1, RUNS_MAX)?;
        let placement = if self.unpinned {
            Placement::Unpinned
        } else {
            Placement::choose(self.server_cpu, self.client_cpu)?
        };
        let spinners_max = placement.spinners_max()?;
        let can_spin = self.threads <= spinners_max;
        if benchmark == Benchmark::Latency && self.poll == PollPolicy::Busy && !can_spin {
            return Err(format!(
                "--threads is {}, but with --poll busy must be at most {spinners_max}, as many as the \
                 client has processors ({placement}): more threads that spin measure the scheduler; \
                 give fewer, or --poll adaptive or park",
                self.threads
            ));
        }
        Ok(Plan {
            benchmark,
            shape: Shape {
                size,
                connections: self.connections,
                threads: self.threads,
                poll: self.poll,
                links: self.verbs.into_links(self.link),
            },
            warm_up: seconds("--warm-up", self.warm_up, 0.0)?,
            window: seconds("--seconds", self.seconds, 0.01)?,
            runs: self.runs,
            placement,
            can_spin,
            json: self.json,
        })
    }
}

fn whole(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "give a whole number")
}

fn fraction(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "give a number of seconds, such as 0.5")
}

fn within(flag: &str, value: usize, min: usize, max: usize) -> Result<(), String> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(format!("{flag} is {value}, but must be from {min} to {max}"))
    }
}

fn seconds(flag: &str, value: f64, min: f64) -> Result<Duration, String> {
    if (min..=SECONDS_MAX).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(format!("{flag} is {value}, but must be from {min} to {SECONDS_MAX} seconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Plan, String> {
        let args = Args::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
        match args.command {
            Command::Latency(options) => options.into_plan(Benchmark::Latency),
            Command::Rate(options) => options.into_plan(Benchmark::Rate),
            Command::Bandwidth(options) => options.into_plan(Benchmark::Bandwidth),
            Command::Streams(_) | Command::Serve(_) => Err("has a plan of another kind".to_owned()),
        }
    }

    #[test]
    fn a_bare_command_measures_one_connection_from_one_thread() {
        let plan = plan("netbench rate").unwrap();
        assert_eq!((plan.shape.size, plan.shape.connections, plan.shape.threads), (64, 1, 1));
    }

    #[test]
    fn values_out_of_range_name_the_flag_and_the_range() {
        for (line, expected) in [
            ("netbench rate --size 11", "--size is 11, but must be from 12 to 1048576"),
            ("netbench latency --size 0", "--size is 0, but must be from 1 to"),
            ("netbench bandwidth --size 1048577", "--size is 1048577, but must be from 12 to"),
            ("netbench latency --threads 0", "--threads is 0, but must be from 1 to 256"),
            ("netbench latency --connections 257", "--connections is 257, but must be from 1"),
            ("netbench latency --runs 0", "--runs is 0, but must be from 1 to 1000"),
            ("netbench latency --seconds 0", "--seconds is 0, but must be from 0.01 to 3600"),
            ("netbench latency --seconds NaN", "--seconds is NaN, but must be from"),
            ("netbench latency --warm-up -1", "unexpected argument '-1'"),
            ("netbench latency --server-cpu 100000", "--server-cpu is 100000, but this process"),
            ("netbench latency --poll busy --threads 1000", "--threads is 1000, but must be from"),
            (
                "netbench latency --poll busy --threads 256",
                "--threads is 256, but with --poll busy",
            ),
            ("netbench latency --size 1KiB", "give a whole number"),
            ("netbench latency --seconds 1s", "give a number of seconds, such as 0.5"),
            ("netbench latency --link carrier-pigeon", "[possible values: tcp, shm, verbs]"),
        ] {
            let message = plan(line).err().unwrap_or_else(|| panic!("{line} was accepted"));
            assert!(message.contains(expected), "{line}: {message}");
        }
    }

    #[test]
    fn only_threads_that_spin_need_a_processor_each() {
        assert!(plan("netbench latency --threads 256 --poll park").is_ok());
        assert!(plan("netbench rate --threads 256 --poll busy").is_ok());
        assert!(plan("netbench latency --poll busy").is_ok_and(|plan| plan.can_spin));
        assert!(plan("netbench latency --threads 256").is_ok_and(|plan| !plan.can_spin));
    }

    #[test]
    fn every_thread_and_every_connection_is_used() {
        for (connections, threads) in [(1, 1), (1, 4), (4, 1), (3, 2), (2, 3), (5, 5)] {
            let shape = Shape {
                size: 64,
                connections,
                threads,
                poll: PollPolicy::Park,
                links: Links { kind: LinkKind::Tcp, verbs: VerbsOptions::default() },
            };
            let lanes: Vec<Vec<Lane>> = (0..threads).map(|thread| shape.lanes_of(thread)).collect();
            assert!(lanes.iter().all(|lanes| !lanes.is_empty()), "{connections} {threads}");
            let mut ids: Vec<u32> = lanes.iter().flatten().map(|lane| lane.id).collect();
            ids.sort_unstable();
            assert!(ids.iter().map(|id| *id as usize).eq(0..connections.max(threads)));
            let mut used: Vec<usize> = lanes.iter().flatten().map(|lane| lane.connection).collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), connections);
        }
    }
}
