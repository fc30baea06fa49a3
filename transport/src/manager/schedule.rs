//! Which addresses are tried, and when: without I/O and without a clock.
//!
//! An address of the list where nobody has been found is tried at an interval. One where a node was
//! found and lost is tried again by itself after a pause ([`Backoff`]), unless the node was let go for
//! want of use: then it waits until somebody asks. Who asks for an address that has just failed waits for
//! the end of the pause, so that many callers make no storm.
//!
//! A greeting alone does not end a back-off, or a peer that greets and goes would be tried again and again after the
//! shortest of pauses: the connection has to last. It counts as lasting after the interval at which addresses are tried where nobody is
//! found, or the longest pause, if that is shorter, because then nobody is tried more often than who is not
//! there at all. What was carried meanwhile does not count: a peer that fails with the first call would be tried
//! as often as one that fails with the greeting.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::Backoff;
use crate::connection::Peer;
use crate::error::{CloseReason, ConnectError};
use crate::identity::{Incarnation, NodeId};
use crate::limits::ATTEMPTS_MAX;
use crate::time::Time;

/// How an address of the list stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedAddress {
    /// The address.
    pub address: SocketAddr,
    /// Who has been found there, and which life of it.
    pub found: Option<(NodeId, Incarnation)>,
    /// Whether there is a connection, or an attempt at one.
    pub state: AddressState,
    /// How many attempts in a row have failed.
    pub failures: u32,
    /// What the last of them failed with; or what the last connection ended with, where several in a row have not
    /// lasted.
    pub failure: Option<ConnectError>,
}

/// What an address of the list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressState {
    /// Neither a connection nor an attempt.
    Apart,
    /// An attempt is under way.
    Connecting,
    /// The node that was found there is connected, whoever began the connection.
    Connected,
}

/// The addresses that are to be found and those that have failed.
#[derive(Debug)]
pub(super) struct Schedule {
    entries: BTreeMap<SocketAddr, Entry>,
    /// What leads to this endpoint itself, and may be on the list that all nodes are given: where it listens, and where it
    /// has found itself.
    own: BTreeSet<SocketAddr>,
    backoff: Backoff,
    interval: Duration,
    random: StdRng,
}

#[derive(Debug)]
struct Entry {
    /// It is tried by itself; else it is here only because it has failed.
    listed: bool,
    found: Option<(NodeId, Incarnation)>,
    state: AddressState,
    failures: u32,
    failure: Option<ConnectError>,
    /// How many connections in a row have not lasted.
    brief: u32,
    /// Since when there is one, if there is.
    connected_at: Time,
    /// Until then, who asks has to wait.
    failed_until: Time,
    /// When it is tried by itself.
    next_at: Time,
}

impl Entry {
    fn new(listed: bool, next_at: Time) -> Self {
        Self {
            listed,
            found: None,
            state: AddressState::Apart,
            failures: 0,
            failure: None,
            brief: 0,
            connected_at: Time::ZERO,
            failed_until: Time::ZERO,
            next_at,
        }
    }

    fn is_node(&self, node: NodeId) -> bool {
        self.found.is_some_and(|(found, _)| found == node)
    }

    /// There is a connection.
    fn connect(&mut self, now: Time) {
        if self.state != AddressState::Connected {
            self.state = AddressState::Connected;
            self.connected_at = now;
        }
    }
}

impl Schedule {
    /// An empty list. Pauses are drawn from `seed`.
    pub(super) fn new(backoff: Backoff, interval: Duration, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let (entries, own) = (BTreeMap::new(), BTreeSet::new());
        Self { entries, own, backoff, interval, random }
    }

    /// `address` leads to this endpoint itself: it is not tried.
    pub(super) fn leads_here(&mut self, address: SocketAddr) {
        self.own.insert(address);
    }

    /// Puts an address on the list, to be tried from now on, whatever has failed there before. Returns whether it
    /// was not there.
    pub(super) fn add(&mut self, address: SocketAddr, now: Time) -> bool {
        let entry = self.entries.entry(address).or_insert_with(|| Entry::new(false, now));
        if !entry.listed {
            entry.next_at = now;
        }
        !std::mem::replace(&mut entry.listed, true)
    }

    /// Takes an address off the list. Returns whether it was there.
    pub(super) fn remove(&mut self, address: SocketAddr) -> bool {
        let Some(entry) = self.entries.get_mut(&address) else { return false };
        let was_listed = std::mem::take(&mut entry.listed);
        if entry.state != AddressState::Connecting && entry.failures == 0 {
            self.entries.remove(&address);
        }
        was_listed
    }

    /// The list, by address.
    pub(super) fn list(&self) -> Vec<ListedAddress> {
        let listed = self.entries.iter().filter(|(_, entry)| entry.listed);
        let listed = listed.map(|(address, entry)| ListedAddress {
            address: *address,
            found: entry.found,
            state: entry.state,
            failures: entry.failures,
            failure: entry.failure.clone(),
        });
        listed.collect()
    }

    /// Where a node of the list was last found.
    pub(super) fn address_of(&self, node: NodeId) -> Option<SocketAddr> {
        let found = self.entries.iter().filter(|(_, entry)| entry.listed && entry.is_node(node));
        found.max_by_key(|(_, entry)| entry.found.map(|(_, life)| life)).map(|(at, _)| *at)
    }

    /// The node that was last found at an address of the list.
    pub(super) fn node_at(&self, address: SocketAddr) -> Option<NodeId> {
        let entry = self.entries.get(&address).filter(|entry| entry.listed)?;
        entry.found.map(|(node, _)| node)
    }

    /// The nodes of the list.
    pub(super) fn nodes(&self) -> BTreeSet<NodeId> {
        let listed = self.entries.values().filter(|entry| entry.listed);
        listed.filter_map(|entry| Some(entry.found?.0)).collect()
    }

    /// Until when it is too early for another attempt at `address`, if it is, and what the last one failed
    /// with.
    pub(super) fn pause(&self, address: SocketAddr, now: Time) -> Option<(Time, ConnectError)> {
        let entry = self.entries.get(&address)?;
        let failure = entry.failure.clone().filter(|_| now < entry.failed_until)?;
        Some((entry.failed_until, failure))
    }

    /// When the next address is due; never while as many are tried as may be at once.
    pub(super) fn next_at(&self) -> Time {
        if self.room() == 0 {
            return Time::MAX;
        }
        self.waiting().map(|(at, _)| at).min().unwrap_or(Time::MAX)
    }

    /// The addresses that are due, those first that have been for longest.
    pub(super) fn due(&self, now: Time) -> Vec<SocketAddr> {
        let mut due: Vec<_> = self.waiting().filter(|(at, _)| *at <= now).collect();
        due.sort_unstable();
        due.truncate(self.room());
        due.into_iter().map(|(_, address)| address).collect()
    }

    /// The addresses that are tried by themselves, and when.
    fn waiting(&self) -> impl Iterator<Item = (Time, SocketAddr)> {
        let waiting = self.entries.iter().filter(|(address, entry)| {
            entry.listed && entry.state == AddressState::Apart && !self.own.contains(address)
        });
        waiting.map(|(address, entry)| (entry.next_at, *address))
    }

    /// How many more may be tried at once.
    fn room(&self) -> usize {
        let under_way = |entry: &&Entry| entry.state == AddressState::Connecting;
        ATTEMPTS_MAX.saturating_sub(self.entries.values().filter(under_way).count())
    }

    /// An attempt at `address` has begun.
    pub(super) fn begin(&mut self, address: SocketAddr) {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.state = AddressState::Connecting;
        }
    }

    /// An attempt at `address` has led to this node.
    pub(super) fn succeed(&mut self, address: SocketAddr, peer: &Peer, now: Time) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        if !entry.listed {
            self.entries.remove(&address);
            return;
        }
        entry.found = Some((peer.node, peer.incarnation));
        entry.connect(now);
        entry.failures = 0;
        entry.failure = None;
        entry.failed_until = Time::ZERO;
    }

    /// An attempt at `address` has failed.
    pub(super) fn fail(&mut self, address: SocketAddr, failure: &ConnectError, now: Time) {
        let backoff = self.backoff;
        self.entries.retain(|_, entry| {
            let connecting = entry.state == AddressState::Connecting;
            entry.listed || connecting || now < entry.failed_until + backoff.max
        });
        let entry = self.entries.entry(address).or_insert_with(|| Entry::new(false, Time::MAX));
        entry.state = AddressState::Apart;
        entry.failures = entry.failures.saturating_add(1);
        entry.failure = Some(failure.clone());
        let failures = entry.failures.saturating_add(entry.brief);
        entry.failed_until = now + backoff.draw(failures, &mut self.random);
        entry.next_at = match entry.found {
            Some(_) => entry.failed_until,
            None => now + self.interval,
        };
    }

    /// A node is connected. Returns the addresses where it was last found.
    pub(super) fn connected(&mut self, peer: &Peer, now: Time) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        let entries = self.entries.iter_mut().filter(|(_, entry)| entry.is_node(peer.node));
        for (address, entry) in entries {
            entry.found = Some((peer.node, peer.incarnation));
            if entry.state == AddressState::Apart {
                entry.connect(now);
            }
            addresses.push(*address);
        }
        addresses
    }

    /// A node is not connected any more, and is tried again by itself unless it was let go on purpose.
    pub(super) fn lost(&mut self, node: NodeId, reason: &CloseReason, now: Time) {
        let lasting = self.interval.min(self.backoff.max);
        for (address, entry) in &mut self.entries {
            if !entry.is_node(node) || entry.state != AddressState::Connected {
                continue;
            }
            entry.state = AddressState::Apart;
            let lasted = now.since(entry.connected_at) >= lasting;
            if lasted {
                entry.brief = 0;
            }
            if matches!(reason, CloseReason::Closed | CloseReason::Evicted) {
                entry.next_at = Time::MAX;
                continue;
            }
            if !lasted {
                entry.brief = entry.brief.saturating_add(1);
            }
            entry.next_at = now + self.backoff.draw(entry.brief, &mut self.random);
            if entry.brief > 1 {
                // Not for the first time: who asks waits as after a failure.
                entry.failed_until = entry.next_at;
                let (address, reason) = (*address, reason.clone());
                entry.failure = Some(ConnectError::Closed { address, reason });
            }
        }
    }
}

#[cfg(test)]
mod tests;
