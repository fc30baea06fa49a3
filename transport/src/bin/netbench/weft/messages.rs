//! One-way traffic over the transport: numbered messages, counted and checked in the receiver's
//! handler, under credits.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use weft_transport::{Batch, Endpoint, Handler, PollPolicy};

use super::Clients;
use crate::args::{Lane, Links};
use crate::numbered::{Numbered, SIZE_MIN};
use crate::phases::{Phase, Phases};
use crate::tally::Tally;

pub(crate) fn serve(
    links: &Links,
    poll: PollPolicy,
    tally: Arc<Tally>,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    super::serve(links, poll, Arc::new(Counting { tally }))
}

struct Counting {
    tally: Arc<Tally>,
}

impl Handler for Counting {
    fn handle(&self, batch: &mut Batch<'_>) {
        let mut tally = self.tally.batch(batch.now());
        while let Some(incoming) = batch.next() {
            tally.numbered(incoming.body);
        }
    }
}

/// One thread's messages, its lanes in turn, as fast as the credits allow.
pub(crate) fn send(
    clients: &Clients,
    size: usize,
    lanes: &[Lane],
    phases: &Phases,
) -> anyhow::Result<()> {
    let filling = vec![7_u8; size - SIZE_MIN];
    let mut sequences = vec![0_u64; lanes.len()];
    while phases.now() != Phase::Stop {
        for (lane, sequence) in lanes.iter().zip(&mut sequences) {
            let (endpoint, connection) = clients.connection(lane.connection);
            endpoint
                .block_on(async {
                    for _ in 0..SENDS_A_TURN {
                        let message =
                            Numbered { producer: lane.id, sequence: *sequence, filling: &filling };
                        connection.send(message).await?;
                        *sequence += 1;
                    }
                    Ok::<(), weft_transport::SendError>(())
                })
                .context("a message could not be sent")?;
        }
    }
    Ok(())
}

/// Sends before the phase is looked at again: enough that looking costs nothing, few enough to stop
/// within milliseconds.
const SENDS_A_TURN: usize = 64;
