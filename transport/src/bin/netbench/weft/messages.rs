//! One-way traffic over the transport: numbered messages, counted and checked in the receiver's
//! handler, under credits.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use weft_transport::{
    Batch, Clock, Connection, Endpoint, Handler, HandlerPool, MessageHandler, PollPolicy,
    PooledMessages,
};

use super::Clients;
use crate::links::Links;
use crate::numbered::Numbered;
use crate::phases::{Phase, Phases};
use crate::shape::Lane;
use crate::tally::Tally;

/// Counts what comes, on the reactor's thread or on several of a pool.
pub(crate) fn handler(tally: Arc<Tally>, handlers: usize) -> anyhow::Result<Arc<dyn Handler>> {
    if handlers == 1 {
        return Ok(Arc::new(Counting { tally }));
    }
    let counting = PooledCounting { tally, clock: Clock::system() };
    let pool = HandlerPool::start(handlers, Arc::new(counting));
    Ok(Arc::new(Pooled { pool: pool.context("failed to start the handlers")? }))
}

pub(crate) fn serve(
    links: &Links,
    poll: PollPolicy,
    handler: Arc<dyn Handler>,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    super::serve(super::SERVER, links, poll, handler)
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

struct Pooled {
    pool: HandlerPool,
}

impl Handler for Pooled {
    fn handle(&self, batch: &mut Batch<'_>) {
        self.pool.take_messages(batch);
    }
}

struct PooledCounting {
    tally: Arc<Tally>,
    clock: Clock,
}

impl MessageHandler for PooledCounting {
    fn key(&self, body: &[u8]) -> u64 {
        Numbered::number(body).map_or(0, |number| u64::from(number.producer))
    }

    fn handle(&self, messages: &mut PooledMessages<'_>) {
        let mut tally = self.tally.batch_of(messages.thread(), self.clock.now());
        messages.for_each(|body| tally.numbered(body));
    }
}

/// Where one thread's messages go, in turn with others.
pub(crate) struct Target<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) connection: &'a Connection,
    /// By which number the receiver knows the thread.
    pub(crate) producer: u32,
}

/// The targets of a thread that uses `lanes`.
pub(crate) fn targets<'a>(clients: &'a Clients, lanes: &[Lane]) -> Vec<Target<'a>> {
    let target = |lane: &Lane| {
        let (endpoint, connection) = clients.connection(lane.connection);
        Target { endpoint, connection, producer: lane.id }
    };
    lanes.iter().map(target).collect()
}

/// One thread's messages, its targets in turn, as fast as the credits allow.
pub(crate) fn send(targets: &[Target<'_>], size: usize, phases: &Phases) -> anyhow::Result<()> {
    let filling = vec![7_u8; size];
    let mut sequences = vec![0_u64; targets.len()];
    while phases.now() != Phase::Stop {
        for (target, sequence) in targets.iter().zip(&mut sequences) {
            let Target { endpoint, connection, producer } = *target;
            endpoint
                .block_on(async {
                    for _ in 0..SENDS_A_TURN {
                        let message = Numbered { producer, sequence: *sequence, filling: &filling };
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
