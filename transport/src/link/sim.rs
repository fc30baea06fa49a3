//! The simulated link: a network in memory, driven by a seed and a virtual clock.
//!
//! Bytes arrive after a seeded delay, in order on a connection and in any order across
//! connections; sends and receives are cut short at seeded places, as sockets do; connections are
//! lost at seeded moments, and what was under way is lost with them. What is between two hosts can
//! be cut, one way or both, and hosts can crash: see `faults`. The same seed and the same calls
//! give the same run.

mod agenda;
mod end;
mod faults;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::sync::Mutex;
use crate::time::{ManualClock, Time};

use agenda::{Agenda, PortId};
use faults::Route;

pub(crate) use end::SimLink;
pub use faults::SimCrash;

/// Bytes that one direction of a connection holds before a send would block.
const PIPE_BYTES: usize = 256 << 10;

/// The host of endpoints that nobody has given one: see [`SimNetwork::at`].
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How a simulated network behaves.
#[derive(Debug, Clone)]
pub struct SimConfig {
    /// Everything random follows from this.
    pub seed: u64,
    /// How long bytes are under way.
    pub delay: Range<Duration>,
    /// The probability that a send loses its connection, with all that is under way on it.
    pub loss: f64,
    /// The probability that a send or a receive is cut short.
    pub partial: f64,
}

/// What faults have done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimCounters {
    /// Connections that were lost by themselves, by [`SimNetwork::lose_one`] or after a partition.
    pub lost: u64,
    /// Sends whose bytes went nowhere, since the way was cut or nobody was there.
    pub sends_held: u64,
    /// Attempts to connect that nobody heard.
    pub connects_held: u64,
    /// Sends that took longer, since the way was slow.
    pub sends_slowed: u64,
    /// Connections whose peer crashed.
    pub crashed: u64,
}

/// A network in memory that simulated endpoints share, as seen from one host: see [`at`](Self::at).
#[derive(Debug, Clone)]
pub struct SimNetwork {
    state: Arc<Mutex<State>>,
    host: IpAddr,
}

#[derive(Debug)]
struct State {
    config: SimConfig,
    random: StdRng,
    clock: ManualClock,
    next_id: u64,
    next_port: u16,
    next_endpoint: u64,
    listeners: BTreeMap<SocketAddr, Listening>,
    connections: BTreeMap<u64, Connection>,
    /// Between which hosts something is wrong, from the first to the second.
    routes: BTreeMap<(IpAddr, IpAddr), Route>,
    /// Machines that answer nothing.
    down: BTreeSet<IpAddr>,
    agenda: Agenda,
    counters: SimCounters,
}

/// Who listens at an address, and the connections that wait to be accepted, with when they are there.
#[derive(Debug)]
struct Listening {
    port: PortId,
    host: IpAddr,
    waiting: VecDeque<(Time, u64)>,
}

/// Both ends by side: 0 has connected, 1 has accepted or is to.
#[derive(Debug)]
struct Connection {
    from: SocketAddr,
    to: SocketAddr,
    hosts: [IpAddr; 2],
    ports: [PortId; 2],
    /// What is on its way to each side.
    pipes: [Pipe; 2],
    accepted_at: Time,
    /// When each side notices that the connection is lost.
    lost_at: [Option<Time>; 2],
    /// Sides that have been dropped.
    closed: [bool; 2],
    /// Sides that have crashed.
    gone: [bool; 2],
}

#[derive(Debug, Default)]
struct Pipe {
    /// With when they arrive: never, until [`SimNetwork::heal`], if the way is cut.
    chunks: VecDeque<(Time, Vec<u8>)>,
    /// That a sender has no room for: under way, or received without its knowing.
    bytes: usize,
    /// Received, but the way back is cut.
    unacknowledged: usize,
    last: Time,
    ends_at: Option<Time>,
}

/// One endpoint's view of the network: which of its links are ready.
#[derive(Debug, Clone)]
pub(crate) struct SimPort {
    network: SimNetwork,
    id: PortId,
}

/// Where simulated connections to one address come in.
#[derive(Debug)]
pub(crate) struct SimListener {
    network: SimNetwork,
    address: SocketAddr,
    port: PortId,
}

impl SimNetwork {
    /// A network without nodes, in the virtual time of `clock`.
    pub fn new(config: SimConfig, clock: ManualClock) -> Self {
        let random = StdRng::seed_from_u64(config.seed);
        let state = State {
            config,
            random,
            clock,
            next_id: 1,
            next_port: 20_000,
            next_endpoint: 0,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            routes: BTreeMap::new(),
            down: BTreeSet::new(),
            agenda: Agenda::default(),
            counters: SimCounters::default(),
        };
        Self { state: Arc::new(Mutex::new(state)), host: NOWHERE }
    }

    /// The same network as seen from `host`: endpoints on it connect from there, and what they listen
    /// at is there, whatever the address says. Faults are between hosts.
    pub fn at(&self, host: IpAddr) -> Self {
        Self { state: Arc::clone(&self.state), host }
    }

    /// When the next bytes, connection or loss arrives, if anything is under way.
    pub fn next_event(&self) -> Option<Time> {
        let mut state = self.state.lock();
        let now = state.clock.now();
        state.agenda.next(now)
    }

    /// Loses a connection that is open, chosen by the seed among those whose way is not cut. Returns whether there was
    /// one.
    pub fn lose_one(&self) -> bool {
        let mut state = self.state.lock();
        let is_open = |c: &Connection| {
            c.lost_at == [None; 2] && c.accepted_at != Time::MAX && state.is_open_both_ways(c.hosts)
        };
        let open = state.connections.iter().filter(|(_, connection)| is_open(connection));
        let open: Vec<u64> = open.map(|(id, _)| *id).collect();
        if open.is_empty() {
            return false;
        }
        let id = open[state.random.random_range(0..open.len())];
        state.lose(id);
        true
    }

    /// How many connections have been lost.
    pub fn lost(&self) -> u64 {
        self.counters().lost
    }

    /// What faults have done so far.
    pub fn counters(&self) -> SimCounters {
        self.state.lock().counters
    }

    /// How the network behaves from now on; the seed is not looked at again.
    pub fn configure(&self, change: impl FnOnce(&mut SimConfig)) {
        change(&mut self.state.lock().config);
    }

    /// For one endpoint.
    pub(crate) fn port(&self) -> SimPort {
        let mut state = self.state.lock();
        state.next_endpoint += 1;
        SimPort { network: self.clone(), id: PortId(state.next_endpoint) }
    }
}

impl SimPort {
    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<SimLink> {
        let mut state = self.network.state.lock();
        let from_host = self.network.host;
        // Who listens nowhere is where the address says.
        let listening = state.listeners.get(&to).map(|listening| (listening.host, listening.port));
        let (to_host, to_port) = listening.unwrap_or((to.ip(), self.id));
        let hosts = [from_host, to_host];
        let heard = state.is_open_both_ways(hosts);
        if heard && listening.is_none() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let id = state.next_id;
        state.next_id += 1;
        let accepted_at = if heard { state.arrival((from_host, to_host)) } else { Time::MAX };
        let from = SocketAddr::new(from_host, state.free_port());
        let connection = Connection {
            from,
            to,
            hosts,
            ports: [self.id, to_port],
            pipes: Default::default(),
            accepted_at,
            lost_at: [None; 2],
            closed: [false; 2],
            gone: [false; 2],
        };
        state.connections.insert(id, connection);
        if heard {
            state.introduce(id, accepted_at);
        } else {
            state.counters.connects_held += 1;
        }
        Ok(SimLink { network: self.network.clone(), id, side: 0 })
    }

    pub(crate) fn listen(&self, address: SocketAddr) -> io::Result<SimListener> {
        let mut state = self.network.state.lock();
        let mut address = address;
        if address.port() == 0 {
            address.set_port(state.free_port());
        }
        if state.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let host = if self.network.host == NOWHERE { address.ip() } else { self.network.host };
        let listening = Listening { port: self.id, host, waiting: VecDeque::new() };
        state.listeners.insert(address, listening);
        Ok(SimListener { network: self.network.clone(), address, port: self.id })
    }

    /// Whether anything has arrived for this endpoint since this was asked last.
    pub(crate) fn take_arrived(&self) -> bool {
        let mut state = self.network.state.lock();
        let now = state.clock.now();
        state.agenda.take(self.id, now)
    }
}

impl SimListener {
    pub(crate) fn accept(&self) -> io::Result<(SimLink, SocketAddr)> {
        let mut state = self.network.state.lock();
        let now = state.clock.now();
        let listening = state.listeners.get_mut(&self.address);
        let next =
            listening.filter(|listening| listening.port == self.port).and_then(|listening| {
                let position = listening.waiting.iter().position(|(at, _)| *at <= now)?;
                listening.waiting.remove(position)
            });
        let (_, id) = next.ok_or(io::ErrorKind::WouldBlock)?;
        let from = state.connections.get(&id).ok_or(io::ErrorKind::ConnectionAborted)?.from;
        Ok((SimLink { network: self.network.clone(), id, side: 1 }, from))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether somebody waits to be accepted.
    pub(crate) fn is_ready(&self) -> bool {
        let state = self.network.state.lock();
        let now = state.clock.now();
        let listening = state.listeners.get(&self.address).filter(|l| l.port == self.port);
        listening.is_some_and(|listening| listening.waiting.iter().any(|(at, _)| *at <= now))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.network.state.lock();
        // After a crash the address may be another's.
        if state.listeners.get(&self.address).is_none_or(|l| l.port != self.port) {
            return;
        }
        let listening = state.listeners.remove(&self.address);
        for (_, id) in listening.map(|listening| listening.waiting).into_iter().flatten() {
            state.lose(id);
        }
    }
}

impl State {
    /// When something sent now from one host to another arrives.
    fn arrival(&mut self, way: (IpAddr, IpAddr)) -> Time {
        let delay = draw(&mut self.random, &self.config.delay);
        let extra = match self.routes.get(&way).and_then(|route| route.slow.as_ref()) {
            Some(slow) => draw(&mut self.random, slow),
            None => Duration::ZERO,
        };
        self.clock.now() + delay + extra
    }

    /// How many of `bytes` bytes a send or receive moves.
    fn shortened(&mut self, bytes: usize) -> usize {
        if bytes > 1 && self.config.partial > 0.0 && self.random.random_bool(self.config.partial) {
            return self.random.random_range(1..bytes);
        }
        bytes
    }

    fn free_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(20_001);
        self.next_port
    }

    /// Connection `id` comes to who listens, at `at`.
    fn introduce(&mut self, id: u64, at: Time) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(listening) = self.listeners.get_mut(&connection.to) else { return };
        connection.accepted_at = at;
        connection.ports[1] = listening.port;
        listening.waiting.push_back((at, id));
        connection.ports.iter().for_each(|port| self.agenda.note(at, *port));
    }

    /// The connection `id`, unless its loss has been noticed by now on `side`.
    fn live(&mut self, id: u64, side: usize, now: Time) -> io::Result<&mut Connection> {
        let connection = self.connections.get_mut(&id).ok_or(io::ErrorKind::ConnectionReset)?;
        if connection.gone[side] || connection.lost_at[side].is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(connection)
    }

    /// Loses connection `id`: what is under way beyond a seeded point never arrives.
    fn lose(&mut self, id: u64) {
        let at = match self.connections.get(&id) {
            Some(connection) if connection.lost_at == [None; 2] => {
                let [from, to] = connection.hosts;
                self.arrival((from, to))
            }
            _ => return,
        };
        self.counters.lost += 1;
        (0..2).for_each(|side| self.reset(id, side, at));
    }

    /// One side of connection `id` notices at `at` that it is lost.
    fn reset(&mut self, id: u64, side: usize, at: Time) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.lost_at[side].is_none()
        {
            connection.lost_at[side] = Some(at);
            self.agenda.note(at, connection.ports[side]);
        }
    }

    /// One side says no more; the other reads to the end.
    fn end(&mut self, id: u64, side: usize) {
        let Some(connection) = self.connections.get(&id) else { return };
        if connection.gone[side] {
            return;
        }
        let way = (connection.hosts[side], connection.hosts[1 - side]);
        let at = if self.is_open(way) { self.arrival(way) } else { Time::MAX };
        if let Some(connection) = self.connections.get_mut(&id) {
            let pipe = &mut connection.pipes[1 - side];
            pipe.last = pipe.last.max(at);
            let last = pipe.last;
            let ends_at = *pipe.ends_at.get_or_insert(last);
            self.agenda.note(ends_at, connection.ports[1 - side]);
        }
    }
}

/// A duration of a range; its start, if it has no other.
fn draw(random: &mut StdRng, range: &Range<Duration>) -> Duration {
    if range.is_empty() { range.start } else { random.random_range(range.clone()) }
}
