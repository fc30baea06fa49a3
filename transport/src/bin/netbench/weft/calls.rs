//! Round trips over the transport: calls that are answered with their own body.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use weft_transport::{Batch, Endpoint, Handler, IncomingKind, PollPolicy};

use super::{Clients, DEADLINE, deadline};
use crate::links::Links;
use crate::phases::{Phase, Phases};
use crate::shape::{Lane, Shape};

pub(crate) fn serve(links: &Links, poll: PollPolicy) -> anyhow::Result<(SocketAddr, Endpoint)> {
    super::serve(super::SERVER, links, poll, Arc::new(Echo))
}

struct Echo;

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, incoming.body);
            }
        }
    }
}

/// One thread's calls, one at a time, its lanes in turn.
pub(crate) fn measure(
    clients: &Clients,
    size: usize,
    lanes: &[Lane],
    phases: &Phases,
) -> anyhow::Result<Histogram<u64>> {
    let message = vec![7_u8; size];
    let mut histogram = Histogram::new(3)?;
    loop {
        for lane in lanes {
            let phase = phases.now();
            if phase == Phase::Stop {
                return Ok(histogram);
            }
            let (endpoint, connection) = clients.connection(lane.connection);
            let asked = endpoint.clock().now();
            let reply = endpoint
                .block_on(connection.call(&message[..], asked + DEADLINE))
                .context("a call failed")?;
            if phase == Phase::Measure {
                let nanos = endpoint.clock().now().since(asked).as_nanos();
                histogram.record(u64::try_from(nanos)?)?;
            }
            anyhow::ensure!(reply.len() == size, "a reply has {} bytes, not {size}", reply.len());
        }
    }
}

/// One call over each connection.
pub(crate) fn call_each(clients: &Clients, shape: &Shape) -> anyhow::Result<()> {
    let message = vec![7_u8; shape.size];
    for index in 0..shape.connections {
        let (endpoint, connection) = clients.connection(index);
        endpoint
            .block_on(connection.call(&message[..], deadline(endpoint)))
            .context("a call failed")?;
    }
    Ok(())
}
