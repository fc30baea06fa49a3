//! The one path of an operation: find who serves the key, call it, and see what became of it.
//!
//! The first attempt is all that a healthy cluster needs, and all that is compiled into the caller's
//! future: it looks up the node in the map at hand, takes the open connection, and calls. It
//! allocates nothing, takes no lock, and borrows key and value until they are written into outgoing
//! memory. Everything that goes wrong continues in a boxed future of its own.

mod lease;
mod patience;
mod persist;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::lock::Mutex;
use weft_protocol::{Completion, ErrorCode, Slot, TableId};
use weft_transport::{Body, CallError, Connection, Endpoint, Reply, Time};

pub(crate) use self::patience::member_of;

use crate::catalog::CatalogHeard;
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::limits::ATTEMPT_PATIENCE;
use crate::map_keeper::MapKeeper;
use crate::retry::{Effect, MapNeed, Next, Retry};
use crate::session::{self, Session, Ticket};
use crate::table::Table;

/// A request for one key: what an operation's file says about it.
pub(crate) trait Ask: Send + Sync {
    type Answer: Send;
    const EFFECT: Effect;

    fn slot(&self) -> Slot;

    fn request(&self, heading: Heading) -> impl Body;

    /// What the reply says. `from` is named in the error if it says something else.
    fn answer(reply: Reply, from: &Connection) -> Result<Self::Answer, ClientError>;
}

/// What requests begin with, whatever they ask.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heading {
    pub(crate) table: TableId,
    pub(crate) map_epoch: u32,
    /// Which mutation it is. Reads have none.
    pub(crate) completion: Option<Completion>,
}

/// Of so long a timeout, or a longer one, nobody misses the time since the system's last tick.
const LONG_TIMEOUT: Duration = Duration::from_secs(1);

/// What every handle of one client shares.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) endpoint: Endpoint,
    pub(crate) config: ClientConfig,
    pub(crate) keeper: MapKeeper,
    pub(crate) session: Arc<Session>,
    /// Whoever holds it asks for a lease, or renews it.
    pub(crate) lease_kept: Mutex<()>,
    pub(crate) catalog: CatalogHeard,
    /// How many random numbers were drawn, on top of where they start.
    pub(crate) random: AtomicU64,
}

impl Core {
    /// The time, for what begins now: some milliseconds earlier, maybe, since to ask for the time
    /// costs a twentieth of a small get.
    #[inline]
    fn now(&self) -> Time {
        let clock = self.endpoint.clock();
        if self.config.timeout >= LONG_TIMEOUT { clock.last_tick() } else { clock.now() }
    }

    /// When an operation that begins now has to be done.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        self.now() + self.config.timeout
    }

    /// Asks the node that serves a key.
    #[inline]
    pub(crate) fn ask<A: Ask>(
        &self,
        table: Table,
        ask: A,
    ) -> impl Future<Output = Result<A::Answer, ClientError>> + Send {
        self.attempt(table, ask, None)
    }

    /// The same as a part of an operation that has to be done by `deadline`.
    #[inline]
    pub(crate) fn ask_by<A: Ask>(
        &self,
        table: Table,
        ask: A,
        deadline: Time,
    ) -> impl Future<Output = Result<A::Answer, ClientError>> + Send {
        self.attempt(table, ask, Some(deadline))
    }

    /// Both, in one future: each that is in another one has what it is given moved once more.
    #[inline]
    async fn attempt<A: Ask>(
        &self,
        table: Table,
        ask: A,
        deadline: Option<Time>,
    ) -> Result<A::Answer, ClientError> {
        let now = self.now();
        let deadline = deadline.unwrap_or_else(|| now + self.config.timeout);
        let Some((connection, epoch)) = self.open_primary(table, ask.slot()) else {
            return self.persist(table, ask, None, None, deadline).await;
        };
        let ticket = match A::EFFECT {
            Effect::Read => None,
            Effect::Mutation => match session::begin(&*self.session, 1, now) {
                Some(ticket) => Some(ticket),
                None => return self.persist(table, ask, None, None, deadline).await,
            },
        };
        let heading = heading(table, epoch, ticket.as_ref());
        let look_at = now + ATTEMPT_PATIENCE;
        let called = {
            let mut call = connection.call(ask.request(heading), deadline).woken_at(look_at);
            let mut is_begun = false;
            let called = poll_fn(|context| match Pin::new(&mut call).poll(context) {
                Poll::Ready(called) => Poll::Ready(Some(called)),
                // It is polled again when there is a reply, or when patience is at its end, or because of others in the same task.
                Poll::Pending => {
                    let is_late = std::mem::replace(&mut is_begun, true)
                        && self.endpoint.clock().now() >= look_at;
                    if is_late { Poll::Ready(None) } else { Poll::Pending }
                }
            });
            match called.await {
                Some(called) => called,
                None => self.linger(call, &connection, table, ask.slot(), deadline).await,
            }
        };
        match self.answer::<A>(called, &connection) {
            Ok(answer) => Ok(answer),
            Err(error) => self.persist(table, ask, ticket, Some((error, epoch)), deadline).await,
        }
    }

    /// The open connection to the node that serves `slot`, and the epoch of the map that says so.
    #[inline]
    fn open_primary(&self, table: Table, slot: Slot) -> Option<(Connection, u64)> {
        let cluster = self.keeper.current();
        let connection = cluster.primary(table, slot)?.open()?;
        Some((connection, cluster.epoch()))
    }

    /// What a call on `connection` has come to.
    #[inline]
    fn answer<A: Ask>(
        &self,
        called: Result<Reply, CallError>,
        connection: &Connection,
    ) -> Result<A::Answer, ClientError> {
        match called {
            Ok(reply) => A::answer(reply, connection),
            Err(error) => {
                Err(ClientError::of_call(connection, error, A::EFFECT, self.config.timeout))
            }
        }
    }

    /// When to try again after an attempt that has just failed.
    pub(crate) fn next_attempt(&self, retry: &mut Retry, need: MapNeed) -> Option<Next> {
        retry.after(need, self.endpoint.clock().now(), self.random())
    }

    /// Waits until the `next` attempt at something in `table` may start, and sees to the map, or whether there is the table.
    pub(crate) async fn prepare(&self, table: Table, next: Next, retry: &mut Retry) {
        if next.at > self.endpoint.clock().now() {
            self.endpoint.sleep_until(next.at).await;
        }
        match next.map {
            MapNeed::Lease => {}
            MapNeed::Tables => {
                if self.is_gone(table, retry.deadline()).await {
                    retry.table_gone();
                }
            }
            need => self.keeper.provide(&self.endpoint, need, retry.deadline()).await,
        }
    }

    /// That a node does not serve a key is for the client to see to, so what the caller is told is that
    /// the client did not succeed in it.
    pub(crate) fn give_up(&self, error: ClientError, slot: Slot) -> ClientError {
        match error {
            ClientError::Refused { node, code: ErrorCode::WrongOwner, .. } => {
                ClientError::MapUnsettled { slot, node, timeout: self.config.timeout }
            }
            error => error,
        }
    }

    /// 64 random bits, the same ones in every run that starts alike (SplitMix64).
    pub(crate) fn random(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.random.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What a request by the map of `map_epoch` begins with.
#[inline]
pub(crate) fn heading<S: std::ops::Deref<Target = Session>>(
    table: Table,
    map_epoch: u64,
    ticket: Option<&Ticket<S>>,
) -> Heading {
    let completion = ticket.and_then(Ticket::completion);
    Heading { table: table.id, map_epoch: map_epoch as u32, completion }
}
