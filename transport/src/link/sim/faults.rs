//! What goes wrong between hosts, and with them.
//!
//! A way that is cut says nothing to anybody: what is under way stays so, attempts to connect wait,
//! and connections look open until somebody's time is up, as with a cable that was pulled. When it is
//! healed, some connections go on where they were, as TCP does that has kept trying, so that what was
//! said before the cut arrives long after; the others turn out to be lost.

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use rand::RngExt;

use super::{Connection, SimNetwork, State};
use crate::time::Time;

/// What is wrong between two hosts, one way.
#[derive(Debug, Default)]
pub(super) struct Route {
    pub(super) cut: bool,
    /// What bytes take longer.
    pub(super) slow: Option<Range<Duration>>,
}

/// What is gone when a host crashes: how its peers come to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimCrash {
    /// The process: the system resets its connections, and refuses new ones.
    Process,
    /// The machine: nobody says anything, until [`SimNetwork::restart`].
    Machine,
}

/// The longest pause of a sender between two attempts, after which a way that was healed is noticed.
const RETRANSMISSION_MAX: Duration = Duration::from_millis(500);

impl SimNetwork {
    /// Nothing gets from one host to another any more; the way back is another matter.
    pub fn cut(&self, from: IpAddr, to: IpAddr) {
        let mut state = self.state.lock();
        state.routes.entry((from, to)).or_default().cut = true;
        state.hold((from, to));
    }

    /// What [`cut`](Self::cut) did is over.
    pub fn heal(&self, from: IpAddr, to: IpAddr) {
        let mut state = self.state.lock();
        let Some(route) = state.routes.get_mut(&(from, to)) else { return };
        if std::mem::take(&mut route.cut) {
            state.resume(|hosts| hosts == [from, to] || hosts == [to, from]);
        }
    }

    /// Every cut is over, and every way as fast as it was.
    pub fn heal_all(&self) {
        let mut state = self.state.lock();
        let routes = std::mem::take(&mut state.routes);
        if routes.values().any(|route| route.cut) {
            state.resume(|_| true);
        }
    }

    /// Bytes from one host to another take so much longer, or no longer than others.
    pub fn slow(&self, from: IpAddr, to: IpAddr, extra: Option<Range<Duration>>) {
        self.state.lock().routes.entry((from, to)).or_default().slow = extra;
    }

    /// All that a host had on the network is gone, without a word of its own: what is received and sent there from now on
    /// fails, and what it had not yet sent is lost.
    pub fn crash(&self, host: IpAddr, what: SimCrash) {
        let mut state = self.state.lock();
        if what == SimCrash::Machine {
            state.down.insert(host);
        }
        let listeners = state.listeners.extract_if(.., |_, listening| listening.host == host);
        let waiting: Vec<u64> =
            listeners.flat_map(|(_, listening)| listening.waiting).map(|(_, id)| id).collect();
        let ids: Vec<u64> = state.connections.keys().copied().collect();
        for id in ids {
            state.part(id, host, what, waiting.contains(&id));
        }
    }

    /// A host is there again. It knows nothing of its connections from before, and says so to who asks.
    pub fn restart(&self, host: IpAddr) {
        let mut state = self.state.lock();
        state.down.remove(&host);
        state.resume(|hosts| hosts.contains(&host));
    }
}

impl State {
    /// Whether anything gets from one host to another.
    pub(super) fn is_open(&self, (from, to): (IpAddr, IpAddr)) -> bool {
        let is_cut =
            !self.routes.is_empty() && self.routes.get(&(from, to)).is_some_and(|route| route.cut);
        !is_cut && (self.down.is_empty() || !self.down.contains(&from) && !self.down.contains(&to))
    }

    pub(super) fn is_open_both_ways(&self, [one, other]: [IpAddr; 2]) -> bool {
        self.is_open((one, other)) && self.is_open((other, one))
    }

    /// What is under way from one host to another stays so.
    fn hold(&mut self, (from, to): (IpAddr, IpAddr)) {
        let now = self.clock.now();
        for connection in self.connections.values_mut() {
            for side in 0..2 {
                if (connection.hosts[1 - side], connection.hosts[side]) == (from, to) {
                    connection.hold(side, now);
                }
            }
        }
    }

    /// One side of a connection goes with its host, if it was there.
    fn part(&mut self, id: u64, host: IpAddr, what: SimCrash, is_unaccepted: bool) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let now = self.clock.now();
        // Who has not been introduced yet is not there.
        let Some(side) = (0..2).find(|side| connection.hosts[*side] == host) else { return };
        if connection.accepted_at == Time::MAX && side == 1 || connection.gone[side] {
            return;
        }
        connection.gone[side] = true;
        let (is_closed, other) = (connection.closed[side], 1 - side);
        let way = (host, connection.hosts[other]);
        match what {
            // Its last packets are lost, or the reset overtakes them.
            SimCrash::Machine => connection.hold(other, now),
            SimCrash::Process if self.is_open(way) => {
                let at = self.arrival(way);
                self.reset(id, other, at);
            }
            SimCrash::Process => {}
        }
        if !is_closed {
            self.counters.crashed += 1;
        }
        if is_unaccepted && let Some(connection) = self.connections.get_mut(&id) {
            // Nobody holds a link that would be dropped.
            connection.closed[1] = true;
        }
    }

    /// Ways between hosts that `concerns` takes may be open again.
    fn resume(&mut self, concerns: impl Fn([IpAddr; 2]) -> bool) {
        let concerned = self.connections.iter().filter(|(_, c)| concerns(c.hosts));
        let ids: Vec<u64> = concerned.map(|(id, _)| *id).collect();
        for id in ids {
            self.resume_connection(id);
        }
    }

    fn resume_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (hosts, to) = (connection.hosts, connection.to);
        if !self.is_open_both_ways(hosts) {
            return self.resume_ways(id);
        }
        if connection.accepted_at == Time::MAX {
            let at = self.noticed((hosts[0], hosts[1]));
            if self.listeners.contains_key(&to) {
                self.introduce(id, at);
            } else {
                self.reset(id, 0, at);
            }
            return;
        }
        if let Some(gone) = (0..2).find(|side| self.connections[&id].gone[*side]) {
            // Whoever still asks is told that nobody knows the connection.
            if self.connections[&id].pipes[gone].is_held() {
                let at = self.noticed((hosts[gone], hosts[1 - gone]));
                self.reset(id, 1 - gone, at);
            }
            return;
        }
        if self.connections[&id].is_held() && self.random.random_bool(0.5) {
            return self.lose(id);
        }
        self.resume_ways(id);
    }

    /// What is held on a connection goes on, on ways that are open; what was received becomes known where the way
    /// back is.
    fn resume_ways(&mut self, id: u64) {
        for side in 0..2 {
            let Some(connection) = self.connections.get(&id) else { return };
            let (to, from) = (connection.hosts[side], connection.hosts[1 - side]);
            if connection.gone.contains(&true) || connection.accepted_at == Time::MAX {
                return;
            }
            if self.is_open((from, to)) && connection.pipes[side].is_held() {
                let at = self.noticed((from, to));
                self.release(id, side, at);
            }
            if self.is_open((to, from)) {
                self.acknowledge(id, side, true);
            }
        }
    }

    fn release(&mut self, id: u64, side: usize, at: Time) {
        let now = self.clock.now();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let pipe = &mut connection.pipes[side];
        let held = pipe.chunks.iter_mut().map(|(arrives, _)| arrives).chain(&mut pipe.ends_at);
        // Those behind have not been held if they came after; nothing overtakes.
        held.filter(|arrives| **arrives > now).for_each(|arrives| *arrives = at);
        pipe.last = at;
        self.agenda.note(at, connection.ports[side]);
    }

    /// The sender to `side` comes to know what has been received there, and looks for room if it had none.
    pub(super) fn acknowledge(&mut self, id: u64, side: usize, was_full: bool) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let pipe = &mut connection.pipes[side];
        let received = std::mem::take(&mut pipe.unacknowledged);
        pipe.bytes -= received;
        if received > 0 && was_full {
            self.agenda.note_now(connection.ports[1 - side]);
        }
    }

    /// When a sender that keeps trying is heard again.
    fn noticed(&mut self, way: (IpAddr, IpAddr)) -> Time {
        self.arrival(way) + self.random.random_range(Duration::ZERO..RETRANSMISSION_MAX)
    }
}

impl Connection {
    /// What has not arrived on `side` by `now` is held until the way is open again.
    fn hold(&mut self, side: usize, now: Time) {
        let pipe = &mut self.pipes[side];
        let under_way = pipe.chunks.iter_mut().map(|(arrives, _)| arrives).chain(&mut pipe.ends_at);
        let mut any = false;
        for arrives in under_way.filter(|arrives| **arrives > now) {
            *arrives = Time::MAX;
            any = true;
        }
        if any {
            pipe.last = Time::MAX;
        }
    }

    fn is_held(&self) -> bool {
        self.pipes.iter().any(|pipe| pipe.is_held() || pipe.unacknowledged > 0)
    }
}

impl super::Pipe {
    fn is_held(&self) -> bool {
        self.last == Time::MAX
    }
}
