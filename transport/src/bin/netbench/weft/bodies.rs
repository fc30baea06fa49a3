//! One-way traffic over the transport as streamed bodies: written piece by piece, counted as they are read.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use weft_transport::{Batch, BodyReader, Clock, Endpoint, Handler, PollPolicy};

use super::deadline;
use super::messages::Target;
use crate::links::Links;
use crate::phases::{Phase, Phases};
use crate::tally::Tally;

/// Reads each body to its end, on a thread of its own.
pub(crate) fn serve(
    links: &Links,
    poll: PollPolicy,
    clock: Clock,
    tally: Arc<Tally>,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    super::serve(super::SERVER, links, poll, Arc::new(Reading { clock, tally }))
}

struct Reading {
    clock: Clock,
    tally: Arc<Tally>,
}

impl Handler for Reading {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let Some(body) = incoming.take_body() else { continue };
            let (clock, tally) = (self.clock.clone(), Arc::clone(&self.tally));
            std::thread::spawn(move || read(body, &clock, &tally));
        }
    }
}

fn read(mut body: BodyReader, clock: &Clock, tally: &Tally) {
    // Whoever writes it reports what goes wrong.
    while let Ok(Some(piece)) = body.next_blocking() {
        tally.batch(clock.now()).count(1, piece.len());
    }
}

/// One thread's bodies of so many bytes, one after the other, its targets in turn, in writes of `size` bytes and one of the rest.
pub(crate) fn send(
    targets: &[Target<'_>],
    size: usize,
    body_bytes: u64,
    phases: &Phases,
) -> anyhow::Result<()> {
    let filling = vec![7_u8; size];
    for Target { endpoint, connection, .. } in targets.iter().cycle() {
        let written = endpoint.block_on(async {
            let mut writer = connection.send_body(b"", deadline(endpoint)).await?;
            loop {
                let rest = body_bytes - writer.written();
                if rest == 0 {
                    break;
                }
                if phases.now() == Phase::Stop {
                    return Ok(None);
                }
                let len = usize::try_from(rest).map_or(size, |rest| rest.min(size));
                writer.write(&filling[..len]).await?;
            }
            writer.finish().await.map(Some)
        });
        if written.context("a body could not be sent")?.is_none() {
            break;
        }
    }
    Ok(())
}
