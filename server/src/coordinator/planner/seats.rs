//! The nodes as a plan goes along: what each has, and which is to be given more.

use std::collections::BTreeSet;

use arrayvec::ArrayVec;
use weft_protocol::{Configuration, Durability, Member};
use weft_transport::NodeId;

use crate::coordinator::node::Node;
use crate::coordinator::state::ClusterState;
use crate::limits::REPLICAS_HELD_MAX;

/// Where in [`Seats`] a node is.
pub(super) type SeatIndex = usize;

/// Seats of the members and learners of a partition.
pub(super) type SeatList = ArrayVec<SeatIndex, REPLICAS_HELD_MAX>;

/// A node, and what it has by the state and by what was planned so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) member: Member,
    /// The number of its zone.
    zone: usize,
    /// It is heard.
    pub(super) is_living: bool,
    pub(super) is_settled: bool,
    /// It may be given partitions, if it is living.
    pub(super) is_holder: bool,
    has_disk: bool,
    /// Partitions that it has, or is being given, but for those that are on their way to another.
    pub(super) load: i64,
    /// Partitions of which it is the primary.
    pub(super) primaries: i64,
    /// Partitions that it is being given.
    pub(super) receiving: usize,
    /// Partitions that it is giving to others.
    pub(super) sending: usize,
}

impl Seat {
    /// As its [description](crate::coordinator::NodeDescription) has it.
    pub(super) fn keeps(&self, durability: Durability) -> bool {
        durability == Durability::Memory || self.has_disk
    }
}

/// All nodes, by id.
#[derive(Debug)]
pub(super) struct Seats {
    seats: Vec<Seat>,
    zone_count: usize,
    /// Those that can be given partitions now, the least loaded first.
    open: BTreeSet<(i64, SeatIndex)>,
    /// How many nodes were looked at.
    pub(super) looked_at: usize,
}

impl Seats {
    /// The nodes of `state` and what they have.
    pub(super) fn new(
        state: &ClusterState,
        is_living: impl Fn(&Node) -> bool,
        is_failed: impl Fn(Member) -> bool,
    ) -> Self {
        let zones: BTreeSet<&str> = state.nodes().map(|node| &*node.description.zone).collect();
        let zones: Vec<&str> = zones.into_iter().collect();
        let seat = |node: &Node| Seat {
            member: node.member(),
            zone: zones.partition_point(|zone| *zone < &*node.description.zone),
            is_living: is_living(node),
            is_settled: node.is_settled,
            is_holder: node.is_holder() && !is_failed(node.member()),
            has_disk: node.description.keeps(Durability::Fsync),
            load: 0,
            primaries: 0,
            receiving: 0,
            sending: 0,
        };
        let mut seats: Vec<Seat> = state.nodes().map(seat).collect();
        for (_, partition) in state.partitions() {
            let Configuration { primary, members, learners, .. } = &partition.configuration;
            for member in members.iter().chain(learners) {
                if let Some(index) = position(&seats, member.node) {
                    seats[index].load += 1;
                }
            }
            if let Some(index) = primary.and_then(|primary| position(&seats, primary.node)) {
                seats[index].primaries += 1;
            }
        }
        let open = seats.iter().enumerate().filter(|(_, seat)| seat.is_living && seat.is_holder);
        let open: BTreeSet<_> = open.map(|(index, seat)| (seat.load, index)).collect();
        let open_zones: BTreeSet<_> = open.iter().map(|(_, index)| seats[*index].zone).collect();
        Self { zone_count: open_zones.len(), seats, open, looked_at: 0 }
    }

    /// Where the node is.
    pub(super) fn of(&self, node: NodeId) -> Option<SeatIndex> {
        position(&self.seats, node)
    }

    pub(super) fn get(&self, index: SeatIndex) -> &Seat {
        &self.seats[index]
    }

    pub(super) fn get_mut(&mut self, index: SeatIndex) -> &mut Seat {
        &mut self.seats[index]
    }

    /// The seat of a member, if the node is heard.
    pub(super) fn living(&self, member: Member) -> Option<&Seat> {
        let seat = self.get(self.of(member.node)?);
        (seat.is_living && seat.member == member).then_some(seat)
    }

    /// The node has so many partitions more, or fewer.
    pub(super) fn change_load(&mut self, index: SeatIndex, by: i64) {
        let seat = &mut self.seats[index];
        let before = seat.load;
        seat.load += by;
        let load = seat.load;
        if self.open.remove(&(before, index)) {
            self.open.insert((load, index));
        }
    }

    /// Whether a partition of such tables can be given to somebody now.
    pub(super) fn is_one_open_for(&self, durability: Durability) -> bool {
        self.open.iter().any(|(_, index)| self.get(*index).keeps(durability))
    }

    /// How many nodes can be given partitions now.
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// The smallest load of those that can be given partitions.
    pub(super) fn load_min(&self) -> Option<i64> {
        self.open.first().map(|(load, _)| *load)
    }

    /// How many of `among` are of the zone of `index`, but for that one itself.
    pub(super) fn neighbours(&self, index: SeatIndex, among: &[SeatIndex]) -> usize {
        let zone = self.get(index).zone;
        among.iter().filter(|other| **other != index && self.get(**other).zone == zone).count()
    }

    /// How many pairs of `seats` are of one zone.
    pub(super) fn zone_pairs(&self, seats: &[SeatIndex]) -> usize {
        seats.iter().map(|index| self.neighbours(*index, seats)).sum::<usize>() / 2
    }

    /// Who is to join `taken`: of a zone that has fewest of them, and among those the one with the least load. A zone is never given up because all of
    /// it [are busy](Self::pick) at the moment: then nobody is chosen yet.
    pub(super) fn pick(
        &mut self,
        taken: &[SeatIndex],
        is_excluded: impl Fn(&Seat) -> bool,
        is_busy: impl Fn(&Seat) -> bool,
    ) -> Option<SeatIndex> {
        let mut zones = SeatList::new();
        for index in taken {
            let zone = self.get(*index).zone;
            if !zones.contains(&zone) {
                zones.push(zone);
            }
        }
        // No zone can be better than one without any of them, if there is one.
        let best_possible = usize::from(zones.len() >= self.zone_count);
        let mut best = usize::MAX;
        let mut chosen = None;
        let mut looked_at = 0;
        for (_, index) in &self.open {
            looked_at += 1;
            let seat = self.get(*index);
            if taken.contains(index) || is_excluded(seat) {
                continue;
            }
            let neighbours = self.neighbours(*index, taken);
            if neighbours < best {
                (best, chosen) = (neighbours, None);
            }
            if neighbours == best && chosen.is_none() && !is_busy(seat) {
                chosen = Some(*index);
            }
            if best <= best_possible && chosen.is_some() {
                break;
            }
        }
        self.looked_at += looked_at;
        chosen
    }

    /// Who is to go from `held`, of whom there are more than wanted: who has most neighbours in its zone, and among those the most loaded.
    pub(super) fn victim(
        &self,
        held: &[SeatIndex],
        spared: Option<SeatIndex>,
    ) -> Option<SeatIndex> {
        let others = held.iter().copied().filter(|index| Some(*index) != spared);
        others.max_by_key(|index| (self.neighbours(*index, held), self.get(*index).load, *index))
    }

    /// Who is to be primary among `members`: one that stays, with the fewest partitions to be primary of.
    pub(super) fn best_primary(&self, members: impl Iterator<Item = Member>) -> Option<Member> {
        let seats = members.filter_map(|member| self.living(member)).filter(|seat| seat.is_settled);
        let best = seats.min_by_key(|seat| (!seat.is_holder, seat.primaries, seat.member.node));
        best.map(|seat| seat.member)
    }

    /// Another is primary of a partition.
    pub(super) fn hand_over(&mut self, from: Option<Member>, to: Option<Member>) {
        for (member, by) in [(from, -1), (to, 1)] {
            if let Some(index) = member.and_then(|member| self.of(member.node)) {
                self.seats[index].primaries += by;
            }
        }
    }
}

fn position(seats: &[Seat], node: NodeId) -> Option<SeatIndex> {
    seats.binary_search_by_key(&node, |seat| seat.member.node).ok()
}
