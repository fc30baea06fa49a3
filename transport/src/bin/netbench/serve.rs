//! The server process: the hidden `serve` command.
//!
//! It prints its address as the first line, answers each line on stdin with one sample of what it
//! received, and ends when stdin does, so it cannot outlive the process that started it.

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use clap::ValueEnum;
use weft_transport::Clock;

use crate::affinity;
use crate::args::Order;
use crate::buffers::levels::Level;
use crate::buffers::sides;
use crate::raw;
use crate::streams;
use crate::tally::Tally;
use crate::weft;

/// What the server does with what it receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Service {
    /// Plain sockets: sends back each message, a blocked thread a connection.
    RawBlocking,
    /// Plain sockets: sends back each message, one thread that never sleeps.
    RawBusy,
    /// Plain sockets: counts messages by their length.
    RawMessages,
    /// Plain sockets: counts bytes.
    RawBytes,
    /// Shared memory: sends back each message, one thread that never sleeps.
    RawRingEcho,
    /// Shared memory: counts messages.
    RawRingMessages,
    /// Plain sockets: counts bytes, one thread that never sleeps.
    RawBusyBytes,
    /// Streams: sends back each message.
    StreamsEcho,
    /// Streams: counts bytes.
    StreamsSink,
    /// The transport: sends back each message, copied.
    CopyingEcho,
    /// The transport: counts messages that are copied.
    CopyingSink,
    /// The transport: sends back each message, from and into registered buffers.
    PostedEcho,
    /// The transport: counts messages that come into registered buffers.
    PostedSink,
    /// As `PostedEcho`, with buffers that are registered anew for each message.
    AnewEcho,
    /// As `PostedSink`, with buffers that are registered anew for each message.
    AnewSink,
    /// The transport: replies with the body of each call.
    WeftCalls,
    /// The transport: replies with the body of each call, or with as much as `--size`, or with a body that is so
    /// and never ends.
    WeftBeside,
    /// The transport: counts messages and checks their order.
    WeftMessages,
    /// The transport: counts what streamed bodies bring.
    WeftBodies,
}

pub(crate) fn serve(order: &Order) -> anyhow::Result<()> {
    affinity::pin(order.cpu)?;
    let clock = Clock::system();
    let tally = Arc::new(Tally::new(order.lanes, order.handlers));
    let (address, endpoint) = match order.service {
        Service::RawBlocking => socket(raw::ping_pong::serve_blocking(order.size)?),
        Service::RawBusy => socket(raw::ping_pong::serve_busy(order.size, order.lanes)?),
        Service::RawMessages => {
            socket(raw::stream::serve_messages(order.size, clock.clone(), Arc::clone(&tally))?)
        }
        Service::RawBytes => socket(raw::stream::serve_bytes(clock.clone(), Arc::clone(&tally))?),
        Service::RawRingEcho => (raw::ring::serve_echo(order.size, order.lanes)?, None),
        Service::RawRingMessages => {
            let clock = clock.clone();
            let tally = Arc::clone(&tally);
            (raw::ring::serve_messages(order.size, order.lanes, clock, tally)?, None)
        }
        Service::RawBusyBytes => {
            socket(raw::stream::serve_bytes_busy(order.lanes, clock.clone(), Arc::clone(&tally))?)
        }
        Service::StreamsEcho => {
            socket(streams::weft::serve_echo(&order.links, order.poll, order.size)?)
        }
        Service::StreamsSink => {
            let tally = Arc::clone(&tally);
            socket(streams::weft::serve_sink(&order.links, order.poll, clock.clone(), tally)?)
        }
        Service::CopyingEcho => buffers_echo(order, Level::Copying)?,
        Service::PostedEcho => buffers_echo(order, Level::Posted)?,
        Service::AnewEcho => buffers_echo(order, Level::Anew)?,
        Service::CopyingSink => buffers_sink(order, Level::Copying, &clock, &tally)?,
        Service::PostedSink => buffers_sink(order, Level::Posted, &clock, &tally)?,
        Service::AnewSink => buffers_sink(order, Level::Anew, &clock, &tally)?,
        Service::WeftBodies => {
            let (clock, tally) = (clock.clone(), Arc::clone(&tally));
            with_endpoint(weft::bodies::serve(&order.links, order.poll, clock, tally)?)
        }
        Service::WeftCalls => with_endpoint(weft::calls::serve(&order.links, order.poll)?),
        Service::WeftBeside => {
            with_endpoint(weft::beside::serve(&order.links, order.poll, order.size)?)
        }
        Service::WeftMessages => {
            let handler = weft::messages::handler(Arc::clone(&tally), order.handlers)?;
            with_endpoint(weft::messages::serve(&order.links, order.poll, handler)?)
        }
    };
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{address}").context("failed to announce the address")?;
    stdout.flush()?;
    for line in std::io::stdin().lock().lines() {
        line?;
        writeln!(stdout, "{}", tally.sample(clock.now(), affinity::cpu_time()).to_json())?;
        stdout.flush()?;
    }
    if let Some(endpoint) = endpoint {
        endpoint.shutdown();
    }
    Ok(())
}

type Served = (String, Option<weft_transport::Endpoint>);

fn buffers_echo(order: &Order, level: Level) -> anyhow::Result<Served> {
    Ok(with_endpoint(sides::serve_echo(&order.links, order.poll, order.size, level)?))
}

fn buffers_sink(
    order: &Order,
    level: Level,
    clock: &Clock,
    tally: &Arc<Tally>,
) -> anyhow::Result<Served> {
    let (clock, tally) = (clock.clone(), Arc::clone(tally));
    let Order { links, poll, size, .. } = order;
    Ok(with_endpoint(sides::serve_sink(links, *poll, *size, level, clock, tally)?))
}

fn with_endpoint((address, endpoint): (SocketAddr, weft_transport::Endpoint)) -> Served {
    (address.to_string(), Some(endpoint))
}

fn socket(address: SocketAddr) -> Served {
    (address.to_string(), None)
}
