//! The stores that can be driven: one closed enum, so that the same requesters, generators and
//! measurements drive each of them.

mod basic;
#[cfg(feature = "redis")]
mod redis;
mod weft;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use futures_util::FutureExt as _;
use thiserror::Error;

use crate::clock;
use crate::pace::yield_once;
use crate::properties::{Properties, UsageError};
use crate::record::{Layout, Values};
use crate::workload::Workload;

/// The stores, by the names of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetKind {
    /// A Weft cluster (-p weft.cluster=HOST:PORT)
    Weft,
    /// A Redis server, or one that speaks its protocol (-p redis.host=HOST, redis.port=PORT; redis.socket=PATH)
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
            TargetKind::Weft => Target::Weft(weft::Weft::open(properties, workload)?),
            #[cfg(feature = "redis")]
            TargetKind::Redis if workload.scans() => {
                return Err(OpenError::Usage(UsageError::Conflict {
                    what: "the target redis does not scan".to_owned(),
                    advice: "leave scanproportion out, or name another target",
                }));
            }
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
            Target::Redis(redis) => Some(redis.link()),
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
    #[error("cannot use table {name}: {error}; {advice}")]
    Table { name: String, error: Box<weft_client::ClientError>, advice: &'static str },
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
    WeftBlocking(weft::BlockingSession),
    WeftShared(weft::SharedSession),
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

    /// The record of `key`, if there is one.
    pub(crate) async fn get(
        &mut self,
        key: &[u8],
        layout: &Layout,
    ) -> Result<Fetched, RequestError> {
        Ok(match self {
            Session::WeftBlocking(session) => Fetched::Weft(session.get(key)?),
            Session::WeftShared(session) => Fetched::Weft(session.get(key).await?),
            #[cfg(feature = "redis")]
            Session::RedisBlocking(session) => Fetched::Redis(session.get(key, layout)?),
            #[cfg(feature = "redis")]
            Session::RedisShared(session) => Fetched::Redis(session.get(key, layout).await?),
            Session::Basic(session) => Fetched::Basic(session.get().await),
        })
    }

    /// Makes `values`, which are of all fields, the record of `key`.
    pub(crate) async fn put(
        &mut self,
        key: &[u8],
        layout: &Layout,
        values: &Values,
    ) -> Result<(), RequestError> {
        match self {
            Session::WeftBlocking(session) => session.put(key, layout, values)?,
            Session::WeftShared(session) => session.put(key, layout, values).await?,
            #[cfg(feature = "redis")]
            Session::RedisBlocking(session) => session.put(key, layout, values)?,
            #[cfg(feature = "redis")]
            Session::RedisShared(session) => session.put(key, layout, values).await?,
            Session::Basic(session) => session.put().await,
        }
        Ok(())
    }

    /// Makes `values` the values of some fields of the record of `key`, of which there are several.
    pub(crate) async fn put_fields(
        &mut self,
        key: &[u8],
        layout: &Layout,
        values: &Values,
    ) -> Result<(), RequestError> {
        match self {
            Session::WeftBlocking(session) => session.put_fields(key, layout, values)?,
            Session::WeftShared(session) => session.put_fields(key, layout, values).await?,
            // The same: a hash keeps the fields that are not named.
            #[cfg(feature = "redis")]
            Session::RedisBlocking(session) => session.put(key, layout, values)?,
            #[cfg(feature = "redis")]
            Session::RedisShared(session) => session.put(key, layout, values).await?,
            Session::Basic(session) => session.put().await,
        }
        Ok(())
    }

    /// Reads up to `count` records from that of `key` on, in the order of their names.
    pub(crate) async fn scan(
        &mut self,
        key: &[u8],
        layout: &Layout,
        count: u64,
    ) -> Result<Scanned, RequestError> {
        Ok(match self {
            Session::WeftBlocking(session) => session.scan(key, layout, count)?,
            Session::WeftShared(session) => session.scan(key, layout, count).await?,
            #[cfg(feature = "redis")]
            Session::RedisBlocking(_) | Session::RedisShared(_) => {
                unreachable!("the target is not opened for a workload that scans")
            }
            Session::Basic(session) => {
                session.get().await;
                Scanned::Whole
            }
        })
    }

    /// Waits for `duration`: the thread sleeps, or the future waits for a timer. Weft's client has
    /// timers of its own, which its thread waits for anyway. Tokio's round up to a millisecond, so
    /// there the timer is another thread's.
    pub(crate) async fn sleep(&self, duration: Duration) {
        match self {
            Session::WeftShared(session) => {
                let endpoint = session.client().endpoint();
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

/// What came of a scan.
pub(crate) enum Scanned {
    /// All records that it met are of the workload's fields.
    Whole,
    /// This one is not.
    Unexpected {
        /// Its name.
        key: Vec<u8>,
    },
}

/// A record as its target hands it out.
pub(crate) enum Fetched {
    Weft(weft_client::Lookup),
    /// By the numbers of the fields; `None` where there is none of that name. Without a record there are none at all.
    #[cfg(feature = "redis")]
    Redis(Option<redis::Fields>),
    Basic(Arc<[Vec<u8>]>),
}

impl Fetched {
    /// Whether there is a record.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Fetched::Weft(lookup) => lookup.object().is_some(),
            #[cfg(feature = "redis")]
            Fetched::Redis(record) => record.is_some(),
            Fetched::Basic(_) => true,
        }
    }

    /// The value of field `index`, if the record has it.
    pub(crate) fn field(&self, layout: &Layout, index: usize) -> Option<&[u8]> {
        match self {
            Fetched::Weft(lookup) => weft::field(lookup.object()?, layout, index),
            #[cfg(feature = "redis")]
            Fetched::Redis(record) => record.as_ref()?.get(index)?.as_deref(),
            Fetched::Basic(fields) => fields.get(index).map(Vec::as_slice),
        }
    }

    /// Whether it has as many fields as the workload's: one that was loaded with other field counts has not.
    pub(crate) fn fits(&self, layout: &Layout) -> bool {
        match self {
            Fetched::Weft(lookup) => {
                lookup.object().is_some_and(|object| weft::fits(object, layout))
            }
            #[cfg(feature = "redis")]
            Fetched::Redis(record) => record.as_ref().is_some_and(|fields| {
                fields.len() == layout.count() && fields.iter().all(Option::is_some)
            }),
            Fetched::Basic(fields) => fields.len() == layout.count(),
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
