//! The command line, parsed into a [`Task`] of which every value is good.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use weft_transport::PollPolicy;

use crate::affinity::{Cpu, Placement, PlacementArgs};
use crate::apart::{ApartOptions, ApartPlan};
use crate::beside::plan::{BesideOptions, BesidePlan};
use crate::bounds::{self, fraction, whole, within};
use crate::buffers::plan::{BuffersOptions, BuffersPlan};
use crate::idle::{IdleOptions, IdlePlan};
use crate::links::{LinkArgs, Links};
use crate::mesh::node::NodeOptions;
use crate::mesh::plan::{AllToAllOptions, BidirectionalOptions, MeshPlan};
use crate::peers::plan::{PeersOptions, PeersPlan};
use crate::serve::Service;
use crate::shape::Shape;
use crate::sizes::plan::{SizesOptions, SizesPlan};
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
    /// Bytes a second in large one-way messages, or in streamed bodies; raw: a stream of 64 KiB writes, and of
    /// writes of one segment
    Bandwidth(BandwidthOptions),
    /// Streams for tokio's programs, over each link, beside plain sockets: round trips and gathered
    /// one-way messages
    Streams(StreamsOptions),
    /// Messages that are copied, and messages from and into registered buffers, beside the raw link: round
    /// trips and bandwidth by size, and from which size on registering beats copying
    Buffers(BuffersOptions),
    /// Messages that two processes send to each other, beside the same one way; raw: plain
    /// sockets both ways, or bare rings
    Bidirectional(BidirectionalOptions),
    /// Messages that all of several processes send to all others; raw: sockets or rings likewise
    AllToAll(AllToAllOptions),
    /// Messages of every size from 1 B to 1 MiB, by number and by bytes, as a table and a figure
    Sizes(SizesOptions),
    /// Small calls of one thread while another takes large replies, or reads a streamed body, over the same
    /// connection, beside the same calls alone
    Beside(BesideOptions),
    /// Processor time of a node that is connected and hears nothing; raw: blocking sockets
    Idle(IdleOptions),
    /// How long a cache line takes between the two processors and back, and whether the host moves them meanwhile
    Apart(ApartOptions),
    /// What UCX, libfabric and MPI reach here, as far as they are installed, beside Weft and raw
    Peers(PeersOptions),
    #[command(hide = true)]
    Serve(ServeOptions),
    #[command(hide = true)]
    Node(NodeOptions),
}

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    links: LinkArgs,
    /// Bytes of a message, without headers [default: 64, bandwidth: 262144]
    #[arg(long, value_name = "BYTES", value_parser = whole)]
    size: Option<usize>,
    /// Connections between the two sides
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    connections: usize,
    /// Threads that call or produce on the client side
    #[arg(long, visible_alias = "threads", value_name = "N", default_value_t = 1, value_parser = whole)]
    senders: usize,
    /// Threads that handle one-way messages at the receiver: 1 is the thread that receives, more are a
    /// pool beside it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    handlers: usize,
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
    #[command(flatten)]
    placement: PlacementArgs,
    /// Leave both sides to the scheduler
    #[arg(long, conflicts_with_all = ["server_cpu", "client_cpu"])]
    unpinned: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct BandwidthOptions {
    #[command(flatten)]
    options: Options,
    /// Send streamed bodies of so many bytes, one after the other, in writes of --size
    #[arg(long, value_name = "BYTES", value_parser = whole)]
    body: Option<usize>,
}

impl BandwidthOptions {
    fn into_plan(self) -> Result<Plan, String> {
        let mut plan = self.options.into_plan(Benchmark::Bandwidth)?;
        if let Some(body) = self.body {
            within("--body", body, 1, bounds::BODY_MAX)?;
            if plan.shape.handlers > 1 {
                let handlers = plan.shape.handlers;
                return Err(format!(
                    "--handlers is {handlers}, but each body is read by a thread of its own: leave it out, or \
                     measure messages"
                ));
            }
            plan.shape.body = Some(body as u64);
        }
        Ok(plan)
    }
}

#[derive(clap::Args)]
struct ServeOptions {
    #[arg(value_enum)]
    service: Service,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    poll: PollPolicy,
    #[command(flatten)]
    links: LinkArgs,
    #[arg(long)]
    lanes: usize,
    #[arg(long)]
    handlers: usize,
    #[arg(long)]
    cpu: Option<usize>,
}

/// What the process was started to do.
pub(crate) enum Task {
    Measure(Plan),
    Streams(StreamsPlan),
    Buffers(BuffersPlan),
    Mesh(MeshPlan),
    Sizes(SizesPlan),
    Beside(BesidePlan),
    Idle(IdlePlan),
    Apart(ApartPlan),
    Peers(PeersPlan),
    Serve(Order),
    Node(NodeOptions),
}

/// A measurement between two processes, checked.
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

impl Plan {
    /// One run of a command that measures in runs of its own, nothing of it printed.
    pub(crate) fn one_run(
        benchmark: Benchmark,
        shape: Shape,
        warm_up: Duration,
        window: Duration,
        placement: Placement,
    ) -> Self {
        let can_spin = true;
        Self { benchmark, shape, warm_up, window, runs: 1, placement, can_spin, json: false }
    }
}

/// What the server process is to serve.
pub(crate) struct Order {
    pub(crate) service: Service,
    pub(crate) size: usize,
    pub(crate) poll: PollPolicy,
    pub(crate) links: Links,
    /// Producers whose sequences are checked.
    pub(crate) lanes: usize,
    /// Threads that handle one-way messages.
    pub(crate) handlers: usize,
    pub(crate) cpu: Option<Cpu>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Latency,
    Rate,
    Bandwidth,
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
}

impl Args {
    /// Leaves the process with exit code 2 and a message when a value is out of its range.
    pub(crate) fn into_task(self) -> Task {
        let task = match self.command {
            Command::Latency(options) => options.into_plan(Benchmark::Latency).map(Task::Measure),
            Command::Rate(options) => options.into_plan(Benchmark::Rate).map(Task::Measure),
            Command::Bandwidth(options) => options.into_plan().map(Task::Measure),
            Command::Streams(options) => options.into_plan().map(Task::Streams),
            Command::Buffers(options) => options.into_plan().map(Task::Buffers),
            Command::Bidirectional(options) => options.into_plan().map(Task::Mesh),
            Command::AllToAll(options) => options.into_plan().map(Task::Mesh),
            Command::Sizes(options) => options.into_plan().map(Task::Sizes),
            Command::Beside(options) => options.into_plan().map(Task::Beside),
            Command::Idle(options) => options.into_plan().map(Task::Idle),
            Command::Apart(options) => options.into_plan().map(Task::Apart),
            Command::Peers(options) => options.into_plan().map(Task::Peers),
            Command::Node(options) => Ok(Task::Node(options)),
            Command::Serve(options) => options.into_order().map(Task::Serve),
        };
        task.unwrap_or_else(|message| {
            Args::command().error(ErrorKind::ValueValidation, message).exit()
        })
    }
}

impl ServeOptions {
    fn into_order(self) -> Result<Order, String> {
        Ok(Order {
            service: self.service,
            size: self.size,
            poll: self.poll,
            links: self.links.into_links()?,
            lanes: self.lanes,
            handlers: self.handlers,
            cpu: self.cpu.map(Cpu),
        })
    }
}

impl Options {
    fn into_plan(self, benchmark: Benchmark) -> Result<Plan, String> {
        let size = self.size.unwrap_or(benchmark.size_default());
        within("--size", size, 1, bounds::SIZE_MAX)?;
        within("--connections", self.connections, 1, bounds::LANES_MAX)?;
        within("--senders", self.senders, 1, bounds::LANES_MAX)?;
        within("--handlers", self.handlers, 1, bounds::HANDLERS_MAX)?;
        if benchmark == Benchmark::Latency && self.handlers > 1 {
            let handlers = self.handlers;
            return Err(format!(
                "--handlers is {handlers}, but calls are answered by the thread that receives them: leave \
                 it out, or measure rate or bandwidth"
            ));
        }
        let placement =
            if self.unpinned { Placement::Unpinned } else { self.placement.into_placement()? };
        let spinners_max = placement.spinners_max()?;
        let can_spin = self.senders <= spinners_max;
        if benchmark == Benchmark::Latency && self.poll == PollPolicy::Busy && !can_spin {
            return Err(format!(
                "--senders is {}, but with --poll busy must be at most {spinners_max}, as many as the \
                 client has processors ({placement}): more threads that spin measure the scheduler; \
                 give fewer, or --poll adaptive or park",
                self.senders
            ));
        }
        let shape = Shape {
            size,
            connections: self.connections,
            senders: self.senders,
            handlers: self.handlers,
            poll: self.poll,
            links: self.links.into_links()?,
            body: None,
        };
        if benchmark != Benchmark::Latency {
            bounds::producers(size, shape.lanes())?;
        }
        Ok(Plan {
            benchmark,
            shape,
            warm_up: bounds::warm_up(self.warm_up)?,
            window: bounds::window(self.seconds)?,
            runs: bounds::runs(self.runs)?,
            placement,
            can_spin,
            json: self.json,
        })
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
            Command::Bandwidth(options) => options.into_plan(),
            _ => Err("has a plan of another kind".to_owned()),
        }
    }

    #[test]
    fn a_bare_command_measures_one_connection_from_one_thread() {
        let plan = plan("netbench rate").unwrap();
        assert_eq!((plan.shape.size, plan.shape.connections, plan.shape.senders), (64, 1, 1));
    }

    #[test]
    fn values_out_of_range_name_the_flag_and_the_range() {
        for (line, expected) in [
            ("netbench rate --size 0", "--size is 0, but must be from 1 to 1048576"),
            (
                "netbench rate --size 1 --senders 17",
                "1 bytes can tell 16 senders apart, but there are 17",
            ),
            ("netbench latency --size 0", "--size is 0, but must be from 1 to"),
            ("netbench bandwidth --size 1048577", "--size is 1048577, but must be from 1 to"),
            ("netbench latency --senders 0", "--senders is 0, but must be from 1 to 256"),
            ("netbench latency --connections 257", "--connections is 257, but must be from 1"),
            ("netbench latency --runs 0", "--runs is 0, but must be from 1 to 1000"),
            ("netbench latency --seconds 0", "--seconds is 0, but must be from 0.01 to 3600"),
            ("netbench latency --seconds NaN", "--seconds is NaN, but must be from"),
            ("netbench latency --warm-up -1", "unexpected argument '-1'"),
            ("netbench latency --server-cpu 100000", "--server-cpu is 100000, but this process"),
            ("netbench latency --poll busy --threads 1000", "--senders is 1000, but must be from"),
            (
                "netbench latency --poll busy --threads 256",
                "--senders is 256, but with --poll busy",
            ),
            ("netbench latency --size 1KiB", "give a whole number"),
            ("netbench latency --seconds 1s", "give a number of seconds, such as 0.5"),
            ("netbench bandwidth --body 0", "--body is 0, but must be from 1 to"),
            (
                "netbench bandwidth --body 1 --handlers 2",
                "each body is read by a thread of its own",
            ),
            ("netbench latency --body 1", "unexpected argument '--body'"),
            (
                "netbench latency --device mlx5_0",
                "--device is for verbs, but --link is tcp: leave it out",
            ),
            ("netbench rate --link shm --gid-index 1", "--gid-index is for verbs"),
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
}
