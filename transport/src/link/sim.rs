//! The simulated link: a network in memory, driven by a seed and a virtual clock.
//!
//! Bytes arrive after a seeded delay, in order on a connection and in any order across
//! connections; sends and receives are cut short at seeded places, as sockets do; connections are
//! lost at seeded moments, and what was under way is lost with them. The same seed and the same
//! calls give the same run.

mod end;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::sync::Mutex;
use crate::time::{ManualClock, Time};

pub(crate) use end::SimLink;

/// Bytes that one direction of a connection holds before a send would block.
const PIPE_BYTES: usize = 256 << 10;

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

/// A network in memory that simulated endpoints share.
#[derive(Debug, Clone)]
pub struct SimNetwork {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    config: SimConfig,
    random: StdRng,
    clock: ManualClock,
    next_id: u64,
    next_port: u16,
    listeners: BTreeMap<SocketAddr, VecDeque<(Time, u64)>>,
    connections: BTreeMap<u64, Connection>,
    lost: u64,
}

#[derive(Debug)]
struct Connection {
    from: SocketAddr,
    to: SocketAddr,
    /// To the side that accepted, and to the side that connected.
    pipes: [Pipe; 2],
    accepted_at: Time,
    /// When the loss of the connection is noticed.
    lost_at: Option<Time>,
    /// Sides that have been dropped.
    closed: [bool; 2],
}

#[derive(Debug, Default)]
struct Pipe {
    chunks: VecDeque<(Time, Vec<u8>)>,
    bytes: usize,
    last: Time,
    ends_at: Option<Time>,
}

/// One endpoint's view of the network: which of its links are ready.
#[derive(Debug, Clone)]
pub(crate) struct SimPort {
    network: SimNetwork,
}

/// Where simulated connections to one address come in.
#[derive(Debug)]
pub(crate) struct SimListener {
    network: SimNetwork,
    address: SocketAddr,
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
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            lost: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// When the next bytes, connection or loss arrives, if anything is under way.
    pub fn next_event(&self) -> Option<Time> {
        let state = self.state.lock();
        let now = state.clock.now();
        let arrivals = state.listeners.values().flatten().map(|(at, _)| *at);
        let bytes = state.connections.values().flat_map(|connection| {
            let pipes = connection.pipes.iter();
            let due = pipes
                .flat_map(|p| p.chunks.front().map(|(at, _)| *at).into_iter().chain(p.ends_at));
            due.chain(connection.lost_at).chain([connection.accepted_at])
        });
        arrivals.chain(bytes).filter(|at| *at > now).min()
    }

    /// Loses a connection that is open, chosen by the seed. Returns whether there was one.
    pub fn lose_one(&self) -> bool {
        let mut state = self.state.lock();
        let open: Vec<u64> = state
            .connections
            .iter()
            .filter(|(_, c)| c.lost_at.is_none())
            .map(|(id, _)| *id)
            .collect();
        if open.is_empty() {
            return false;
        }
        let id = open[state.random.random_range(0..open.len())];
        state.lose(id);
        true
    }

    /// How many connections have been lost.
    pub fn lost(&self) -> u64 {
        self.state.lock().lost
    }

    /// How the network behaves from now on; the seed is not looked at again.
    pub fn configure(&self, change: impl FnOnce(&mut SimConfig)) {
        change(&mut self.state.lock().config);
    }

    pub(crate) fn port(&self) -> SimPort {
        SimPort { network: self.clone() }
    }
}

impl SimPort {
    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<SimLink> {
        let mut state = self.network.state.lock();
        if !state.listeners.contains_key(&to) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let id = state.next_id;
        state.next_id += 1;
        let accepted_at = state.arrival();
        let from = SocketAddr::from(([127, 0, 0, 1], state.free_port()));
        let connection = Connection {
            from,
            to,
            pipes: Default::default(),
            accepted_at,
            lost_at: None,
            closed: [false, false],
        };
        state.connections.insert(id, connection);
        state.listeners.entry(to).or_default().push_back((accepted_at, id));
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
        state.listeners.insert(address, VecDeque::new());
        Ok(SimListener { network: self.network.clone(), address })
    }
}

impl SimListener {
    pub(crate) fn accept(&self) -> io::Result<(SimLink, SocketAddr)> {
        let mut state = self.network.state.lock();
        let now = state.clock.now();
        let waiting = state.listeners.get_mut(&self.address);
        let next = waiting.and_then(|queue| {
            let position = queue.iter().position(|(at, _)| *at <= now)?;
            queue.remove(position)
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
        state.listeners.get(&self.address).is_some_and(|q| q.iter().any(|(at, _)| *at <= now))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.network.state.lock();
        for (_, id) in state.listeners.remove(&self.address).into_iter().flatten() {
            state.lose(id);
        }
    }
}

impl State {
    /// When something sent now arrives.
    fn arrival(&mut self) -> Time {
        let delay = if self.config.delay.is_empty() {
            self.config.delay.start
        } else {
            self.random.random_range(self.config.delay.clone())
        };
        self.clock.now() + delay
    }

    /// How many of `bytes` bytes a send or receive moves.
    fn cut(&mut self, bytes: usize) -> usize {
        if bytes > 1 && self.config.partial > 0.0 && self.random.random_bool(self.config.partial) {
            return self.random.random_range(1..bytes);
        }
        bytes
    }

    fn free_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(20_001);
        self.next_port
    }

    /// The connection `id`, unless its loss has been noticed by now.
    fn live(&mut self, id: u64, now: Time) -> io::Result<&mut Connection> {
        let connection = self.connections.get_mut(&id).ok_or(io::ErrorKind::ConnectionReset)?;
        if connection.lost_at.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(connection)
    }

    /// Loses connection `id`: what is under way beyond a seeded point never arrives.
    fn lose(&mut self, id: u64) {
        let at = self.arrival();
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.lost_at.is_none()
        {
            connection.lost_at = Some(at);
            self.lost += 1;
        }
    }

    /// One side says no more; the other reads to the end.
    fn end(&mut self, id: u64, side: usize) {
        let at = self.arrival();
        if let Some(connection) = self.connections.get_mut(&id) {
            let pipe = &mut connection.pipes[1 - side];
            pipe.last = pipe.last.max(at);
            let last = pipe.last;
            pipe.ends_at.get_or_insert(last);
        }
    }
}
