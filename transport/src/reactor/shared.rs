//! What all reactors of an endpoint share.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::connection::{Connection, Endings};
use crate::error::ConnectError;
use crate::handler::Handler;
use crate::handshake::{BODIES, Hello, LARGE, UNANSWERED, Windows};
use crate::identity::{Incarnation, NodeId};
use crate::link::{LinkPolicy, SimPort};
use crate::manager::{Accepted, Asked, Attempt, Registry, TooEarly};
use crate::memory::Memory;
use crate::secret::Secret;
use crate::session::receives::Messages;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::time::{Clock, Time};

use super::handle::{Command, ReactorHandle};

/// What all reactors of an endpoint share.
pub(crate) struct Common {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) secret: Option<Secret>,
    pub(crate) windows: Windows,
    pub(crate) links: LinkPolicy,
    /// Who is given messages.
    pub(crate) messages: Messages,
    /// Connections that peers have begun and nobody has asked for, where messages are not handled.
    pub(crate) accepted: Accepted,
    pub(crate) memory: Memory,
    pub(crate) clock: Clock,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) registry: Registry,
    pub(crate) stall_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections_max: usize,
    /// Connections that are open or coming about.
    pub(crate) connections: AtomicUsize,
    /// What bodies keep that handlers have retained, in bytes.
    pub(crate) retained_bytes: AtomicU64,
    /// Who waits for the end of which connection.
    pub(crate) endings: Endings,
    /// A handler has panicked, and nobody has been told.
    pub(crate) handler_panicked: AtomicBool,
    /// Where simulated links come from; nothing for real ones.
    pub(crate) sim: Option<SimPort>,
    /// All reactors, to spread what is accepted over.
    pub(crate) reactors: OnceLock<Vec<Weak<ReactorHandle>>>,
    pub(crate) next_reactor: AtomicUsize,
}

impl Common {
    /// The hello of this endpoint.
    pub(crate) fn hello(&self) -> Hello {
        Hello {
            node: self.node,
            incarnation: self.incarnation,
            features: LARGE | BODIES | UNANSWERED,
            windows: self.windows,
            secret: self.secret,
        }
    }

    /// The attempt to connect to `address`: the one that is under way or has succeeded, or a new one.
    ///
    /// # Errors
    /// See [`TooEarly`].
    pub(crate) fn connect(
        &self,
        address: SocketAddr,
        asked: Asked,
    ) -> Result<Arc<Attempt>, TooEarly> {
        let now = self.clock.now();
        let (attempt, fresh) = self.registry.attempt(address, asked, now)?;
        if fresh {
            let reactors = self.reactors.get().map_or(&[][..], Vec::as_slice);
            let next = self.next_reactor.fetch_add(1, Ordering::Relaxed) % reactors.len().max(1);
            match reactors.get(next).and_then(Weak::upgrade) {
                Some(reactor) if !reactor.stopping.load(Ordering::SeqCst) => {
                    reactor.submit(Command::Connect(address, Arc::clone(&attempt)));
                }
                _ => {
                    self.finish_attempt(address, &attempt, Err(ConnectError::ShutDown { address }));
                }
            }
        }
        Ok(attempt)
    }

    /// Ends an attempt, for all who wait for it.
    pub(crate) fn finish_attempt(
        &self,
        address: SocketAddr,
        attempt: &Attempt,
        outcome: Result<Connection, ConnectError>,
    ) {
        self.registry.finish(address, attempt, outcome, self.clock.now());
        self.see_to_schedule();
    }

    /// Sees to it that the first reactor begins what is due when it is. Whoever changes the schedule
    /// does this.
    pub(crate) fn see_to_schedule(&self) {
        let next = self.registry.next_due();
        let first = self.reactors.get().and_then(|reactors| reactors.first()?.upgrade());
        if let (true, Some(first)) = (next != Time::MAX, first) {
            first.note_deadline(next);
            first.ensure_driver();
        }
    }

    /// Whether a peer that says `hello` is one of those that may say anything.
    pub(crate) fn trusts(&self, hello: &Hello) -> bool {
        self.secret.is_none() || self.secret == hello.secret
    }
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").field("node", &self.node).finish_non_exhaustive()
    }
}
