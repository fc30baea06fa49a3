//! Who calls, and how long that takes: bare calls and calls of the service in turn, so that whatever disturbs the one disturbs the other.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use weft_object::service::{Client as _, Services};
use weft_object::{Frozen, Graph};
use weft_transport::{Connection, Endpoint, Memory, MemoryConfig, NoHandler, NodeId, Purpose};

use crate::Args;
use crate::grpc;
use crate::mix;
use crate::served::{
    BlockingMeasuredClient, Callback, Element, Measured, MeasuredClient, endpoint,
};
use crate::store::{self, Store};

/// Lengths of arrays of bytes, and of lists, as J-RPC was measured with.
const BYTES: [usize; 6] = [10, 50, 100, 500, 1_000, 5_000];
const ELEMENTS: [u32; 5] = [10, 50, 100, 200, 500];

/// Lengths of texts that are echoed here and by tonic.
const ECHOES: [usize; 5] = [16, 256, 4_096, 65_536, 524_288];

/// Bytes ahead of the items of a request, and of an array or a graph.
const REQUEST_BYTES: usize = 16;
const LENGTH_BYTES: usize = 8;

/// The other process, which ends with this one.
struct Other {
    _process: Child,
    served: String,
    bare: String,
    grpc: String,
}

impl Other {
    fn start(args: &Args) -> Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &args.server_cpu.to_string()]).arg(std::env::current_exe()?);
        command.args(["--serve", "--link", &args.link.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(process.stdout.take().context("it has an output")?).lines();
        let mut address =
            || lines.next().context("the other process has ended")?.map_err(Into::into);
        let (served, bare, grpc): (Result<_>, Result<_>, Result<_>) =
            (address(), address(), address());
        Ok(Self { _process: process, served: served?, bare: bare?, grpc: grpc? })
    }
}

/// What is called, and by what.
struct Caller<'a> {
    args: &'a Args,
    bare: Connection,
    bare_endpoint: Endpoint,
    client: BlockingMeasuredClient,
}

struct Idle;

impl Callback for Idle {
    fn call(&self) {}
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let other = Other::start(args)?;
    let services = Services::new();
    let calls = endpoint(NodeId::client(1), args.link, services.handler())?;
    let bare_endpoint = endpoint(NodeId::client(2), args.link, Arc::new(NoHandler))?;
    let connect = |endpoint: &Endpoint, address: &str| -> Result<Connection> {
        let deadline = endpoint.clock().now() + Duration::from_secs(10);
        Ok(endpoint.block_on(endpoint.connect(address.parse()?, deadline))?)
    };
    let connection = connect(&calls, &other.served)?;
    let bare = connect(&bare_endpoint, &other.bare)?;
    let client = services.import_blocking::<dyn Measured>(&connection, "measured")?;
    let caller = Caller { args, bare, bare_endpoint, client: client.blocking() };
    caller.all()?;
    caller.echoes(&other.grpc)?;
    mix::run(&caller.client)?;
    let store = services.import_blocking::<dyn Store>(&connection, "store")?;
    store::run(args, &store, &calls, (&caller.bare, &caller.bare_endpoint))
}

impl Caller<'_> {
    fn all(&self) -> Result<()> {
        let client = &self.client;
        self.case("null", 0, 0, 0, || client.nothing().map_err(Into::into))?;
        self.case("four-words", 32, 32, 0, || client.four_words(1, 2, 3, 4).map_err(Into::into))?;
        let idle: Arc<dyn Callback> = Arc::new(Idle);
        self.case("service", 24, 24, 0, || client.service(Arc::clone(&idle)).map_err(Into::into))?;
        for len in BYTES {
            let bytes = vec![7; len];
            let sent = LENGTH_BYTES + len;
            self.case("bytes", len, sent, 0, || client.bytes(&bytes).map_err(Into::into))?;
        }
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 })?;
        for count in ELEMENTS {
            let list = list(&memory, count)?;
            let sent = LENGTH_BYTES + list.len_bytes() as usize;
            let build_ns = self.each(|| self::list(&memory, count).map(drop))? as u64;
            let len = count as usize;
            self.case("list", len, sent, build_ns, || client.list(&list).map_err(Into::into))?;
            self.case("list-sum", len, sent, build_ns, || {
                client.sum(&list).map(drop).map_err(Into::into)
            })?;
        }
        for len in [10, 100, 1_000, 5_000] {
            let text = "t".repeat(len);
            let sent = LENGTH_BYTES + len;
            self.case("echo", len, sent, 0, || client.echo(&text).map(drop).map_err(Into::into))?;
        }
        Ok(())
    }

    /// Echoes of texts beside tonic's.
    fn echoes(&self, address: &str) -> Result<()> {
        let mut grpc = grpc::Caller::connect(address)?;
        for len in ECHOES {
            let text = "t".repeat(len);
            let calls = self.args.calls / 10;
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..self.args.rounds {
                let began = Instant::now();
                for _ in 0..calls {
                    ensure!(grpc.echo(&text)?.len() == len, "another text comes back");
                }
                theirs.push(began.elapsed().as_nanos() as f64 / f64::from(calls));
                ours.push(self.each(|| Ok(self.client.echo(&text).map(drop)?))?);
            }
            let ratio = ours.iter().zip(&theirs).map(|(ours, theirs)| theirs / ours).collect();
            let report = json!({
                "case": "tonic",
                "size": len,
                "ns": { "tonic": median(theirs), "service": median(ours) },
                "ratio": median(ratio),
            });
            println!("{report}");
        }
        Ok(())
    }

    /// Measures one case beside bare calls: with no bytes, and with as many as the request has.
    fn case(
        &self,
        name: &str,
        size: usize,
        sent: usize,
        build_ns: u64,
        call: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let (mut empty, mut alike, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        let mut like = vec![0; REQUEST_BYTES + sent];
        if name == "echo" {
            like[0] = b'=';
        }
        for _ in 0..self.args.rounds {
            empty.push(self.each(|| self.bare(&[]))?);
            alike.push(self.each(|| self.bare(&like))?);
            ours.push(self.each(&call)?);
        }
        let ratio = |to: &[f64]| median(ours.iter().zip(to).map(|(ours, to)| ours / to).collect());
        let (to_empty, to_alike) = (ratio(&empty), ratio(&alike));
        let [empty, alike, ours] = [empty, alike, ours].map(median);
        let report = json!({
            "case": name,
            "size": size,
            "request_bytes": REQUEST_BYTES + sent,
            "build_ns": build_ns,
            "ns": { "bare": empty, "bare_alike": alike, "service": ours },
            "ratio": { "bare": to_empty, "bare_alike": to_alike },
        });
        println!("{report}");
        Ok(())
    }

    /// Nanoseconds that each of many takes.
    fn each(&self, call: impl Fn() -> Result<()>) -> Result<f64> {
        let began = Instant::now();
        for _ in 0..self.args.calls {
            call()?;
        }
        Ok(began.elapsed().as_nanos() as f64 / f64::from(self.args.calls))
    }

    fn bare(&self, body: &[u8]) -> Result<()> {
        let deadline = self.bare_endpoint.clock().now() + Duration::from_secs(10);
        let reply = self.bare_endpoint.block_on(self.bare.call(body, deadline))?;
        std::hint::black_box(&*reply);
        Ok(())
    }
}

fn list(memory: &Memory, count: u32) -> Result<Frozen<Element>> {
    let built = Graph::build(memory, Purpose::Send, MeasuredClient::types(), |graph| {
        let mut next = None;
        for number in 1..count {
            next = Some(graph.alloc(Element { next, number })?.link());
        }
        graph.alloc(Element { next, number: 0 })
    });
    Ok(built?)
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
