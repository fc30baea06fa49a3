//! The stores that can be driven: one closed enum, so that the same requesters, generators and
//! measurements drive each of them.

mod basic;
#[cfg(feature = "redis")]
mod redis;
mod weft;

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use futures_util::FutureExt as _;
use thiserror::Error;

use crate::clock;
use crate::pace::yield_once;
use crate::properties::{Properties, UsageError};
use crate::workload::Workload;

/// The stores, by the names of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetKind {
    /// A Weft cluster (-p weft.cluster=HOST:PORT)
    Weft,
    /// A Redis server, or one that speaks its protocol (-p redis.host=HOST, redis.port=PORT)
    #[cfg(feature = "redis")]
    Redis,
    /// No store at all: every operation succeeds at once, which measures the driver itself
    Basic,
}

impl TargetKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TargetKind::Weft => "weft",
            #[cfg(feature = "redis")]
            TargetKind::Redis => "redis",
            TargetKind::Basic => "basic",
        }
    }

    /// `weft.mode`, `redis.mode` or `basic.mode`, and what belongs to it.
    pub(crate) fn mode(self, properties: &Properties) -> Result<Mode, UsageError> {
        let (mode, threads) = match self {
            TargetKind::Weft => ("weft.mode", "weft.async.threads"),
            #[cfg(feature = "redis")]
            TargetKind::Redis => ("redis.mode", "redis.async.threads"),
            TargetKind::Basic => ("basic.mode", "basic.async.threads"),
        };
        let is_async = properties.choice(mode, &[("blocking", false), ("async", true)])?;
        // In either mode: a setting that cannot be is not passed over because it has no effect.
        match properties.number(threads)? {
            0 => Err(properties.wrong(threads, "a whole number above 0")),
            threads if is_async => Ok(Mode::Async { threads }),
            _ => Ok(Mode::Blocking),
        }
    }
}

/// How requesters run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each on a thread of its own, which waits for every reply.
    Blocking,
    /// All on `threads` threads, over connections that they share.
    Async {
        /// At least one.
        threads: usize,
    },
}

impl Mode {
    /// The threads that `requesters` requesters run on.
    pub(crate) fn threads(self, requesters: usize) -> usize {
        match self {
            Mode::Blocking => requesters,
            Mode::Async { threads } => threads.min(requesters),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Blocking => "blocking",
            Mode::Async { .. } => "async",
        }
    }
}

/// A store that answered.
pub(crate) enum Target {
    Weft(weft::Weft),
    #[cfg(feature = "redis")]
    Redis(Box<redis::Redis>),
    Basic(basic::Basic),
}

impl Target {
    /// Connects, so that a wrong address is found before anything is measured.
    pub(crate) fn open(
        kind: TargetKind,
        properties: &Properties,
        workload: &Workload,
    ) -> Result<Target, OpenError> {
        Ok(match kind {
            TargetKind::Weft => Target::Weft(weft::Weft::open(properties)?),
            #[cfg(feature = "redis")]
            TargetKind::Redis => Target::Redis(Box::new(redis::Redis::open(properties)?)),
            TargetKind::Basic => Target::Basic(basic::Basic::open(workload)?),
        })
    }

    /// The threads that `requesters` requesters run on, connected.
    pub(crate) fn crews(&self, mode: Mode, requesters: usize) -> Result<Vec<Crew>, OpenError> {
        let threads = mode.threads(requesters);
        (0..threads)
            .map(|thread| {
                let requesters = requesters / threads + usize::from(thread < requesters % threads);
                match self {
                    Target::Weft(weft) => Ok(weft.crew(mode, requesters)),
                    #[cfg(feature = "redis")]
                    Target::Redis(redis) => redis.crew(mode, requesters),
                    Target::Basic(basic) => Ok(basic.crew(mode, requesters)),
                }
            })
            .collect()
    }

    /// What its connections run over; nothing if it has none.
    pub(crate) fn link(&self) -> Option<&'static str> {
        match self {
            Target::Weft(weft) => weft.link(),
            #[cfg(feature = "redis")]
            Target::Redis(_) => Some("tcp"),
            Target::Basic(_) => None,
        }
    }

    /// The CPU time, user and system, that the servers have taken so far, in seconds; the error
    /// says why it is not known.
    pub(crate) fn server_cpu_seconds(&mut self) -> Result<f64, String> {
        match self {
            Target::Weft(weft) => weft.server_cpu_seconds(),
            #[cfg(feature = "redis")]
            Target::Redis(redis) => redis.server_cpu_seconds(),
            Target::Basic(_) => Err("the target basic has no server".to_owned()),
        }
    }
}

/// Why a target could not be opened.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error("cannot reach {target} at {address}: {reason}; {advice}")]
    Unreachable { target: &'static str, address: String, reason: String, advice: &'static str },
}

/// The requesters of one thread: their connections, and what drives their futures.
pub(crate) struct Crew {
    pub(crate) driver: Driver,
    /// One a requester.
    pub(crate) sessions: Vec<Session>,
}

/// What drives the futures of a thread's requesters.
pub(crate) enum Driver {
    /// Nothing: the session blocks the thread, and the future never waits.
    Blocking,
    /// A queue of woken futures, without any input or output.
    Queue,
    #[cfg(feature = "redis")]
    Tokio(tokio::runtime::Runtime),
    Weft(weft_client::Client),
}

impl Driver {
    pub(crate) fn drive(&self, future: impl Future<Output = ()>) {
        match self {
            Driver::Blocking => {
                future.now_or_never().expect("a requester with a blocking session never waits");
            }
            Driver::Queue => futures_executor::block_on(future),
            #[cfg(feature = "redis")]
            // Tokio's budget is for a task; this is the tasks of all requesters in one.
            Driver::Tokio(runtime) => runtime.block_on(tokio::task::unconstrained(future)),
            Driver::Weft(client) => client.block_on(future),
        }
    }
}

/// One requester's way to the store.
pub(crate) enum Session {
    WeftBlocking(weft_client::BlockingClient),
    WeftShared(weft_client::Client),
    #[cfg(feature = "redis")]
    RedisBlocking(Box<redis::BlockingSession>),
    #[cfg(feature = "redis")]
    RedisShared(redis::SharedSession),
    Basic(basic::Session),
}

impl Session {
    /// Whether its operations block the thread instead of waiting.
    pub(crate) fn blocks(&self) -> bool {
        match self {
            Session::WeftBlocking(_) => true,
            Session::WeftShared(_) => false,
            #[cfg(feature = "redis")]
            Session::RedisBlocking(_) => true,
            #[cfg(feature = "redis")]
            Session::RedisShared(_) => false,
            Session::Basic(session) => session.blocks,
        }
    }

    /// The value of `key`; `None` if there is none.
    pub(crate) async fn get(&mut self, key: &[u8]) -> Result<Option<Fetched>, RequestError> {
        Ok(match self {
            Session::WeftBlocking(client) => client.get(key)?.into_object().map(Fetched::Weft),
            Session::WeftShared(client) => client.get(key).await?.into_object().map(Fetched::Weft),
            #[cfg(feature = "redis")]
            Session::RedisBlocking(session) => session.get(key)?.map(Fetched::Redis),
            #[cfg(feature = "redis")]
            Session::RedisShared(session) => session.get(key).await?.map(Fetched::Redis),
            Session::Basic(session) => Some(Fetched::Basic(session.get().await)),
        })
    }

    /// Makes `value` the value of `key`.
    pub(crate) async fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), RequestError> {
        match self {
            Session::WeftBlocking(client) => {
                client.put(key, value)?;
            }
            Session::WeftShared(client) => {
                client.put(key, value).await?;
            }
            #[cfg(feature = "redis")]
            Session::RedisBlocking(session) => session.put(key, value)?,
            #[cfg(feature = "redis")]
            Session::RedisShared(session) => session.put(key, value).await?,
            Session::Basic(session) => session.put().await,
        }
        Ok(())
    }

    /// Waits for `duration`: the thread sleeps, or the future waits for a timer. Weft's client has
    /// timers of its own, which its thread waits for anyway. Tokio's round up to a millisecond, so
    /// there the timer is another thread's.
    pub(crate) async fn sleep(&self, duration: Duration) {
        match self {
            Session::WeftShared(client) => {
                let endpoint = client.endpoint();
                endpoint.sleep_until(endpoint.clock().now() + duration).await;
            }
            _ if self.blocks() => clock::sleep(duration),
            _ => futures_timer::Delay::new(duration).await,
        }
    }

    /// Lets others go on, without sleeping.
    pub(crate) async fn spin(&self) {
        if self.blocks() { std::hint::spin_loop() } else { yield_once().await }
    }
}

/// A value as its target hands it out, uncopied.
pub(crate) enum Fetched {
    Weft(weft_client::Object),
    #[cfg(feature = "redis")]
    Redis(Vec<u8>),
    Basic(Arc<[u8]>),
}

impl Deref for Fetched {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Fetched::Weft(object) => object,
            #[cfg(feature = "redis")]
            Fetched::Redis(value) => value,
            Fetched::Basic(value) => value,
        }
    }
}

/// Why an operation failed.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Weft(#[from] weft_client::ClientError),
    #[cfg(feature = "redis")]
    #[error(transparent)]
    Redis(#[from] ::redis::RedisError),
}
