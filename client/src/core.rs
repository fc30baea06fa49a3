//! The one path of an operation: find the owner, call it, and see what became of it.
//!
//! The first attempt is all that a healthy cluster needs, and all that is compiled into the caller's
//! future: it looks up the owner in the map at hand, takes the open connection, and calls. It
//! allocates nothing, takes no lock, and borrows key and value until they are written into outgoing
//! memory. Everything that goes wrong continues in a boxed future of its own.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::lock::Mutex;
use weft_protocol::{ErrorCode, Slot, TableId};
use weft_transport::{Body, CallError, Connection, Endpoint, Reply, Time};

use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::map_keeper::MapKeeper;
use crate::retry::{Effect, MapNeed, Next, Retry};

/// A request for one key: what an operation's file says about it.
pub(crate) trait Ask: Send + Sync {
    type Answer: Send;
    const EFFECT: Effect;

    fn slot(&self) -> Slot;

    fn request(&self, table: TableId, map_epoch: u32) -> impl Body;

    /// What the reply says. `from` is named in the error if it says something else.
    fn answer(reply: Reply, from: &Connection) -> Result<Self::Answer, ClientError>;
}

/// Of so long a timeout, or a longer one, nobody misses the time since the system's last tick.
const LONG_TIMEOUT: Duration = Duration::from_secs(1);

/// What every handle of one client shares.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) endpoint: Endpoint,
    pub(crate) config: ClientConfig,
    pub(crate) keeper: MapKeeper,
    /// When somebody last began to see to it that all nodes know all tables; whoever holds the lock does that.
    pub(crate) tables_settled: Mutex<Option<Time>>,
    /// How many random numbers were drawn, on top of where they start.
    pub(crate) random: AtomicU64,
}

/// A failed attempt, and the epoch of the map that it went by.
pub(crate) type Failed = (ClientError, u64);

impl Core {
    /// When an operation that begins now has to be done: some milliseconds earlier, maybe, since to ask for the time
    /// costs a twentieth of a small get.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        let (clock, timeout) = (self.endpoint.clock(), self.config.timeout);
        let now = if timeout >= LONG_TIMEOUT { clock.last_tick() } else { clock.now() };
        now + timeout
    }

    /// Asks the owner of a key.
    #[inline]
    pub(crate) fn ask<A: Ask>(
        &self,
        table: TableId,
        ask: A,
    ) -> impl Future<Output = Result<A::Answer, ClientError>> + Send {
        self.attempt(table, ask, None)
    }

    /// The same as a part of an operation that has to be done by `deadline`.
    #[inline]
    pub(crate) fn ask_by<A: Ask>(
        &self,
        table: TableId,
        ask: A,
        deadline: Time,
    ) -> impl Future<Output = Result<A::Answer, ClientError>> + Send {
        self.attempt(table, ask, Some(deadline))
    }

    /// Both, in one future: each that is in another one has what it is given moved once more.
    #[inline]
    async fn attempt<A: Ask>(
        &self,
        table: TableId,
        ask: A,
        deadline: Option<Time>,
    ) -> Result<A::Answer, ClientError> {
        let deadline = deadline.unwrap_or_else(|| self.deadline());
        let Some((connection, epoch)) = self.open_owner(ask.slot()) else {
            return self.persist(table, ask, None, deadline).await;
        };
        let called = connection.call(ask.request(table, epoch as u32), deadline).await;
        match self.answer::<A>(called, &connection) {
            Ok(answer) => Ok(answer),
            Err(error) => self.persist(table, ask, Some((error, epoch)), deadline).await,
        }
    }

    /// The open connection to the owner of `slot`, and the epoch of the map that says so.
    #[inline]
    fn open_owner(&self, slot: Slot) -> Option<(Connection, u64)> {
        let cluster = self.keeper.current();
        let connection = cluster.owner(slot)?.open()?;
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

    /// Goes on after the quick attempt came to nothing: connects, waits, fetches maps and tries
    /// again, as long as the deadline and [`Retry`] allow it.
    #[cold]
    fn persist<'a, A: Ask + 'a>(
        &'a self,
        table: TableId,
        ask: A,
        mut failed: Option<Failed>,
        deadline: Time,
    ) -> Pin<Box<dyn Future<Output = Result<A::Answer, ClientError>> + Send + 'a>> {
        Box::pin(async move {
            let slot = ask.slot();
            let mut retry = Retry::new(A::EFFECT, deadline);
            loop {
                if let Some(failed) = failed.take() {
                    self.prepare_next(&mut retry, failed, slot).await?;
                }
                let attempt = match self.connect_owner(slot, deadline).await {
                    Ok((connection, epoch)) => {
                        let request = ask.request(table, epoch as u32);
                        let called = connection.call(request, deadline).await;
                        self.answer::<A>(called, &connection).map_err(|error| (error, epoch))
                    }
                    Err(failed) => Err(failed),
                };
                match attempt {
                    Ok(answer) => return Ok(answer),
                    Err(error) => failed = Some(error),
                }
            }
        })
    }

    /// A connection to the owner of `slot`, opened if need be, and the epoch of the map that says
    /// so.
    async fn connect_owner(&self, slot: Slot, deadline: Time) -> Result<(Connection, u64), Failed> {
        let cluster = self.keeper.current_owned();
        let epoch = cluster.epoch();
        let Some(owner) = cluster.owner(slot) else {
            return Err((ClientError::SlotUnowned { slot, epoch }, epoch));
        };
        match self.keeper.connect(&self.endpoint, owner, deadline).await {
            Ok(connection) => Ok((connection, epoch)),
            Err(error) => Err((error, epoch)),
        }
    }

    /// Does what has to be done before the next attempt, or returns the error that ends the
    /// operation on `slot`.
    async fn prepare_next(
        &self,
        retry: &mut Retry,
        (error, epoch): Failed,
        slot: Slot,
    ) -> Result<(), ClientError> {
        let next = retry.need(&error, epoch).and_then(|need| self.next_attempt(retry, need));
        match next {
            Some(next) => {
                self.prepare(next, retry.deadline()).await;
                Ok(())
            }
            None => Err(self.give_up(error, slot)),
        }
    }

    /// When to try again after an attempt that has just failed.
    pub(crate) fn next_attempt(&self, retry: &mut Retry, need: MapNeed) -> Option<Next> {
        retry.after(need, self.endpoint.clock().now(), self.random())
    }

    /// Waits until `next` may start, and sees to the map or the tables.
    pub(crate) async fn prepare(&self, next: Next, deadline: Time) {
        if next.at > self.endpoint.clock().now() {
            self.endpoint.sleep_until(next.at).await;
        }
        match next.map {
            MapNeed::Tables => self.settle_tables(deadline).await,
            need => self.keeper.provide(&self.endpoint, need, deadline).await,
        }
    }

    /// That a node is not the owner is for the client to see to, so what the caller is told is that
    /// the client did not succeed in it.
    pub(crate) fn give_up(&self, error: ClientError, slot: Slot) -> ClientError {
        match error {
            ClientError::Refused { node, code: ErrorCode::WrongOwner, .. } => {
                ClientError::MapUnsettled { slot, node, timeout: self.config.timeout }
            }
            error => error,
        }
    }

    /// A random number from a half to 1.
    pub(crate) fn random_share(&self) -> f64 {
        0.5 + (self.random() >> 12) as f64 / (1_u64 << 53) as f64
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
