//! What goes over the connection of small calls beside them: large replies, and a streamed body.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use weft_transport::{
    Batch, Connection, Endpoint, Handler, IncomingKind, Memory, MemoryConfig, PollPolicy, Purpose,
    Shared,
};

use super::{Clients, deadline};
use crate::links::Links;
use crate::phases::{Phase, Phases};

/// A call with a longer body is answered with that; so small calls have at least one byte more.
pub(crate) const SMALL_MIN: usize = ASK_BODY.len() + 1;

/// The body of a call that asks for a large reply, and of one that asks for a streamed body.
const ASK_LARGE: &[u8] = b"";
const ASK_BODY: &[u8] = b"s";

/// Replies with the request, or with `large` bytes that lie there anyway, or with a body of them that has no end.
pub(crate) fn serve(
    links: &Links,
    poll: PollPolicy,
    large: usize,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    // Of its own, so that what is sent is not what connections can be short of.
    let memory = Memory::new(MemoryConfig { limit_bytes: 2 * large as u64 + (16 << 20) })
        .context("failed to reserve memory")?;
    let mut block = memory.allocate(large, Purpose::Log).context("no memory for large replies")?;
    block.mark_touched(large);
    block.fill(3);
    let large = block.freeze().slice(0..large);
    super::serve(super::SERVER, links, poll, Arc::new(Beside { large }))
}

struct Beside {
    large: Shared,
}

impl Handler for Beside {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            match incoming.body {
                ASK_LARGE => batch.reply_shared(call, ASK_LARGE, self.large.clone()),
                ASK_BODY => {
                    // Whoever reads it reports that none came.
                    let Ok(mut writer) = batch.reply_body(call, ASK_BODY) else { continue };
                    let large = self.large.clone();
                    // Until the reader has had enough.
                    std::thread::spawn(move || {
                        while writer.write_shared_blocking(large.clone()).is_ok() {}
                    });
                }
                small => batch.reply(call, small),
            }
        }
    }
}

/// What is taken beside small calls.
#[derive(Clone, Copy)]
pub(crate) enum Large {
    Replies,
    Body,
}

/// Takes `bytes` over the first connection every `interval`, until told to stop; says how often it did while
/// that was measured.
pub(crate) fn take(
    clients: &Clients,
    what: Large,
    bytes: usize,
    interval: Duration,
    phases: &Phases,
) -> anyhow::Result<u64> {
    let (endpoint, connection) = clients.connection(0);
    let mut taking = Taking::begin(what, endpoint, connection)?;
    let (mut next, mut taken) = (endpoint.clock().now(), 0);
    loop {
        let phase = phases.now();
        if phase == Phase::Stop {
            return Ok(taken);
        }
        taking.take(endpoint, connection, bytes)?;
        taken += u64::from(phase == Phase::Measure);
        next = next + interval;
        endpoint.block_on(endpoint.sleep_until(next));
    }
}

enum Taking {
    Replies,
    Body(weft_transport::BodyReader),
}

impl Taking {
    fn begin(what: Large, endpoint: &Endpoint, connection: &Connection) -> anyhow::Result<Self> {
        Ok(match what {
            Large::Replies => Self::Replies,
            Large::Body => {
                let reply = endpoint
                    .block_on(connection.call(ASK_BODY, deadline(endpoint)))
                    .context("the call for a body failed")?;
                Self::Body(reply.take_body().context("the reply has no body")?)
            }
        })
    }

    fn take(
        &mut self,
        endpoint: &Endpoint,
        connection: &Connection,
        bytes: usize,
    ) -> anyhow::Result<()> {
        match self {
            Self::Replies => {
                let reply = endpoint
                    .block_on(connection.call(ASK_LARGE, deadline(endpoint)))
                    .context("a large call failed")?;
                anyhow::ensure!(reply.len() == bytes, "{} bytes came, not {bytes}", reply.len());
            }
            Self::Body(body) => {
                let end = body.taken() + bytes as u64;
                while body.taken() < end {
                    body.next_blocking()
                        .context("the body failed")?
                        .context("the body has ended")?;
                }
            }
        }
        Ok(())
    }
}
