//! The process that sends and measures.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rkyv::api::high::to_bytes_in;
use rkyv::rancor::Error;
use rkyv::util::AlignedVec;
use serde_json::{Value, json};
use weft_object::channel::GraphSender;
use weft_object::{Frozen, Graph, Types};
use weft_transport::{Connection, Endpoint, Memory, NoHandler, NodeId, Purpose, Shared, Time};

use crate::heap::Model;
use crate::measuring::{self, Flight};
use crate::shapes::{self, Data, Floats, Pairs, Points, Shape};
use crate::speech::{self, Format, Verb};
use crate::{Args, Experiment};

/// The longest body that is copied into a call; longer ones are gathered from where they lie, by Weft as by what is raw.
const COPIED_MAX: usize = 32 << 10;
/// Bytes of a message's part.
const PART_BYTES: usize = 1 << 20;
/// The logarithm of how many elements streams have, and a graph that is checked as it comes.
const MANY: u32 = 20;
/// How often each of these is taken.
const TIMES: usize = 9;

/// What is needed to send.
struct Sender {
    endpoint: Endpoint,
    connection: Connection,
    memory: Memory,
    types: Types,
    graphs: GraphSender,
    seconds: f64,
    link: String,
    _receiver: Receiver,
}

/// The other process; ended by the end of its standard input.
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Whatever it ends with, the figures are taken.
        let _ = self.0.wait();
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut sender = Sender::start(args)?;
    let is_wanted = |one| args.experiment.is_empty() || args.experiment.contains(&one);
    let experiments = Experiment::value_variants().iter().filter(|one| is_wanted(**one));
    for experiment in experiments {
        sender.take::<Floats>(*experiment, Shape::Floats, &args.elements)?;
        sender.take::<Points>(*experiment, Shape::Points, &args.elements)?;
        sender.take::<Pairs>(*experiment, Shape::Pairs, &args.elements)?;
    }
    Ok(())
}

/// What is sent, in one of the formats, ready to leave.
enum Ready<D: Data> {
    Graph(Frozen<D::Root>),
    Raw(Shared),
    Model(D::Model),
}

impl Sender {
    fn start(args: &Args) -> Result<Sender> {
        let program = std::env::current_exe()?;
        let mut command = match args.receiver_cpu {
            Some(cpu) => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", &cpu.to_string()]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let link = args.link.to_string();
        command.args(["--receive", "--link", &link]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut receiver = Receiver(command.spawn().context("failed to start the receiver")?);
        let stdout = receiver.0.stdout.take().context("the receiver's output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address: SocketAddr = line.trim().parse().context("the receiver's address")?;
        let config = crate::config(NodeId::client(1), args.link)?;
        let memory = config.memory.clone();
        let endpoint = Endpoint::start(config, std::sync::Arc::new(NoHandler))?;
        let types = shapes::types();
        let (connection, graphs) = endpoint.block_on(async {
            let connection = endpoint.connect(address, Time::MAX).await?;
            let graphs = GraphSender::open(&connection, &types, Time::MAX).await?;
            anyhow::Ok((connection, graphs))
        })?;
        let seconds = args.seconds;
        let _receiver = receiver;
        Ok(Sender { endpoint, connection, memory, types, graphs, seconds, link, _receiver })
    }

    fn take<D: Data>(
        &mut self,
        experiment: Experiment,
        shape: Shape,
        elements: &[u32],
    ) -> Result<()> {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        let link = self.link.clone();
        let report = |format: Format, logarithm: u32, found: Value| {
            let found = json!({
                "experiment": name(experiment.to_possible_value()),
                "link": link,
                "shape": name(shape.to_possible_value()),
                "format": name(format.to_possible_value()),
                "logarithm": logarithm,
                "found": found,
            });
            println!("{found}");
        };
        match experiment {
            Experiment::Lending if shape == Shape::Floats => {
                for logarithm in 10..=20 {
                    let found = self.lending(logarithm)?;
                    report(Format::Weft, logarithm, found);
                }
            }
            Experiment::Lending => {}
            Experiment::Pipelining => {
                let found = self.pipelining::<D>(shape)?;
                report(Format::Weft, MANY, found);
            }
            Experiment::Streaming => {
                for logarithm in (4..=16).step_by(2) {
                    for format in [Format::Weft, Format::Rkyv, Format::Bitcode] {
                        let found = self.streaming::<D>(shape, format, logarithm)?;
                        report(format, logarithm, found);
                    }
                }
            }
            Experiment::Latency | Experiment::Throughput => {
                for &logarithm in elements {
                    for &format in Format::value_variants() {
                        let ready = self.ready::<D>(format, 1 << logarithm)?;
                        let bytes = self.verify(shape, format, &ready, 1 << logarithm)?;
                        let found = if experiment == Experiment::Latency {
                            self.latency(shape, format, &ready)?
                        } else {
                            json!({ "rate": self.rate(shape, format, &ready)? })
                        };
                        report(format, logarithm, json!({ "bytes": bytes, "took": found }));
                    }
                }
            }
        }
        Ok(())
    }

    fn graph<D: Data>(&self, count: usize) -> Result<Frozen<D::Root>> {
        Ok(Graph::build(&self.memory, Purpose::Send, &self.types, |graph| D::build(graph, count))?)
    }

    fn ready<D: Data>(&self, format: Format, count: usize) -> Result<Ready<D>> {
        Ok(match format {
            Format::Weft => Ready::Graph(self.graph::<D>(count)?),
            Format::Raw => {
                let len = self.graph::<D>(count)?.len_bytes() as usize;
                let mut block = self.memory.allocate(len, Purpose::Send)?;
                block.mark_touched(len);
                block[..len].fill(b'r');
                Ready::Raw(block.freeze().narrow(0..len))
            }
            Format::Rkyv | Format::Bitcode => Ready::Model(D::Model::build(count)),
        })
    }

    /// Sends it once, and looks whether it arrives as what it is. Returns how many bytes leave.
    fn verify<D: Data>(
        &mut self,
        shape: Shape,
        format: Format,
        ready: &Ready<D>,
        count: usize,
    ) -> Result<u64> {
        let mut encoder = Encoder::default();
        let Self { endpoint, graphs, connection, .. } = self;
        let (sum, bytes) = match ready {
            Ready::Raw(bytes) => return Ok(bytes.len() as u64),
            Ready::Graph(graph) => {
                endpoint.block_on(graphs.send(graph, Time::MAX))?;
                // It is received by another thread there.
                std::thread::sleep(std::time::Duration::from_millis(20));
                let asked = speech::encode(shape, Verb::Sum);
                let reply = endpoint.block_on(connection.call(&asked, Time::MAX))?;
                (measuring::sum(&reply), graph.len_bytes())
            }
            Ready::Model(model) => {
                let head = speech::encode(shape, Verb::Whole { format, is_summed: true });
                let bytes = encoder.encode::<D>(format, model)?;
                let reply = endpoint.block_on(connection.call([&head[..], bytes], Time::MAX))?;
                (measuring::sum(&reply), bytes.len() as u64)
            }
        };
        let (sum, expected) =
            (sum.context("the receiver refuses it")?, D::Model::build(count).sum());
        // Floats are added up in another order.
        let is_near = (sum - expected).abs() <= expected.abs() * 1e-3;
        ensure!(is_near || shape == Shape::Floats && count < 8, "{sum} is not {expected}");
        Ok(bytes)
    }

    fn latency<D: Data>(
        &mut self,
        shape: Shape,
        format: Format,
        ready: &Ready<D>,
    ) -> Result<Value> {
        let mut encoder = Encoder::default();
        let Self { endpoint, graphs, connection, seconds, .. } = self;
        measuring::latency(*seconds, || {
            endpoint.block_on(async {
                match ready {
                    Ready::Graph(graph) => Ok(graphs.send(graph, Time::MAX).await?),
                    _ => {
                        start(connection, graphs, shape, format, ready, &mut encoder)
                            .await?
                            .land()
                            .await
                    }
                }
            })
        })
    }

    fn rate<D: Data>(&mut self, shape: Shape, format: Format, ready: &Ready<D>) -> Result<f64> {
        let mut encoder = Encoder::default();
        let Self { endpoint, graphs, connection, seconds, .. } = self;
        endpoint.block_on(measuring::rate(*seconds, async || {
            start(connection, graphs, shape, format, ready, &mut encoder).await
        }))
    }

    /// All elements from what they are made of to where they are used, `2^logarithm` at a time: elements in a second.
    fn streaming<D: Data>(
        &mut self,
        shape: Shape,
        format: Format,
        logarithm: u32,
    ) -> Result<Value> {
        let mut encoder = Encoder::default();
        let (chunk, chunks) = (1 << logarithm, 1_usize << (MANY - logarithm));
        let mut rates = Vec::new();
        for _ in 0..TIMES.min(5) {
            let begun = Instant::now();
            let mut under_way = std::collections::VecDeque::new();
            for _ in 0..chunks {
                let ready = self.ready::<D>(format, chunk)?;
                let Self { endpoint, graphs, connection, .. } = self;
                endpoint.block_on(async {
                    let flight = start(connection, graphs, shape, format, &ready, &mut encoder);
                    under_way.push_back(flight.await?);
                    if under_way.len() > measuring::TOGETHER
                        && let Some(first) = under_way.pop_front()
                    {
                        first.land().await?;
                    }
                    anyhow::Ok(())
                })?;
            }
            for flight in under_way {
                self.endpoint.block_on(flight.land())?;
            }
            rates.push(f64::from(1 << MANY) / begun.elapsed().as_secs_f64());
        }
        rates.sort_by(f64::total_cmp);
        Ok(json!({ "rate": rates[rates.len() / 2] }))
    }

    /// Building and sending a graph with floats that lie elsewhere, `2^logarithm` bytes of them: microseconds.
    fn lending(&mut self, logarithm: u32) -> Result<Value> {
        let len = 1 << logarithm;
        let mut block = self.memory.allocate(len, Purpose::Send)?;
        block.mark_touched(len);
        block[..len].fill(0);
        let floats = block.freeze().narrow(0..len);
        let Self { endpoint, graphs, memory, types, seconds, .. } = self;
        let mut took = |shared_min: usize| {
            measuring::latency(*seconds, || {
                let graph = Graph::build(memory, Purpose::Send, types, |graph| {
                    let floats = graph.seq_shared_from::<f32>(shared_min, &floats)?;
                    graph.alloc(floats)
                })?;
                Ok(endpoint.block_on(graphs.send(&graph, Time::MAX))?)
            })
        };
        let (copied, lent) = (took(usize::MAX)?, took(0)?);
        Ok(json!({ "copied": copied, "lent": lent }))
    }

    /// A large graph, checked while it comes, and when all of it is there: microseconds.
    fn pipelining<D: Data>(&mut self, shape: Shape) -> Result<Value> {
        let graph = self.graph::<D>(1 << MANY)?;
        let Self { endpoint, graphs, connection, .. } = self;
        let (mut piped, mut late) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let begun = Instant::now();
            endpoint.block_on(graphs.send(&graph, Time::MAX))?;
            piped.push(begun.elapsed().as_secs_f64() * 1e6);
            let begun = Instant::now();
            let reply = endpoint.block_on(async {
                for (number, segment) in (0..).zip(graph.segments()) {
                    let part = speech::encode(shape, Verb::Part(number));
                    let head = [&part[..], segment.head()];
                    connection.send_shared(head, segment.pages().clone()).await?;
                }
                let check = Verb::CheckParts(graph.segments().len() as u32);
                let check = speech::encode(shape, check);
                anyhow::Ok(connection.call(&check, Time::MAX).await?)
            })?;
            late.push(begun.elapsed().as_secs_f64() * 1e6);
            ensure!(measuring::is_fine(&reply), "the receiver refuses the parts");
        }
        let [piped, late] = [piped, late].map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        let segments = graph.segments().len();
        Ok(json!({ "as_it_comes": piped, "when_all_is_there": late, "segments": segments }))
    }
}

/// Has it leave.
async fn start<D: Data>(
    connection: &Connection,
    graphs: &mut GraphSender,
    shape: Shape,
    format: Format,
    ready: &Ready<D>,
    encoder: &mut Encoder,
) -> Result<Flight> {
    let whole = speech::encode(shape, Verb::Whole { format, is_summed: false });
    Ok(match ready {
        Ready::Graph(graph) => Flight::Graph(graphs.send_async(graph, Time::MAX).await?),
        Ready::Raw(bytes) if bytes.len() > COPIED_MAX => {
            let part = speech::encode(shape, Verb::Part(0));
            for begin in (0..bytes.len()).step_by(PART_BYTES - 4096) {
                let end = bytes.len().min(begin + PART_BYTES - 4096);
                connection.send_shared(&part, bytes.slice(begin..end)).await?;
            }
            Flight::Call(connection.call_streamed(&whole, Time::MAX).await?)
        }
        Ready::Raw(bytes) => {
            Flight::Call(connection.call_streamed([&whole[..], bytes], Time::MAX).await?)
        }
        Ready::Model(model) => {
            let bytes = encoder.encode::<D>(format, model)?;
            Flight::Call(connection.call_streamed([&whole[..], bytes], Time::MAX).await?)
        }
    })
}

/// What keeps its memory from one encoding to the next.
#[derive(Default)]
struct Encoder {
    archive: AlignedVec<16>,
    bitcode: bitcode::Buffer,
}

impl Encoder {
    fn encode<D: Data>(&mut self, format: Format, model: &D::Model) -> Result<&[u8]> {
        if format == Format::Bitcode {
            return Ok(self.bitcode.encode(model));
        }
        self.archive.clear();
        self.archive = to_bytes_in::<_, Error>(model, std::mem::take(&mut self.archive))?;
        Ok(&self.archive)
    }
}
