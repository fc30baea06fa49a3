//! What coordinators hear.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weft_protocol::{Member, PartitionId};
use weft_transport::{Incarnation, NodeId, Time};

use super::state::ClusterState;
use crate::handler::{Report, Told};
use crate::limits::REPORTS_MAX;

/// What a coordinator has heard: all that it goes by beside the state when it leads. It is no part of the state. Each coordinator hears for itself, whether
/// it leads or not, so that a new leader knows at once who is silent.
///
/// The shell tells it what comes in, the node's own heartbeats among that, and calls [`prune`](Self::prune) now and then.
#[derive(Debug, Clone)]
pub struct Liveness {
    gap_max: Duration,
    /// The node that this is on, if there is one: that it hears itself proves nothing.
    own: Option<NodeId>,
    /// For how long some other node has been heard without a gap.
    attention: Option<Run>,
    heard: BTreeMap<NodeId, Heard>,
    /// Lives that take no partitions, though they are heard.
    failed: BTreeMap<NodeId, Incarnation>,
    /// What lives do not serve of what they are to, by their last heartbeats; who serves all is not listed.
    unserved: BTreeMap<NodeId, (Incarnation, BTreeSet<PartitionId>)>,
    /// Lives whose process is gone, and that were not heard since.
    gone: BTreeMap<NodeId, Incarnation>,
    /// Who told of whom that it does not answer, and in which epoch of the partition.
    unanswered: BTreeMap<(PartitionId, Member, Member), (u32, Run)>,
    /// When who last told of whom that it does not answer, whatever the partition.
    apart: BTreeMap<(Member, Member), Time>,
    /// Learners that were given up, and have not caught up since.
    given_up: BTreeMap<(Member, PartitionId), GivenUp>,
    /// In which epoch of the partition.
    caught_up: BTreeMap<(PartitionId, Member), u32>,
}

/// The heartbeats of a node in one life.
#[derive(Debug, Clone, Copy)]
struct Heard {
    incarnation: Incarnation,
    /// When the latest run without a gap began.
    first: Time,
    last: Time,
    /// Up to which version it knows the state.
    known_version: u64,
}

/// How a learner was given up.
#[derive(Debug, Clone, Copy)]
struct GivenUp {
    /// In which epoch the last time.
    epoch: u32,
    /// When that was last told.
    last: Time,
    /// In how many epochs before that, one after the other.
    times: u32,
}

/// For how long something has been heard, such as that somebody does not answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) first: Time,
    pub(super) last: Time,
}

/// How many pauses the longest rest of a partition from a node is, at most: a power of two.
const GIVEN_UP_FOR_MAX: u32 = 8;

impl Liveness {
    /// Nothing was heard yet. After `gap_max` without a heartbeat a node is heard anew; it is
    /// [`PlannerSettings::down_after`](super::PlannerSettings::down_after).
    pub const fn new(gap_max: Duration) -> Self {
        Self {
            gap_max,
            own: None,
            attention: None,
            heard: BTreeMap::new(),
            failed: BTreeMap::new(),
            unserved: BTreeMap::new(),
            gone: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            apart: BTreeMap::new(),
            given_up: BTreeMap::new(),
            caught_up: BTreeMap::new(),
        }
    }

    /// The same for a coordinator that is on `node`.
    pub fn on(node: NodeId, gap_max: Duration) -> Self {
        Self { own: Some(node), ..Self::new(gap_max) }
    }

    /// A node's heartbeat came, which says up to which version it knows the state. Those of lives that are over are ignored.
    pub fn heard(&mut self, member: Member, known_version: u64, now: Time) {
        let Member { node, incarnation } = member;
        if Some(node) != self.own {
            let latest = self.attention.filter(|latest| now.since(latest.last) <= self.gap_max);
            let first = latest.map_or(now, |latest| latest.first);
            self.attention = Some(Run { first, last: now });
        }
        let fresh = Heard { incarnation, first: now, last: now, known_version };
        let heard = self.heard.entry(node).or_insert(fresh);
        if incarnation < heard.incarnation {
            return;
        }
        // It was a mistake, or an earlier life's.
        let was_gone = self.gone.remove(&node).is_some();
        if incarnation > heard.incarnation || was_gone || now.since(heard.last) > self.gap_max {
            *heard = fresh;
        }
        heard.last = heard.last.max(now);
        heard.known_version = heard.known_version.max(known_version);
    }

    /// The node's process is gone: the system where it ran refuses connections in its place. That is sooner known than its silence, and
    /// holds until it is heard again.
    pub fn gone(&mut self, member: Member) {
        self.gone.insert(member.node, member.incarnation);
    }

    /// The node says with a heartbeat whether a log of its objects has failed. If so, it is given no partitions, and those that it has go
    /// elsewhere: only a later life of it is as good as others.
    pub fn failed(&mut self, member: Member, has_failed: bool) {
        let Member { node, incarnation } = member;
        if self.heard.get(&node).is_none_or(|heard| heard.incarnation != incarnation) {
            return;
        }
        if has_failed {
            self.failed.insert(node, incarnation);
        } else {
            self.failed.remove(&node);
        }
    }

    /// The node says with a heartbeat what it does not serve of what it is the primary of.
    pub fn unserved(&mut self, member: Member, partitions: &[PartitionId]) {
        let Member { node, incarnation } = member;
        if self.heard_in(member).is_none() {
            return;
        }
        match partitions {
            [] => drop(self.unserved.remove(&node)),
            _ => {
                let partitions = partitions.iter().copied().collect();
                self.unserved.insert(node, (incarnation, partitions));
            }
        }
    }

    /// Whether the node has said, in this life, that it serves a partition of which it is the primary since this version of the state.
    pub(super) fn serves(&self, member: Member, partition: PartitionId, since: u64) -> bool {
        let unserved = self.unserved.get(&member.node);
        let is_unserved = unserved.is_some_and(|(incarnation, partitions)| {
            *incarnation == member.incarnation && partitions.contains(&partition)
        });
        !is_unserved && self.knows(member, since)
    }

    /// `from` says something of a replica of a partition, with every heartbeat while it is so. What it says is of one epoch and good for that one only;
    /// but two nodes that cannot reach one another in one partition are not brought together in another for a while.
    pub fn told(&mut self, from: Member, told: &Told, now: Time) {
        let Told { partition, member, report, epoch } = *told;
        match report {
            Report::Unreachable => {
                if from != member {
                    keep(&mut self.apart, (from, member), now);
                }
                let fresh = (epoch, Run { first: now, last: now });
                let key = (partition, from, member);
                match self.unanswered.get_mut(&key) {
                    Some((known, run))
                        if *known == epoch && now.since(run.last) <= self.gap_max =>
                    {
                        run.last = run.last.max(now);
                    }
                    _ => keep(&mut self.unanswered, key, fresh),
                }
            }
            Report::GivenUp => {
                self.caught_up.remove(&(partition, member));
                let key = (member, partition);
                let times = match self.given_up.get(&key) {
                    Some(before) if before.epoch == epoch => before.times,
                    Some(before) => before.times.saturating_add(1),
                    None => 0,
                };
                keep(&mut self.given_up, key, GivenUp { epoch, last: now, times });
            }
            Report::CaughtUp => {
                self.given_up.remove(&(member, partition));
                keep(&mut self.caught_up, (partition, member), epoch);
            }
        }
    }

    /// Forgets what does not matter to `state` any more: of other lives and epochs, and of longer ago than `report_age_max`.
    pub fn prune(&mut self, state: &ClusterState, report_age_max: Duration, now: Time) {
        self.heard.retain(|node, _| state.node(*node).is_some());
        self.unserved.retain(|node, (incarnation, _)| {
            state.is_current(Member { node: *node, incarnation: *incarnation })
        });
        for lives in [&mut self.failed, &mut self.gone] {
            lives.retain(|node, incarnation| {
                state.is_current(Member { node: *node, incarnation: *incarnation })
            });
        }
        let is_recent = |last: Time| now.since(last) <= report_age_max;
        self.apart.retain(|(from, member), last| {
            state.is_current(*from) && state.is_current(*member) && is_recent(*last)
        });
        self.given_up.retain(|(member, _), given_up| {
            // It is remembered for as long again as it rests, to be told from one that has not been given up for long.
            let is_over = now.since(given_up.last) > report_age_max * (2 * GIVEN_UP_FOR_MAX);
            state.is_current(*member) && !is_over
        });
        // They may be of an epoch that this coordinator has not heard of yet.
        let is_of_now = |partition: PartitionId, epoch: u32| {
            let partition = state.partition(partition);
            partition.is_some_and(|partition| partition.configuration.epoch <= epoch)
        };
        self.unanswered.retain(|(partition, ..), (epoch, run)| {
            is_of_now(*partition, *epoch) && is_recent(run.last)
        });
        self.caught_up.retain(|(partition, _), epoch| is_of_now(*partition, *epoch));
    }

    /// When the node was last heard in this life, and since when without a gap.
    pub(super) fn run_of(&self, member: Member) -> Option<(Time, Time)> {
        self.heard_in(member).map(|heard| (heard.first, heard.last))
    }

    /// What was heard of a node in this life.
    fn heard_in(&self, member: Member) -> Option<&Heard> {
        self.heard.get(&member.node).filter(|heard| heard.incarnation == member.incarnation)
    }

    /// Whether the node has said, in this life, that it knows the state of this version: so it was alive after that.
    pub(super) fn knows(&self, member: Member, version: u64) -> bool {
        self.heard_in(member).is_some_and(|heard| heard.known_version >= version)
    }

    /// Whether the process of this life is known to be gone.
    pub(super) fn is_gone(&self, member: Member) -> bool {
        self.gone.get(&member.node) == Some(&member.incarnation)
    }

    /// Whether this life takes no partitions.
    pub(super) fn is_failed(&self, member: Member) -> bool {
        self.failed.get(&member.node) == Some(&member.incarnation)
    }

    /// How long ago a node was last heard in this life.
    pub fn silence_of(&self, member: Member, now: Time) -> Option<Duration> {
        self.run_of(member).map(|(_, last)| now.since(last))
    }

    /// Since when other nodes have been heard without a gap, if they still are: who was silent since then is silent, and not just out of earshot.
    pub(super) fn attentive_since(&self, now: Time) -> Option<Time> {
        let latest = self.attention.filter(|latest| now.since(latest.last) <= self.gap_max);
        latest.map(|latest| latest.first)
    }

    /// Whether everybody answers, as far as was told.
    pub(super) fn is_quiet(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// What `from` tells of `member` in this epoch: for how long it has not answered.
    pub(super) fn unanswered(
        &self,
        partition: PartitionId,
        epoch: u32,
        from: Member,
        member: Member,
    ) -> Option<Run> {
        let (told, run) = self.unanswered.get(&(partition, from, member))?;
        (*told == epoch).then_some(*run)
    }

    /// When either of the two last told that it cannot reach the other.
    pub(super) fn last_apart(&self, one: Member, other: Member) -> Option<Time> {
        let told = [(one, other), (other, one)];
        told.iter().filter_map(|pair| self.apart.get(pair)).copied().max()
    }

    /// Whether the learner was given up in this epoch.
    pub(super) fn is_given_up(&self, partition: PartitionId, epoch: u32, learner: Member) -> bool {
        self.given_up.get(&(learner, partition)).is_some_and(|given_up| given_up.epoch == epoch)
    }

    /// Whether the partition is not given to this node again yet, having been given up there: not for `pause`, and for twice as long each further time.
    pub(super) fn rests_from(
        &self,
        partition: PartitionId,
        learner: Member,
        pause: Duration,
        now: Time,
    ) -> bool {
        self.given_up.get(&(learner, partition)).is_some_and(|given_up| {
            let pauses = 1 << given_up.times.min(GIVEN_UP_FOR_MAX.ilog2());
            now.since(given_up.last) <= pause * pauses
        })
    }

    /// Whether some partition was given up on the node, and has not caught up there since: it has no room, maybe.
    pub(super) fn has_given_up(&self, learner: Member) -> bool {
        let partitions = (learner, PartitionId(0))..=(learner, PartitionId(u16::MAX));
        self.given_up.range(partitions).next().is_some()
    }

    /// Whether the learner has caught up in this epoch.
    pub(super) fn has_caught_up(
        &self,
        partition: PartitionId,
        epoch: u32,
        learner: Member,
    ) -> bool {
        self.caught_up.get(&(partition, learner)) == Some(&epoch)
    }
}

/// Remembers something, unless too much is remembered already.
fn keep<Key: Ord, Value>(all: &mut BTreeMap<Key, Value>, key: Key, value: Value) {
    if all.len() < REPORTS_MAX || all.contains_key(&key) {
        all.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P0: PartitionId = PartitionId(0);

    /// In this life of one node.
    fn member(life: u64) -> Member {
        Member { node: NodeId(1), incarnation: Incarnation(life) }
    }

    /// That it is the primary says the coordinator; that it serves, the node alone can say.
    #[test]
    fn a_primary_serves_once_it_says_so_and_knows_of_it() {
        let mut liveness = Liveness::new(Duration::from_millis(500));
        let life = member(1);
        let serves = |liveness: &Liveness| liveness.serves(life, P0, 7);
        assert!(!serves(&liveness));
        liveness.heard(life, 6, Time::ZERO);
        liveness.unserved(life, &[]);
        assert!(!serves(&liveness), "it knows nothing of it yet");
        liveness.heard(life, 7, Time::ZERO);
        assert!(serves(&liveness));
        liveness.unserved(life, &[P0]);
        assert!(!serves(&liveness));
        liveness.unserved(life, &[]);
        assert!(serves(&liveness));
        // What a life that is over says is nothing.
        let next = member(2);
        liveness.heard(next, 7, Time::ZERO);
        liveness.unserved(life, &[P0]);
        assert!(liveness.serves(next, P0, 7));
        assert!(!serves(&liveness));
    }
}
