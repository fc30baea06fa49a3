//! What large replies do to small calls over the same connection: the round trip of 1 KiB calls of one
//! thread, without anything else, while another thread takes ten replies of 10 MB a second, and while it reads
//! as many bytes of one streamed body, 10 MB as fast as they come every tenth of a second.
//!
//! ```text
//! cargo run --release --example beside_large_replies -- [tcp|shm] [ROUNDS] [SECONDS]
//! ```
//!
//! The server is a process of its own. The last line has the medians over all rounds.

#![expect(clippy::disallowed_methods, reason = "an example is a program, and starts another")]
#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weft_transport::{
    Batch, Connection, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, LinkPolicy,
    Memory, MemoryConfig, NoHandler, NodeId, Purpose, Shared,
};

const LARGE: usize = 10_000_000;

const EVERY: Duration = Duration::from_millis(100);

const PATIENCE: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Replies with the request, or to an empty one with many bytes that lie there anyway, or to one of a byte
/// with a body of them that has no end.
struct Server {
    large: Shared,
}

impl Handler for Server {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            match incoming.body.len() {
                0 => batch.reply_shared(call, incoming.body, self.large.clone()),
                1 => {
                    let Ok(mut writer) = batch.reply_body(call, incoming.body) else { continue };
                    let large = self.large.clone();
                    // Until the reader has had enough.
                    std::thread::spawn(move || {
                        while writer.write_shared_blocking(large.clone()).is_ok() {}
                    });
                }
                _ => batch.reply(call, incoming.body),
            }
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_else(|| "tcp".into());
    if first == "serve" {
        return serve(arguments.next().ok_or("serve on which link?")?.parse()?);
    }
    let links: LinkPolicy = first.parse()?;
    let rounds = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let seconds = arguments.next().map_or(Ok(2.0), |seconds| seconds.parse())?;
    let time = Duration::from_secs_f64(seconds);
    let (mut server, address) = start_server(&first)?;
    let endpoint = start(NodeId::client(1), links, Arc::new(NoHandler))?;
    let deadline = endpoint.clock().now() + PATIENCE;
    let connection = endpoint.block_on(endpoint.connect(address, deadline))?;
    small_calls(&endpoint, &connection, time)?;
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let alone = small_calls(&endpoint, &connection, time)?;
        let (large, replies) = beside(&endpoint, &connection, time, take_large)?;
        let (streamed, parts) = beside(&endpoint, &connection, time, read_body)?;
        let [replies, parts] = [replies, parts].map(|taken| taken as f64 / time.as_secs_f64());
        println!(
            "alone {alone:.1?} us, beside {replies:.1} large replies a second {large:.1?} us, beside a body of \
             {parts:.1} x 10 MB a second {streamed:.1?} us"
        );
        all[0].push(alone);
        all[1].push(large);
        all[2].push(streamed);
    }
    let [alone, large, streamed] = all.map(|figures| {
        [0, 1, 2].map(|quantile| {
            let mut sorted: Vec<f64> = figures.iter().map(|figures| figures[quantile]).collect();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
        })
    });
    let ratios = [large, streamed].map(|figures| figures[2] / alone[2]);
    println!(
        "{} p50, p99, p99.9: alone {alone:.1?} us, beside large replies {large:.1?} us, p99.9 x {:.2}; beside a \
         body {streamed:.1?} us, p99.9 x {:.2}",
        connection.link(),
        ratios[0],
        ratios[1]
    );
    endpoint.shutdown();
    server.kill()?;
    server.wait()?;
    Ok(())
}

/// What another thread does meanwhile: takes 10 MB whenever it is called, until it is dropped.
type Take<'a> = Box<dyn FnMut() -> Result<(), Failure> + 'a>;

/// The quantiles of small calls while another thread takes 10 MB at a time, and how often it did.
fn beside(
    endpoint: &Endpoint,
    connection: &Connection,
    time: Duration,
    begin: for<'a> fn(&'a Endpoint, &'a Connection) -> Result<Take<'a>, Failure>,
) -> Result<([f64; 3], u64), Failure> {
    let (over, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let large = || -> Result<(), Failure> {
        let mut take = begin(endpoint, connection)?;
        let mut next = endpoint.clock().now();
        while !over.load(Ordering::SeqCst) {
            next = next + EVERY;
            take()?;
            taken.fetch_add(1, Ordering::SeqCst);
            endpoint.block_on(endpoint.sleep_until(next));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let large = scope.spawn(large);
        let small = small_calls(endpoint, connection, time);
        over.store(true, Ordering::SeqCst);
        large.join().map_err(|_| "the thread beside small calls panicked")??;
        Ok((small?, taken.load(Ordering::SeqCst)))
    })
}

fn take_large<'a>(endpoint: &'a Endpoint, connection: &'a Connection) -> Result<Take<'a>, Failure> {
    Ok(Box::new(move || {
        let deadline = endpoint.clock().now() + PATIENCE;
        let reply = endpoint.block_on(connection.call(&b""[..], deadline))?;
        assert_eq!(reply.len(), LARGE);
        Ok(())
    }))
}

fn read_body<'a>(endpoint: &'a Endpoint, connection: &'a Connection) -> Result<Take<'a>, Failure> {
    let deadline = endpoint.clock().now() + PATIENCE;
    let reply = endpoint.block_on(connection.call(b"s", deadline))?;
    let mut body = reply.take_body().ok_or("no body")?;
    Ok(Box::new(move || {
        let end = body.taken() + LARGE as u64;
        while body.taken() < end {
            body.next_blocking()?.ok_or("the body has ended")?;
        }
        Ok(())
    }))
}

/// The p50, p99 and p99.9 of calls of 1 KiB, one after the other, in microseconds.
fn small_calls(
    endpoint: &Endpoint,
    connection: &Connection,
    time: Duration,
) -> Result<[f64; 3], Failure> {
    let end = endpoint.clock().now() + time;
    let mut nanos = Vec::new();
    let body = [7; 1024];
    loop {
        let asked = endpoint.clock().now();
        if asked >= end {
            break;
        }
        endpoint.block_on(connection.call(&body, asked + PATIENCE))?;
        nanos.push(endpoint.clock().now().since(asked).as_nanos() as f64);
    }
    nanos.sort_by(f64::total_cmp);
    Ok([0.5, 0.99, 0.999].map(|part| nanos[(nanos.len() as f64 * part) as usize] / 1000.0))
}

fn start(node: NodeId, links: LinkPolicy, handler: Arc<dyn Handler>) -> Result<Endpoint, Failure> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 30 })?;
    let mut config = EndpointConfig::new(node, Incarnation(1), memory);
    config.links = links;
    Ok(Endpoint::start(config, handler)?)
}

fn serve(links: LinkPolicy) -> Result<(), Failure> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 })?;
    let mut block = memory.allocate(LARGE, Purpose::Log)?;
    block.mark_touched(LARGE);
    block.fill(3);
    let large = block.freeze().slice(0..LARGE);
    let endpoint = start(NodeId(1), links, Arc::new(Server { large }))?;
    println!("{}", endpoint.listen(([127, 0, 0, 1], 0).into())?);
    std::io::stdout().flush()?;
    // Until who started it is gone.
    std::io::stdin().lines().for_each(drop);
    endpoint.shutdown();
    Ok(())
}

fn start_server(links: &str) -> Result<(Child, SocketAddr), Failure> {
    let mut server = Command::new(std::env::current_exe()?)
        .args(["serve", links])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = server.stdout.take().ok_or("no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok((server, line.trim().parse()?))
}
