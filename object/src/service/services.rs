//! The registry: what is exported, under which names, and which references others hold.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use weft_transport::{Connection, Handler, Peer};

use crate::channel::GraphListener;

use super::client::Client;
use super::disposal::drop_each;
use super::error::{ImportError, Malformed};
use super::exported::{Exported, Target};
use super::import::{self, Asked};
use super::interface::Interface;
use super::item::OtherEnd;
use super::received::{self, Giver, Received};
use super::references::{Held, Holder, References};
use super::remote::Remote;
use super::serving::WithGraphs;
use super::thread;
use super::watch::Watch;
use super::workers::Workers;

/// How a registry behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicesConfig {
    /// How long calls have whose proxy says nothing else: 10 s.
    pub timeout: Duration,
    /// How many references one peer may hold, imports included: 65,536. Each takes some 100 bytes here, and whatever object it leads to. What the peer tells
    /// of its types is kept beside, the same once, and counted in the endpoint's memory. A peer is one life of the node that it says it is: who says that it is
    /// many has this limit as often, on as many connections as the endpoint has.
    pub references_max: usize,
    /// How many references one peer may have passed or given to this side that are not released yet: 65,536. Each takes some 300 bytes here. A call
    /// that passes more is refused. What this side has imported counts among them, and is not refused.
    pub received_max: usize,
    /// How many threads there may be for methods that block: 64. Threads are begun when they are needed, and stay. The calls of one peer take a quarter of
    /// them at most, or one: its other calls wait for these. A call that goes back and forth takes one at each step. Besides there are up to a quarter as
    /// many for dropping objects, and one for replies that had to wait.
    pub threads_max: usize,
}

impl Default for ServicesConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            references_max: 1 << 16,
            received_max: 1 << 16,
            threads_max: 64,
        }
    }
}

/// The services of one endpoint: those that it exports, and those that it imports. Clones are the same.
///
/// It is the handler that the endpoint is [started](weft_transport::Endpoint::start) with, also where nothing is exported: services that are passed
/// as arguments are called back by the same connection.
#[derive(Clone)]
pub struct Services {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    config: ServicesConfig,
    names: RwLock<HashMap<String, Arc<dyn Target>>>,
    pub(super) references: RwLock<References>,
    received: Received,
    pub(super) workers: Workers,
}

impl Drop for Inner {
    /// Each object by itself, whatever the destructors of others do.
    fn drop(&mut self) {
        self.workers.stop();
        drop_each(mem::take(self.names.get_mut()).into_values());
        drop_each(self.references.get_mut().close());
    }
}

impl Services {
    /// No services, and the default configuration.
    pub fn new() -> Self {
        Self::with_config(ServicesConfig::default())
    }

    /// No services.
    pub fn with_config(config: ServicesConfig) -> Self {
        let inner = Inner {
            config,
            names: RwLock::default(),
            references: RwLock::default(),
            received: Received::default(),
            workers: Workers::new(config.threads_max),
        };
        Self { inner: Arc::new(inner) }
    }

    /// As what an endpoint is started with.
    pub fn handler(&self) -> Arc<dyn Handler> {
        Arc::new(self.clone())
    }

    /// The same for an endpoint that receives graphs by channels, too.
    pub fn handler_with_graphs(&self, listener: &Arc<GraphListener>) -> Arc<dyn Handler> {
        Arc::new(WithGraphs { services: self.clone(), listener: Arc::clone(listener) })
    }

    /// How it behaves.
    pub fn config(&self) -> &ServicesConfig {
        &self.inner.config
    }

    /// Exports a service under a name. If another one had the name, that can be imported no more, and who has imported it goes on with it: to exchange
    /// an implementation under them, use what this returns.
    pub fn export<I: Interface + ?Sized>(&self, name: &str, implementation: Arc<I>) -> Exported<I> {
        let exported = Exported::new(self, name, implementation);
        let before = self.inner.names.write().insert(name.to_owned(), exported.target());
        // Outside the lock: it may be the last that holds the object, whose destructor may do anything.
        drop(before);
        exported
    }

    /// Imports what the peer exports under a name. Its interface may be a newer one than the one known here: it has to have all methods that
    /// are known here, with the same types. It has the [configured](ServicesConfig::timeout) time.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub async fn import<I: Interface + ?Sized>(
        &self,
        connection: &Connection,
        name: &str,
    ) -> Result<I::Client, ImportError> {
        let contract = I::contract();
        let deadline = connection.clock().now() + self.inner.config.timeout;
        let reply = import::ask(connection, &Asked::Name(name), contract, deadline).await?;
        let id = import::granted(&reply)?;
        let other_end = OtherEnd { services: self, connection };
        // From here on it is released, whatever the reply says of types.
        let remote = Remote::new(other_end, id, contract, self.inner.received.add(connection));
        let agreed = import::agreed(&reply, contract, connection.memory())?;
        Ok(I::Client::from_remote(remote.agreed(agreed)))
    }

    /// As [`import`](Self::import), blocking this thread, which drives the connection meanwhile.
    ///
    /// # Errors
    /// See [`ImportError`].
    ///
    /// # Panics
    /// On a simulated endpoint, and in a method that is not marked `#[blocking]`, which would wait for ever.
    pub fn import_blocking<I: Interface + ?Sized>(
        &self,
        connection: &Connection,
        name: &str,
    ) -> Result<I::Client, ImportError> {
        thread::block_on(connection, self.import::<I>(connection, name))
    }

    /// Withdraws all names and releases all references that others hold: for when the endpoint is shut down. Objects may hold proxies, which lead by their
    /// connections to the endpoint, and from there to the registry, which holds the objects; nobody else ends such a circle. What
    /// is exported or imported later counts as ever.
    pub fn close(&self) {
        let names = mem::take(&mut *self.inner.names.write());
        let released = self.inner.references.write().close();
        // Outside the locks: destructors may do anything.
        drop_each(names.into_values());
        drop_each(released);
    }

    /// How many references all peers together hold.
    pub fn references(&self) -> usize {
        self.inner.references.read().len()
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<dyn Target>> {
        self.inner.names.read().get(name).cloned()
    }

    /// Takes a name from an object, if it is still the object's.
    pub(super) fn withdraw(&self, name: &str, target: &Arc<dyn Target>) {
        let mut names = self.inner.names.write();
        let is_its = names.get(name).is_some_and(|named| Arc::ptr_eq(named, target));
        let withdrawn = if is_its { names.remove(name) } else { None };
        drop(names);
        drop(withdrawn);
    }

    /// A reference for who is at the other end of `connection`. Nothing if it holds as many as it may.
    pub(super) fn give(&self, connection: &Connection, held: Held) -> Option<u64> {
        let holder = (Holder::of(connection.peer()), connection.id());
        let limit = self.inner.config.references_max;
        let given = self.inner.references.write().give(holder, held, limit);
        // What is not given is dropped when nothing is locked.
        let given = given.ok()?;
        if given.is_first {
            // Behind it: if the connection has ended, this is seen now.
            Watch::begin(&self.inner, connection);
        }
        Some(given.id)
    }

    /// Takes a reference back. What it led to is to be dropped where nothing is locked.
    #[must_use]
    pub(super) fn release(&self, peer: &Peer, id: u64) -> Option<Arc<Held>> {
        self.inner.references.write().release(id, Holder::of(peer))
    }

    /// A reference has been passed or given by `connection`. If the peer may have no more of them here, it is released at once.
    pub(super) fn received(
        &self,
        connection: &Connection,
        id: u64,
    ) -> Result<Arc<Giver>, Malformed> {
        let limit = self.inner.config.received_max;
        self.inner.received.add_within(connection, limit).ok_or_else(|| {
            received::release_now(connection, id);
            Malformed::TooManyReferences { limit }
        })
    }
}

impl Default for Services {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("references", &self.references()).finish_non_exhaustive()
    }
}
