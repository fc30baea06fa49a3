//! An endpoint: one node's presence on the network.

mod config;
mod ending;
mod sleep;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use futures_util::future::{Either, select};

use crate::connection::{Connection, Endings};
use crate::driver;
use crate::error::{AcceptError, ConnectError, EndpointError};
use crate::handler::Handler;
use crate::identity::NodeId;
use crate::idle::{Idle, PollPolicy};
use crate::link::{
    LinkKind, LinkPolicy, Listener, Namespace, ShmListener, SimNetwork, SimPort, TcpListener,
    VerbsError, VerbsOptions, VerbsPort,
};
use crate::manager::{Accepted, Asked, Attempted, ConnectionManager, Registry, TooEarly};
use crate::memory::Memory;
use crate::poller::{Kick, Poller};
use crate::reactor::{Command, Common, Reactor, ReactorHandle, Wait};
use crate::session::receives::Messages;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::time::{Clock, Time};

pub use config::EndpointConfig;
pub use sleep::Sleep;

/// One node's presence on the network: it connects, listens, and hands what comes in to its
/// handler. Clones are the same endpoint; it lives until [`shutdown`](Self::shutdown), or until the
/// last clone is dropped.
#[derive(Debug, Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    common: Arc<Common>,
    reactors: Vec<Arc<ReactorHandle>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What an endpoint has done so far, over all its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Connections that are open now.
    pub connections: u64,
    /// Those of them that run over shared memory.
    pub shared_connections: u64,
    /// Those that run over verbs.
    pub verbs_connections: u64,
    /// Bytes of memory that retained bodies keep now.
    pub retained_bytes: u64,
    /// Bytes handed to links of connections that are open now.
    pub bytes_sent: u64,
    /// Gathered writes that took them.
    pub batches_sent: u64,
    /// Bodies that were sent from where they lay, without copying them.
    pub bodies_gathered: u64,
    /// Bytes of posted buffers and shared memory that a device took from where they lay: nothing of this side copied them.
    pub bytes_lent: u64,
    /// Replies that came after their call had been given up.
    pub late_replies: u64,
}

impl Endpoint {
    /// Starts an endpoint with threads of its own, on the real network.
    ///
    /// # Errors
    /// [`EndpointError::Config`], [`EndpointError::Verbs`] if verbs are wanted and cannot be had, or
    /// [`EndpointError::Start`] if the system refuses a thread or a poller.
    pub fn start(config: EndpointConfig, handler: Arc<dyn Handler>) -> Result<Self, EndpointError> {
        let ports = open_ports(&config)?;
        let make =
            || Poller::epoll().map_err(|source| EndpointError::Start { what: "a poller", source });
        let endpoint = Self::new(config, handler, None, make)?;
        for (reactor, port) in endpoint.inner.reactors.iter().zip(ports) {
            let used = reactor.state.lock().use_port(port);
            used.map_err(|source| EndpointError::Start { what: "to watch a device", source })?;
        }
        for (index, reactor) in endpoint.inner.reactors.iter().enumerate() {
            let run = {
                let reactor = Arc::clone(reactor);
                move || driver::run_own_thread(&reactor)
            };
            let thread = thread::Builder::new()
                .name(format!("reactor-{index}"))
                .spawn(run)
                .map_err(|source| EndpointError::Start { what: "a thread", source })?;
            reactor.own_thread.get_or_init(|| thread.thread().clone());
            endpoint.inner.threads.lock().push(thread);
        }
        Ok(endpoint)
    }

    /// Starts an endpoint on a simulated network. It has no thread: [`turn`](Self::turn) drives it.
    ///
    /// # Errors
    /// [`EndpointError::Config`].
    pub fn simulated(
        config: EndpointConfig,
        handler: Arc<dyn Handler>,
        network: &SimNetwork,
    ) -> Result<Self, EndpointError> {
        let config = EndpointConfig { reactors: 1, poll: PollPolicy::Park, ..config };
        Self::new(config, handler, Some(network.port()), || Ok(Poller::sim()))
    }

    fn new(
        config: EndpointConfig,
        handler: Arc<dyn Handler>,
        sim: Option<SimPort>,
        poller: impl Fn() -> Result<(Poller, Kick), EndpointError>,
    ) -> Result<Self, EndpointError> {
        config.check()?;
        let common = Arc::new(Common {
            node: config.node,
            incarnation: config.incarnation,
            secret: config.secret,
            windows: config.windows,
            links: config.links,
            messages: config.messages,
            accepted: Accepted::new(config.messages == Messages::Posted),
            memory: config.memory,
            clock: config.clock,
            handler,
            registry: Registry::new(config.backoff, config.discovery_interval, config.seed),
            stall_timeout: config.stall_timeout,
            connect_timeout: config.connect_timeout,
            connections_max: config.connections_max,
            connections: AtomicUsize::new(0),
            retained_bytes: AtomicU64::new(0),
            endings: Endings::default(),
            handler_panicked: AtomicBool::new(false),
            sim,
            reactors: OnceLock::new(),
            next_reactor: AtomicUsize::new(0),
        });
        let reactors = (0..config.reactors)
            .map(|_| {
                let (poller, kick) = poller()?;
                let state = Reactor::new(poller, Idle::new(config.poll));
                Ok(Arc::new(ReactorHandle::new(Arc::clone(&common), state, kick)))
            })
            .collect::<Result<Vec<_>, EndpointError>>()?;
        common.reactors.get_or_init(|| reactors.iter().map(Arc::downgrade).collect());
        Ok(Self { inner: Arc::new(Inner { common, reactors, threads: Mutex::default() }) })
    }

    /// Accepts connections at `address`; port 0 takes a free one. Returns the address.
    ///
    /// # Errors
    /// [`EndpointError::Listen`], or [`EndpointError::ShutDown`].
    pub fn listen(&self, address: SocketAddr) -> Result<SocketAddr, EndpointError> {
        if self.inner.is_shut_down() {
            return Err(EndpointError::ShutDown { address });
        }
        let listener = match &self.inner.common.sim {
            Some(port) => port.listen(address).map(Listener::Sim),
            None => TcpListener::bind(address).map(Listener::Tcp),
        };
        let refused = |source| EndpointError::Listen { address, source };
        let listener = listener.map_err(refused)?;
        let bound = listener.address().map_err(refused)?;
        self.inner.common.registry.leads_here(bound);
        let shared = (self.inner.common.sim.is_none()
            && self.inner.common.links != LinkPolicy::Tcp)
            .then(|| ShmListener::bind(bound, Namespace::Endpoints).map(Listener::Shm));
        let first = &self.inner.reactors[0];
        // They are dropped in the order in which they come: who is given the port next finds its name free.
        match shared {
            None => {}
            Some(Ok(listener)) => first.submit(Command::Listen(listener)),
            Some(Err(error)) => {
                tracing::warn!(%error, address = %bound, "peers on this host will connect by TCP");
            }
        }
        first.submit(Command::Listen(listener));
        if self.inner.is_shut_down() {
            // Meanwhile; whoever lets go of everything does so of the listeners.
            return Err(EndpointError::ShutDown { address });
        }
        Ok(bound)
    }

    /// The connection to `address`: the one that is open, or a new one. Many callers make one
    /// attempt and all wait for it. Where an attempt has just failed, or several connections in a row have not lasted,
    /// all wait for the next, which is made after a pause (see [`EndpointConfig::backoff`]), or for a connection that comes about before that, since the
    /// [manager](Self::manager) tries the address at its own times, or a node that it has found there connects by itself;
    /// if their deadline is before the end of the pause, they get the error of the last one at once.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(
        &self,
        address: SocketAddr,
        deadline: Time,
    ) -> Result<Connection, ConnectError> {
        self.connect_as(Asked::ByCaller, address, deadline).await
    }

    pub(crate) async fn connect_as(
        &self,
        asked: Asked,
        address: SocketAddr,
        deadline: Time,
    ) -> Result<Connection, ConnectError> {
        let mut pause = None;
        let attempt = loop {
            if self.inner.is_shut_down() {
                return Err(ConnectError::ShutDown { address });
            }
            match self.inner.common.connect(address, asked) {
                Ok(attempt) => break attempt,
                Err(TooEarly { until, failure }) if until >= deadline => return Err(failure),
                Err(TooEarly { until, .. }) => match pause.take() {
                    // Asked once more: what has come about before this would wake nobody.
                    None => pause = Some(self.inner.common.registry.pause(address)),
                    Some(pause) => drop(select(pause, self.sleep_until(until)).await),
                },
            }
        };
        // Also for an attempt that somebody else has begun.
        self.inner.reactors[0].ensure_driver();
        let outcome = select(Attempted(&attempt), self.sleep_until(deadline));
        match outcome.await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) if self.inner.is_shut_down() => {
                Err(ConnectError::ShutDown { address })
            }
            Either::Right(_) => Err(ConnectError::DeadlineExceeded { address }),
        }
    }

    /// The next connection that a peer has begun. Only endpoints that set
    /// [`EndpointConfig::messages`] to [`Messages::Posted`] keep such; elsewhere the handler sees what comes.
    ///
    /// # Errors
    /// See [`AcceptError`].
    pub async fn accept(&self, deadline: Time) -> Result<Connection, AcceptError> {
        let common = &self.inner.common;
        if common.messages != Messages::Posted {
            return Err(AcceptError::Handled);
        }
        let accepted = std::future::poll_fn(|context| {
            let accepted = common.accepted.poll(context);
            self.inner.reactors.iter().for_each(|reactor| reactor.ensure_driver());
            accepted
        });
        let outcome = select(accepted, self.sleep_until(deadline));
        match outcome.await {
            Either::Left((Some(connection), _)) => Ok(connection),
            Either::Left((None, _)) => Err(AcceptError::ShutDown),
            Either::Right(_) if self.inner.is_shut_down() => Err(AcceptError::ShutDown),
            Either::Right(_) => Err(AcceptError::DeadlineExceeded),
        }
    }

    /// What finds nodes and keeps the connections to them.
    pub fn manager(&self) -> ConnectionManager {
        ConnectionManager::new(self.clone())
    }

    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.inner.common
    }

    /// Runs `future` on this thread until it is done. While it waits, the thread drives the links
    /// itself, so this is the fastest way to wait for replies; many calls can be under way in one
    /// future. If all that it waits for is a time, or another thread, it gives way to others who wait for replies.
    ///
    /// Between two calls nobody else takes the links over at once: what comes in then, for the handler or for futures that
    /// run elsewhere, waits for the next call, or for five milliseconds without one, unless a thread stays in here.
    ///
    /// In a [`Handler`] it waits for ever for what the handler's own reactor is to bring: a reply, room, more of a body, a time, the deadline of a call. That
    /// handler keeps the thread which would bring it, whatever executor it waits by. What needs that belongs on a thread of a
    /// [`HandlerPool`](crate::HandlerPool).
    ///
    /// # Panics
    /// On a simulated endpoint, which only its simulator drives.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(self.inner.common.sim.is_none(), "a simulated endpoint is driven by turns");
        driver::block_on(&self.inner.reactors[0], future)
    }

    /// Completes at `at`, and at the latest when an endpoint that is [shut down](Self::shutdown) has ended, or handlers have held that up
    /// for some two seconds: meanwhile nobody may look at its timers.
    pub fn sleep_until(&self, at: Time) -> Sleep {
        Sleep::new(&self.inner.reactors[0], at)
    }

    /// One pass over links, timers and flushes of a simulated endpoint. Returns whether anything
    /// happened.
    ///
    /// # Panics
    /// With what a handler has panicked with in it: the first, if several have.
    pub fn turn(&self) -> bool {
        let turn = |reactor: &Arc<ReactorHandle>| {
            let turned = reactor.state.lock().turn(reactor, Wait::Poll);
            turned.unwrap_or_else(|panic| panic.resume())
        };
        self.inner.reactors.iter().map(turn).fold(false, |any, active| any | active)
    }

    /// Whether a [`turn`](Self::turn) of a simulated endpoint may find something to do: something has arrived since this was
    /// asked last, somebody has left it something, or a timer is due. After a turn in which something happened there may be more
    /// in any case.
    pub fn is_due(&self) -> bool {
        // It is asked first, and always: who is told turns, and need not be told again.
        let arrived = self.inner.common.sim.as_ref().is_some_and(SimPort::take_arrived);
        let now = self.inner.common.clock.now();
        arrived
            || self.inner.reactors.iter().any(|reactor| reactor.has_work())
            || self.next_timer().is_some_and(|timer| timer <= now)
    }

    /// When the next timer of a simulated endpoint is due.
    pub fn next_timer(&self) -> Option<Time> {
        let next = |reactor: &Arc<ReactorHandle>| reactor.state.lock().next_timer(reactor);
        self.inner.reactors.iter().map(next).min().filter(|time| *time != Time::MAX)
    }

    /// The clock that deadlines are told by.
    pub fn clock(&self) -> &Clock {
        &self.inner.common.clock
    }

    /// The memory that frames are sent from and received into.
    pub fn memory(&self) -> &Memory {
        &self.inner.common.memory
    }

    /// Who this endpoint is.
    pub fn node(&self) -> NodeId {
        self.inner.common.node
    }

    /// What the endpoint has done so far. Looks at every connection, so it is not for hot paths.
    pub fn stats(&self) -> EndpointStats {
        let connections = self.inner.common.connections.load(Ordering::Relaxed) as u64;
        let retained_bytes = self.inner.common.retained_bytes.load(Ordering::Relaxed);
        let mut stats = EndpointStats { connections, retained_bytes, ..EndpointStats::default() };
        for reactor in &self.inner.reactors {
            for core in reactor.members.lock().values() {
                let traffic = core.traffic();
                match core.link.kind() {
                    LinkKind::Shm => stats.shared_connections += 1,
                    LinkKind::Verbs => stats.verbs_connections += 1,
                    LinkKind::Tcp | LinkKind::Sim => {}
                }
                stats.bytes_sent += traffic.bytes;
                stats.batches_sent += traffic.batches;
                stats.bodies_gathered += traffic.gathered;
                stats.bytes_lent += core.link.lent_bytes();
                stats.late_replies += core.session.calls.late.load(Ordering::Relaxed);
            }
        }
        stats
    }

    /// Stops accepting, sends what is committed, says goodbye on every connection, and ends the
    /// endpoint's threads. Calls that wait fail, and messages above
    /// [`MESSAGE_MAX`](crate::limits::MESSAGE_MAX) bytes that have not been sent to their end are lost. From then on nothing but
    /// replies begins: who sends, calls or posts, or waits for room to do so, is told that the endpoint has been shut
    /// down, a handler too, which may be given what has arrived meanwhile. What a thread sends at the same time may be lost as well; one in
    /// `block_on` may use up some kilobytes of window that it has reserved ahead.
    ///
    /// Returns when the peers have taken what was sent and have closed their side, unless a thread is in
    /// [`block_on`](Self::block_on), which sees to the rest of it then. A peer has
    /// [`LEAVE_TIMEOUT`](crate::limits::LEAVE_TIMEOUT), a second, to take it, and half a second more to close its side where the
    /// link was full until then. What it has not taken by then, for whatever reason, is lost, and so is what was to go by a connection whose
    /// handler panics, or by a reactor that a thread in `block_on` drives whose future panics. A peer that was too busy to read the goodbye before it
    /// sent something else may see the connection end by an error of the link instead. All peers are waited for at the same time; where time
    /// stands still, on a [simulated](Self::simulated) endpoint, none is.
    ///
    /// A handler that is at work on a thread of the endpoint's own is waited for as long as it takes; one on a thread in `block_on`, or of a
    /// [`HandlerPool`](crate::HandlerPool), is not. A handler is given what has arrived already: what came in the receive that it is at, what more
    /// there is to be received within a second, and, for as long as peers are waited for, what was set aside for want of room for its replies.
    ///
    /// In a handler, of this endpoint or another one, whatever thread it runs on, this returns at once, and the rest is seen to when the handlers
    /// that are at work have returned: of a simulated endpoint, by the next [`turn`](Self::turn), or here, if none of its own handlers is at work.
    /// A handler on a thread of the endpoint's own that waits for another thread to return from here, such as by joining it, waits for ever, and so
    /// does that thread.
    ///
    /// Nothing else waits for ever on an endpoint that has been shut down, whether it began to wait before or after:
    /// [`connect`](Self::connect), [`accept`](Self::accept) and [`listen`](Self::listen) fail with an error that says so,
    /// [`sleep_until`](Self::sleep_until) completes, and [events](ConnectionManager::events) have an end: when the endpoint's threads have ended, or
    /// after two seconds while handlers are at work, or at once if a handler shuts it down, and then without having told of the connections that are
    /// lost by that. The exception is a handler, on a thread of the endpoint's own or in `block_on`, that waits for
    /// [what that thread alone can bring](Self::block_on): a reply, or room for more of a streamed body. It would without a shutdown, too. What else
    /// waits for that reactor to bring it something waits with it.
    ///
    /// # Panics
    /// If a handler has panicked and neither this nor a [`turn`](Self::turn) has for it; in a handler it never does. Those of a pool are logged only,
    /// and one that is still at work on a thread in `block_on` when this returns is told of by the next call, if there is one. Dropping the last clone of an
    /// endpoint shuts it down without a panic.
    pub fn shutdown(&self) {
        self.inner.shut_down().expect("no handler has panicked");
    }
}

/// A port of an RDMA device for each reactor, or none where connections can do without.
fn open_ports(config: &EndpointConfig) -> Result<Vec<Arc<VerbsPort>>, EndpointError> {
    let open = || VerbsPort::open(&config.verbs, config.memory.clone(), config.secret);
    let ports: Result<Vec<_>, _> = match config.links {
        LinkPolicy::Tcp | LinkPolicy::Shm => return Ok(Vec::new()),
        LinkPolicy::Auto | LinkPolicy::Verbs => (0..config.reactors).map(|_| open()).collect(),
    };
    match ports {
        Ok(ports) => Ok(ports),
        Err(error) if config.links == LinkPolicy::Verbs => Err(EndpointError::Verbs(error)),
        Err(error) => {
            // Whoever names a device wants it; anybody else may never have heard of such.
            if config.verbs != VerbsOptions::default() {
                tracing::warn!(%error, "connections do without verbs");
            } else if !matches!(error, VerbsError::NotBuilt | VerbsError::NoDevice) {
                tracing::info!(%error, "connections do without verbs");
            }
            Ok(Vec::new())
        }
    }
}
