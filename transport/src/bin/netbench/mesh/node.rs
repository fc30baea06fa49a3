//! One node: the hidden `node` command.
//!
//! It prints its address, and then obeys: the addresses of all nodes connect it to the others, `go`
//! starts its senders, `sample` asks for what it has received, `stop` ends the senders. It ends with
//! its standard input.

use std::io::{BufRead as _, StdinLock, StdoutLock, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use clap::ValueEnum;
use weft_transport::{Clock, Connection, Endpoint, PollPolicy};

use super::plan::Case;
use crate::affinity::{self, Cpu};
use crate::links::{LinkArgs, LinkKind};
use crate::phases::{Phase, Phases};
use crate::raw;
use crate::raw::mesh_rings::RingNode;
use crate::raw::mesh_sockets::SocketNode;
use crate::shape::Shape;
use crate::tally::Tally;
use crate::weft;
use crate::weft::messages::Target;

/// What carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum NodeMethod {
    Weft,
    RawSockets,
    RawRings,
}

impl NodeMethod {
    /// The limit of the machine that a link is compared with.
    pub(crate) fn raw(link: LinkKind) -> Self {
        match link {
            LinkKind::Shm => NodeMethod::RawRings,
            LinkKind::Tcp | LinkKind::Verbs => NodeMethod::RawSockets,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            NodeMethod::Weft => "weft",
            NodeMethod::RawSockets => raw::stream::SEGMENTS,
            NodeMethod::RawRings => "ring",
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct NodeOptions {
    #[arg(value_enum)]
    method: NodeMethod,
    #[arg(long)]
    index: usize,
    #[arg(long)]
    nodes: usize,
    #[arg(long)]
    both_ways: bool,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    senders: usize,
    #[arg(long)]
    handlers: usize,
    #[arg(long)]
    poll: PollPolicy,
    #[command(flatten)]
    links: LinkArgs,
    #[arg(long)]
    cpu: Option<usize>,
}

/// The arguments by which the process of node `index` is started.
pub(super) fn arguments(
    shape: &Shape,
    case: Case,
    method: NodeMethod,
    index: usize,
    cpu: Option<Cpu>,
) -> Vec<String> {
    let name = method.to_possible_value().expect("no method is skipped");
    let mut arguments = vec!["node".to_owned(), name.get_name().to_owned()];
    for (flag, value) in [
        ("--index", index.to_string()),
        ("--nodes", case.nodes.to_string()),
        ("--size", shape.size.to_string()),
        ("--senders", shape.senders.to_string()),
        ("--handlers", shape.handlers.to_string()),
        ("--poll", shape.poll.to_string()),
    ] {
        arguments.extend([flag.to_owned(), value]);
    }
    arguments.extend(case.both_ways.then(|| "--both-ways".to_owned()));
    arguments.extend(shape.links.arguments());
    if let Some(Cpu(cpu)) = cpu {
        arguments.extend(["--cpu".to_owned(), cpu.to_string()]);
    }
    arguments
}

/// A node's side of the conversation with the process that measures.
struct Orders {
    stdin: StdinLock<'static>,
    stdout: StdoutLock<'static>,
}

impl Orders {
    /// The next order; nothing when there are no more.
    fn next(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = String::new();
        self.stdin.read_line(&mut line).context("failed to read an order")?;
        Ok((!line.is_empty()).then(|| line.trim_end().to_owned()))
    }

    fn answer(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.stdout, "{line}").and_then(|()| self.stdout.flush())?;
        Ok(())
    }
}

pub(crate) fn run(options: NodeOptions) -> anyhow::Result<()> {
    affinity::pin(options.cpu.map(Cpu))?;
    let tally = Arc::new(Tally::new(options.nodes * options.senders, options.handlers));
    let mut orders = Orders { stdin: std::io::stdin().lock(), stdout: std::io::stdout().lock() };
    match options.method {
        NodeMethod::Weft => run_weft(options, &tally, &mut orders),
        NodeMethod::RawSockets => run_sockets(&options, &tally, &mut orders),
        NodeMethod::RawRings => run_rings(&options, &tally, &mut orders),
    }
}

fn run_weft(options: NodeOptions, tally: &Arc<Tally>, orders: &mut Orders) -> anyhow::Result<()> {
    let sends = options.sends();
    let NodeOptions { index, size, senders, .. } = options;
    let handler = weft::messages::handler(Arc::clone(tally), options.handlers)?;
    let (address, endpoint) = weft::serve(
        index as u64,
        &options.links.into_links().map_err(anyhow::Error::msg)?,
        options.poll,
        handler,
    )?;
    let Some(addresses) = meet(orders, &address.to_string())? else { return Ok(()) };
    let connections = Arc::new(connect(&endpoint, index, &parsed(&addresses)?)?);
    let senders = if sends { senders } else { 0 };
    let send = {
        let endpoint = endpoint.clone();
        move |sender: usize, phases: &Phases| {
            let producer = u32::try_from(index * senders + sender)?;
            let target = |connection| Target { endpoint: &endpoint, connection, producer };
            let targets: Vec<_> = connections.iter().map(target).collect();
            weft::messages::send(&targets, size, phases)
        }
    };
    obey(orders, tally, senders, send)?;
    endpoint.shutdown();
    Ok(())
}

fn run_sockets(
    options: &NodeOptions,
    tally: &Arc<Tally>,
    orders: &mut Orders,
) -> anyhow::Result<()> {
    let node = SocketNode::listen()?;
    let Some(addresses) = meet(orders, &node.address().to_string())? else { return Ok(()) };
    let sockets = node.connect(options.index, &parsed(&addresses)?, options.size)?;
    // They stay open until the node ends: the others may still be sending when this one ceases to.
    let sockets = parking_lot::Mutex::new(sockets);
    let (size, sends, counting) = (options.size, options.sends(), Arc::clone(tally));
    obey(orders, tally, 1, move |_, phases| sockets.lock().run(size, sends, &counting, phases))
}

fn run_rings(options: &NodeOptions, tally: &Arc<Tally>, orders: &mut Orders) -> anyhow::Result<()> {
    let node = RingNode::create(options.nodes)?;
    let Some(addresses) = meet(orders, node.address())? else { return Ok(()) };
    let rings = node.connect(options.index, &addresses)?;
    let (size, sends, counting) = (options.size, options.sends(), Arc::clone(tally));
    obey(orders, tally, 1, move |_, phases| {
        rings.run(size, sends, &counting, phases);
        Ok(())
    })
}

impl NodeOptions {
    fn sends(&self) -> bool {
        self.both_ways || self.index + 1 == self.nodes
    }
}

/// Says where this node is, and returns where all are.
fn meet(orders: &mut Orders, address: &str) -> anyhow::Result<Option<Vec<String>>> {
    orders.answer(address)?;
    let Some(line) = orders.next()? else { return Ok(None) };
    let addresses = serde_json::from_str(&line)
        .with_context(|| format!("was told {line:?} instead of the nodes' addresses"))?;
    Ok(Some(addresses))
}

fn parsed(addresses: &[String]) -> anyhow::Result<Vec<SocketAddr>> {
    let parse = |address: &String| {
        address.parse().with_context(|| format!("{address:?} is not the address of a node"))
    };
    addresses.iter().map(parse).collect()
}

/// Connections to all others. Nodes do this one after the other, so those before have connected
/// already, and the attempt ends in what there is.
fn connect(
    endpoint: &Endpoint,
    index: usize,
    addresses: &[SocketAddr],
) -> anyhow::Result<Vec<Connection>> {
    let others = addresses.iter().enumerate().filter(|(node, _)| *node != index);
    let connect = |(node, address): (usize, &SocketAddr)| {
        endpoint
            .block_on(endpoint.connect(*address, weft::deadline(endpoint)))
            .with_context(|| format!("failed to connect to node {node}"))
    };
    others.map(connect).collect()
}

/// Does what is left to be done, with so many threads that send.
fn obey(
    orders: &mut Orders,
    tally: &Tally,
    threads: usize,
    send: impl Fn(usize, &Phases) -> anyhow::Result<()> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    orders.answer("connected")?;
    let (clock, phases, send) = (Clock::system(), Arc::new(Phases::new()), Arc::new(send));
    let mut running = Vec::new();
    while let Some(order) = orders.next()? {
        match order.as_str() {
            "go" => {
                running = (0..threads)
                    .map(|thread| {
                        let (phases, send) = (Arc::clone(&phases), Arc::clone(&send));
                        std::thread::spawn(move || send(thread, &phases))
                    })
                    .collect();
                orders.answer("going")?;
            }
            "sample" => {
                // A sender ends by itself only when it has failed.
                if running.iter().any(JoinHandle::is_finished) {
                    phases.set(Phase::Stop);
                    return end(running);
                }
                let sample = tally.sample(clock.now(), affinity::cpu_time());
                orders.answer(&sample.to_json().to_string())?;
            }
            "stop" => {
                phases.set(Phase::Stop);
                end(std::mem::take(&mut running))?;
                orders.answer("stopped")?;
            }
            other => anyhow::bail!("was told {other:?}, which is no order"),
        }
    }
    Ok(())
}

fn end(running: Vec<JoinHandle<anyhow::Result<()>>>) -> anyhow::Result<()> {
    running.into_iter().try_for_each(|thread| {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
