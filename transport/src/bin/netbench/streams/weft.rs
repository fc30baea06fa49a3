//! The streams themselves: a task a connection, on one thread at each side.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use weft_transport::{Clock, PollPolicy, StreamConfig, WeftListener, WeftStream};

use crate::links::Links;
use crate::phases::{Phase, Phases};
use crate::quantiles;
use crate::raw::WRITE_BYTES;
use crate::shape::Shape;
use crate::tally::Tally;

pub(crate) fn serve_echo(
    links: &Links,
    poll: PollPolicy,
    size: usize,
) -> anyhow::Result<SocketAddr> {
    serve_each(links, poll, move |mut stream| async move {
        let mut message = vec![0_u8; size];
        loop {
            stream.read_exact(&mut message).await?;
            stream.write_all(&message).await?;
        }
    })
}

pub(crate) fn serve_sink(
    links: &Links,
    poll: PollPolicy,
    clock: Clock,
    tally: Arc<Tally>,
) -> anyhow::Result<SocketAddr> {
    serve_each(links, poll, move |mut stream| {
        let (clock, tally) = (clock.clone(), Arc::clone(&tally));
        async move {
            let mut buffer = vec![0_u8; WRITE_BYTES];
            loop {
                let read = stream.read(&mut buffer).await?;
                if read == 0 {
                    return Ok(());
                }
                tally.batch(clock.now()).count(1, read);
            }
        }
    })
}

/// Serves each stream by a task. A stream that fails is the client's to report.
fn serve_each<F>(
    links: &Links,
    poll: PollPolicy,
    serve: impl Fn(WeftStream) -> F + Send + 'static,
) -> anyhow::Result<SocketAddr>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let runtime = runtime()?;
    let config = config(links, poll);
    let listener = runtime
        .block_on(WeftListener::bind((Ipv4Addr::LOCALHOST, 0), config))
        .context("failed to listen")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    Ok(address)
}

/// Round trips of all connections at once.
pub(super) fn ping(
    address: SocketAddr,
    shape: &Shape,
    phases: &Arc<Phases>,
) -> anyhow::Result<Histogram<u64>> {
    let size = shape.size;
    let histograms = on_each(address, shape, phases, |mut stream, phases| async move {
        let clock = Clock::system();
        let (message, mut answer) = (vec![7_u8; size], vec![0_u8; size]);
        let mut histogram = Histogram::new(3)?;
        loop {
            let phase = phases.now();
            if phase == Phase::Stop {
                return Ok(histogram);
            }
            let asked = clock.now();
            stream.write_all(&message).await?;
            stream.read_exact(&mut answer).await.context("the server went away")?;
            if phase == Phase::Measure {
                histogram.record(u64::try_from(clock.now().since(asked).as_nanos())?)?;
            }
        }
    })?;
    quantiles::merge(&histograms)
}

/// One-way messages of all connections, `flush` of them in each write.
pub(super) fn flow(
    address: SocketAddr,
    shape: &Shape,
    flush: usize,
    phases: &Arc<Phases>,
) -> anyhow::Result<Histogram<u64>> {
    let size = shape.size;
    on_each(address, shape, phases, move |mut stream, phases| async move {
        let message = vec![7_u8; size];
        while phases.now() != Phase::Stop {
            let mut pieces = vec![IoSlice::new(&message); flush];
            let mut rest = &mut pieces[..];
            while !rest.is_empty() {
                let count = stream.write_vectored(rest).await?;
                IoSlice::advance_slices(&mut rest, count);
            }
        }
        Ok(())
    })?;
    Ok(Histogram::new(3)?)
}

fn config(links: &Links, poll: PollPolicy) -> StreamConfig {
    StreamConfig { links: links.kind.policy(), poll, verbs: links.verbs.clone() }
}

/// Connects, runs a task on each stream, and returns what they return.
fn on_each<F, T>(
    address: SocketAddr,
    shape: &Shape,
    phases: &Arc<Phases>,
    task: impl Fn(WeftStream, Arc<Phases>) -> F,
) -> anyhow::Result<Vec<T>>
where
    F: Future<Output = anyhow::Result<T>> + Send + 'static,
    T: Send + 'static,
{
    let config = config(&shape.links, shape.poll);
    runtime()?.block_on(async {
        let mut tasks = Vec::with_capacity(shape.connections);
        for _ in 0..shape.connections {
            let stream = WeftStream::connect(address, config.clone()).await;
            let stream = stream.with_context(|| format!("failed to connect to {address}"))?;
            tasks.push(tokio::spawn(task(stream, Arc::clone(phases))));
        }
        let mut results = Vec::with_capacity(tasks.len());
        for task in tasks {
            results.push(task.await??);
        }
        Ok(results)
    })
}

fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_io().build().context("failed to start the executor")
}
