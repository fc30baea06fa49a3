//! Who knows which version of the state, and is told the next.
//!
//! Nodes say with every heartbeat how far they have come. Each is told what is new as soon as it is committed, by what it was told before; if its heartbeats
//! do not show in time that it took that, it is told again by what it is known to know. Nodes of the cluster that are not heard may be there all the same,
//! and not know that this is a coordinator: a leader tells them everything now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_protocol::Member;
use weft_transport::{NodeId, Time};

use crate::coordinator::command::ClusterId;
use crate::coordinator::node::Node;
use crate::coordinator::notice::Update;
use crate::coordinator::state::ClusterState;
use crate::limits::LISTENERS_MAX;

/// What was told and not taken is told again after so long: four heartbeats.
const TOLD_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Who was not heard for so long is told nothing, but for what all are told that are not heard, who are told it once in so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);

/// Whom a coordinator tells what it has applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// All that it hears: it leads.
    All,
    /// The node that it runs on, with which it shares its end: were that told by the leader alone, coordinators whose leader is gone might not know where
    /// the others are, though their log has it. One that knows nothing yet goes by where it was told to look: it has not joined, and what the log has
    /// may be old.
    Own(NodeId),
}

impl Audience {
    fn includes(self, member: Member, known: u64) -> bool {
        match self {
            Audience::All => true,
            Audience::Own(node) => member.node == node && known > 0,
        }
    }
}

/// The nodes that are heard, in the lives that they are heard in: one whose life is over is told so too.
#[derive(Debug, Default)]
pub(super) struct Telling {
    listeners: BTreeMap<Member, Listener>,
    /// When those who are not heard were told last.
    unheard_told: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct Listener {
    heard: Time,
    known: u64,
    told: Option<Told>,
}

/// What a node was told that its heartbeats do not show yet.
#[derive(Debug, Clone, Copy)]
struct Told {
    version: u64,
    /// Since when nothing of it was taken.
    since: Time,
}

impl Telling {
    /// A node says how far it has come. Heartbeats may overtake each other, and what a node knows it does not forget in its life.
    pub(super) fn heard(&mut self, member: Member, known: u64, now: Time) {
        if self.listeners.len() >= LISTENERS_MAX && !self.listeners.contains_key(&member) {
            return;
        }
        let fresh = Listener { heard: now, known, told: None };
        let listener = self.listeners.entry(member).or_insert(fresh);
        listener.heard = listener.heard.max(now);
        if known > listener.known {
            listener.known = known;
            listener.told = listener
                .told
                .filter(|told| told.version > known)
                .map(|told| Told { since: now, ..told });
        }
    }

    /// Forgets who is not heard any more.
    pub(super) fn prune(&mut self, now: Time) {
        self.listeners.retain(|_, listener| now.since(listener.heard) <= FORGOTTEN_AFTER);
    }

    /// What is to be told now by a coordinator that is for `audience`, each to all that are to be told the same.
    pub(super) fn due(
        &mut self,
        audience: Audience,
        cluster: ClusterId,
        state: &ClusterState,
        now: Time,
    ) -> Vec<(Vec<Member>, Update)> {
        let version = state.version();
        let mut by_base: BTreeMap<u64, Vec<Member>> = BTreeMap::new();
        for (member, listener) in &mut self.listeners {
            if listener.known >= version || !audience.includes(*member, listener.known) {
                continue;
            }
            let waited = listener.told.filter(|told| now.since(told.since) < TOLD_AGAIN_AFTER);
            let base = match waited {
                Some(told) if told.version >= version => continue,
                Some(told) => told.version,
                None => listener.known,
            };
            let since = waited.map_or(now, |told| told.since);
            listener.told = Some(Told { version, since });
            by_base.entry(base).or_default().push(*member);
        }
        if audience == Audience::All && self.is_unheard_turn(now) {
            let members = state.nodes().map(Node::member);
            let unheard = members.filter(|member| !self.listeners.contains_key(member));
            let unheard: Vec<Member> = unheard.collect();
            if !unheard.is_empty() {
                by_base.entry(0).or_default().extend(unheard);
            }
        }
        let update = |(base, members)| {
            let changes = state.changes_since(base)?;
            Some((members, Update::of(cluster, base, &changes)))
        };
        by_base.into_iter().filter_map(update).collect()
    }

    /// Whether it is time to tell those who are not heard; if so, they have been told.
    fn is_unheard_turn(&mut self, now: Time) -> bool {
        let is_turn = self.unheard_told.is_none_or(|told| now.since(told) >= FORGOTTEN_AFTER);
        if is_turn {
            self.unheard_told = Some(now);
        }
        is_turn
    }
}
