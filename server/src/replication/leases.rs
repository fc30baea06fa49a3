//! Leases between nodes: whoever holds those of all other members of a partition may read as its primary without asking anybody.
//!
//! The two sides count so that the holder's lease ends first, whatever their clocks say about the time of day (PacificA; reliability of
//! primaries by leases goes back to Gray and Cheriton, 1989). The holder counts from when it *asked*; the grantor from when it was
//! asked, which is later, for longer, by what two clocks may drift apart. A message may take any time.
//!
//! A lease is for all partitions of two nodes. So when one of them changes its primary while the former one still gets leases for the
//! others, these must not be of use to it: a grant carries the version of the map that the grantor knows of, a fence raises that,
//! and a holder does not count a grant of a newer map than its own before it has learned that map, with what it says of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weft_protocol::Member;
use weft_protocol::replication::{Grant, Lease};
use weft_transport::Time;

use super::planted::PlantedBug;
use super::settings::LeaseSettings;

/// Until when one other node's lease runs: what a read looks at. One atomic load and a comparison a member.
#[derive(Debug, Default)]
pub struct HeldLease(AtomicU64);

impl HeldLease {
    /// From then on it is none.
    #[inline]
    pub fn until(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Acquire))
    }

    fn extend(&self, until: Time) {
        self.0.fetch_max(until.nanos(), Ordering::AcqRel);
    }
}

/// The leases that a node holds and has granted. Shared by all its replicas.
#[derive(Debug)]
pub struct Leases {
    settings: LeaseSettings,
    /// Until then an earlier life's grants may run.
    forgotten_until: Time,
    #[cfg(any(test, feature = "planted-bugs"))]
    planted: Option<PlantedBug>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The version of the map that this node goes by.
    map_version: u64,
    /// The newest that it has heard of.
    map_version_known: u64,
    peers: Vec<Peer>,
}

/// What there is between this node and another.
#[derive(Debug)]
struct Peer {
    member: Member,
    held: Arc<HeldLease>,
    /// A grant that cannot be counted yet: of which map, and until when it runs.
    early: Option<(u64, Time)>,
    granted_until: Time,
}

impl Leases {
    /// No leases. A node that `has_earlier_life` grants none, and reports all as running, until those of that life have run out.
    pub fn new(settings: LeaseSettings, now: Time, has_earlier_life: bool) -> Self {
        let forgotten_until = if has_earlier_life { now + settings.granted() } else { Time::ZERO };
        Self {
            settings,
            forgotten_until,
            #[cfg(any(test, feature = "planted-bugs"))]
            planted: None,
            state: Mutex::new(State { map_version: 0, map_version_known: 0, peers: Vec::new() }),
        }
    }

    /// The same with a bug.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub fn with_planted(mut self, planted: Option<PlantedBug>) -> Self {
        self.planted = planted;
        if planted == Some(PlantedBug::ForgetEarlierGrants) {
            self.forgotten_until = Time::ZERO;
        }
        self
    }

    #[cfg(any(test, feature = "planted-bugs"))]
    fn has(&self, bug: PlantedBug) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(any(test, feature = "planted-bugs")))]
    const fn has(&self, _bug: PlantedBug) -> bool {
        false
    }

    /// This node goes by `version` of the map from now on. To be called when every replica that the change is about
    /// [knows of it](super::Replica::configure), not before: grants that waited for it count from here on.
    pub fn learned(&self, version: u64) {
        let mut state = self.state.lock();
        state.map_version = state.map_version.max(version);
        state.map_version_known = state.map_version_known.max(version);
        let known = state.map_version;
        for peer in &mut state.peers {
            if let Some((_, until)) = peer.early.take_if(|(version, _)| *version <= known) {
                peer.held.extend(until);
            }
        }
    }

    /// There is `version` of the map, though this node may not have it yet. Grants say so from now on.
    pub(super) fn heard_of(&self, version: u64) {
        let mut state = self.state.lock();
        state.map_version_known = state.map_version_known.max(version);
    }

    /// What to send to each node with which partitions are shared, at every heartbeat. Lives with which there is nothing any more are forgotten.
    pub fn request(&self, now: Time) -> Lease {
        let mut state = self.state.lock();
        state.peers.retain(|peer| !peer.is_over(now));
        Lease { sent_at: now.nanos(), map_version: state.map_version }
    }

    /// `holder` asks for a lease; the answer is to be sent back.
    pub fn handle_lease(&self, holder: Member, lease: &Lease, now: Time) -> Option<Grant> {
        if now < self.forgotten_until {
            return None;
        }
        let mut state = self.state.lock();
        let until = now + self.settings.granted();
        let peer = state.peer(holder);
        peer.granted_until = peer.granted_until.max(until);
        Some(Grant {
            sent_at: lease.sent_at,
            map_version: state.map_version_known,
            duration_ms: u32::try_from(self.settings.duration.as_millis()).unwrap_or(u32::MAX),
        })
    }

    /// `grantor` grants a lease. Whatever it says, it is not counted for longer than this node's own settings have it.
    pub fn handle_grant(&self, grantor: Member, grant: &Grant, now: Time) {
        let sent_at = Time::from_nanos(grant.sent_at);
        let from = if self.has(PlantedBug::LeaseFromReceipt) { now } else { sent_at };
        if sent_at > now {
            return;
        }
        let granted = Duration::from_millis(u64::from(grant.duration_ms));
        let until = from + granted.min(self.settings.duration);
        let mut state = self.state.lock();
        let is_known = grant.map_version <= state.map_version;
        let peer = state.peer(grantor);
        if is_known || self.has(PlantedBug::UseNewerGrant) {
            peer.held.extend(until);
        } else {
            peer.early = Some((grant.map_version, until));
        }
    }

    /// What reads look at.
    pub fn held(&self, grantor: Member) -> Arc<HeldLease> {
        Arc::clone(&self.state.lock().peer(grantor).held)
    }

    /// Until when a lease that this life granted to `holder` may run.
    pub(super) fn granted_until(&self, holder: Member) -> Time {
        let state = self.state.lock();
        let peer = state.peers.iter().find(|peer| peer.member == holder);
        peer.map_or(Time::ZERO, |peer| peer.granted_until)
    }

    /// Until when a lease that this life granted to anybody but `holder` may run.
    pub(super) fn granted_to_others_until(&self, holder: Option<Member>) -> Time {
        let state = self.state.lock();
        let others = state.peers.iter().filter(|peer| Some(peer.member) != holder);
        others.map(|peer| peer.granted_until).max().unwrap_or(Time::ZERO)
    }

    /// Until when a lease that an earlier life granted may run.
    pub(super) fn forgotten_until(&self) -> Time {
        self.forgotten_until
    }

    pub(super) fn settings(&self) -> &LeaseSettings {
        &self.settings
    }
}

impl Peer {
    /// Whether no lease runs either way, and nobody looks at what is held.
    fn is_over(&self, now: Time) -> bool {
        let early_until = self.early.map_or(Time::ZERO, |(_, until)| until);
        let until = self.granted_until.max(self.held.until()).max(early_until);
        until <= now && Arc::strong_count(&self.held) == 1
    }
}

impl State {
    /// Nodes share partitions with a handful of others, which are looked through.
    fn peer(&mut self, member: Member) -> &mut Peer {
        let index = self.peers.iter().position(|peer| peer.member == member);
        let index = index.unwrap_or_else(|| {
            self.peers.push(Peer {
                member,
                held: Arc::default(),
                early: None,
                granted_until: Time::ZERO,
            });
            self.peers.len() - 1
        });
        &mut self.peers[index]
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::{Incarnation, NodeId};

    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_nanos(1_000_000 * ms)
    }

    /// A node that is started again and again is another partner each time.
    #[test]
    fn lives_with_which_there_is_nothing_any_more_are_forgotten() {
        let leases = Leases::new(LeaseSettings::default(), at(0), false);
        let member = |life| Member { node: NodeId(2), incarnation: Incarnation(life) };
        let known = || leases.state.lock().peers.len();
        let held = leases.held(member(1));
        for life in 1..=100 {
            let lease = leases.request(at(life));
            let grant = leases.handle_lease(member(life), &lease, at(life)).unwrap();
            leases.handle_grant(member(life), &grant, at(life));
        }
        assert_eq!(known(), 100);
        leases.request(at(3_600_000));
        assert_eq!(known(), 1, "who is looked at is not");
        // What it holds later is seen there.
        let lease = leases.request(at(3_600_000));
        let grant = leases.handle_lease(member(1), &lease, at(3_600_000)).unwrap();
        leases.handle_grant(member(1), &grant, at(3_600_000));
        assert!(held.until() > at(3_600_000));
        drop(held);
        leases.request(at(7_200_000));
        assert_eq!(known(), 0);
    }
}
