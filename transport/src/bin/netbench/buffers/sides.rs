//! Both ends of the connection, at each level: one thread a side, which drives the link itself.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use weft_transport::{
    Buffer, Clock, Connection, Endpoint, PollPolicy, RegisteredBuffer, Ticket, Time,
};

use super::levels::Level;
use crate::args::Plan;
use crate::links::Links;
use crate::phases::{Phase, Phases};
use crate::tally::Tally;
use crate::weft;

/// Bytes of the buffers that a side has posted at a time, but for two.
const POSTED_BYTES: usize = 1 << 20;

/// Buffers that a side has posted at a time, of small ones.
const POSTED_MAX: usize = 256;

fn posted(size: usize) -> usize {
    (POSTED_BYTES / size).clamp(2, POSTED_MAX)
}

/// Sends back each message.
pub(crate) fn serve_echo(
    links: &Links,
    poll: PollPolicy,
    size: usize,
    level: Level,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    serve(links, poll, move |connection| async move {
        let mut receives = Receives::post(&connection, size, level, 2)?;
        let mut send = Sends::new(&connection, size, level, 1)?;
        loop {
            receives.next().await?;
            send.next().await?;
        }
    })
}

/// Counts the messages.
pub(crate) fn serve_sink(
    links: &Links,
    poll: PollPolicy,
    size: usize,
    level: Level,
    clock: Clock,
    tally: Arc<Tally>,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    serve(links, poll, move |connection| async move {
        let mut receives = Receives::post(&connection, size, level, posted(size))?;
        loop {
            receives.next().await?;
            tally.batch(clock.now()).count(1, size);
        }
    })
}

fn serve<F>(
    links: &Links,
    poll: PollPolicy,
    serve: impl FnOnce(Connection) -> F + Send + 'static,
) -> anyhow::Result<(SocketAddr, Endpoint)>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let (address, endpoint) = weft::serve_posted(links, poll)?;
    let served = endpoint.clone();
    std::thread::spawn(move || {
        served.block_on(async {
            let connection = served.accept(Time::MAX).await.expect("messages are posted here");
            // It ends when the client goes away, and a client that does not says what went wrong.
            if let Err(error) = serve(connection.clone()).await
                && connection.is_open()
            {
                let _ = writeln!(std::io::stderr(), "netbench: the server: {error:#}");
                // Or the client would wait for ever.
                connection.close();
            }
        });
    });
    Ok((address, endpoint))
}

/// One message at a time there and back.
pub(super) fn ping(
    address: SocketAddr,
    plan: &Plan,
    level: Level,
    phases: &Phases,
) -> anyhow::Result<Histogram<u64>> {
    let size = plan.shape.size;
    with_connection(address, plan, async |connection| {
        let clock = Clock::system();
        let mut receives = Receives::post(&connection, size, level, 2)?;
        let mut sends = Sends::new(&connection, size, level, 1)?;
        let mut histogram = Histogram::new(3)?;
        loop {
            let phase = phases.now();
            if phase == Phase::Stop {
                return Ok(histogram);
            }
            let asked = clock.now();
            sends.next().await?;
            receives.next().await.context("the server went away")?;
            if phase == Phase::Measure {
                histogram.record(u64::try_from(clock.now().since(asked).as_nanos())?)?;
            }
        }
    })
}

/// Messages one way, as fast as they go.
pub(super) fn flow(
    address: SocketAddr,
    plan: &Plan,
    level: Level,
    phases: &Phases,
) -> anyhow::Result<()> {
    let size = plan.shape.size;
    with_connection(address, plan, async |connection| {
        let mut sends = Sends::new(&connection, size, level, posted(size))?;
        while phases.now() != Phase::Stop {
            sends.next().await?;
        }
        Ok(())
    })
}

fn with_connection<T>(
    address: SocketAddr,
    plan: &Plan,
    run: impl AsyncFnOnce(Connection) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let endpoint = weft::start_posted(1, &plan.shape.links, plan.shape.poll)?;
    let outcome = endpoint.block_on(async {
        let connection = endpoint.connect(address, weft::deadline(&endpoint)).await;
        run(connection.with_context(|| format!("failed to connect to {address}"))?).await
    });
    endpoint.shutdown();
    outcome
}

/// The receiving half of a side.
enum Receives {
    Copying(Connection, usize),
    Posted { tickets: VecDeque<Ticket>, size: usize, level: Level },
}

impl Receives {
    fn post(
        connection: &Connection,
        size: usize,
        level: Level,
        count: usize,
    ) -> anyhow::Result<Self> {
        if level == Level::Copying {
            return Ok(Self::Copying(connection.clone(), size));
        }
        let post = || Ok(register(connection, vec![0; size].into())?.post_receive());
        let tickets = (0..count).map(|_| post()).collect::<anyhow::Result<_>>()?;
        Ok(Self::Posted { tickets, size, level })
    }

    /// Receives a message, and looks at it.
    async fn next(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Copying(connection, size) => {
                let message = connection.receive().await?;
                anyhow::ensure!(
                    message.len() == *size && message[*size - 1] == 7,
                    "another message"
                );
                Ok(())
            }
            Self::Posted { tickets, size, level } => {
                let done = tickets.pop_front().expect("there are always some").await?;
                anyhow::ensure!(
                    done.length == *size && done.buffer[*size - 1] == 7,
                    "another message"
                );
                tickets.push_back(again(done.buffer, *level)?.post_receive());
                Ok(())
            }
        }
    }
}

/// The sending half of a side.
enum Sends {
    Copying(Connection, Vec<u8>),
    Posted { free: Vec<RegisteredBuffer>, tickets: VecDeque<Ticket>, size: usize, level: Level },
}

impl Sends {
    fn new(
        connection: &Connection,
        size: usize,
        level: Level,
        count: usize,
    ) -> anyhow::Result<Self> {
        if level == Level::Copying {
            return Ok(Self::Copying(connection.clone(), vec![7; size]));
        }
        let make = |_| register(connection, vec![7; size].into());
        let free = (0..count).map(make).collect::<anyhow::Result<_>>()?;
        Ok(Self::Posted { free, tickets: VecDeque::new(), size, level })
    }

    /// Sends a message, when there is a buffer to send from.
    async fn next(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Copying(connection, message) => Ok(connection.send(&message[..]).await?),
            Self::Posted { free, tickets, size, level } => {
                let buffer = match free.pop() {
                    Some(buffer) => buffer,
                    None => {
                        let oldest = tickets.pop_front().expect("what is not free is posted");
                        again(oldest.await?.buffer, *level)?
                    }
                };
                tickets.push_back(buffer.post_send(*size));
                Ok(())
            }
        }
    }
}

/// The buffer for the next message.
fn again(buffer: RegisteredBuffer, level: Level) -> anyhow::Result<RegisteredBuffer> {
    if level != Level::Anew {
        return Ok(buffer);
    }
    let connection = buffer.connection();
    // Who takes the vector has its registration undone.
    let vector = buffer.unregister().into_vec().expect("it was made of a vector");
    register(&connection, vector.into())
}

fn register(connection: &Connection, buffer: Buffer) -> anyhow::Result<RegisteredBuffer> {
    connection.register(buffer).context("failed to register a buffer")
}
