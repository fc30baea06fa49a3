//! Partitions that would be better elsewhere, and primaries too.

use weft_protocol::{Configuration, Member};

use super::round::Round;
use super::seats::{SeatIndex, SeatList};
use crate::coordinator::partition::Partition;

impl Round<'_> {
    /// Begins to move partitions, a few at a time: from a zone that has another replica to one that has none, and from nodes that have many to nodes
    /// that have few. The new replica is filled first, and only then another is [removed](Self::trim).
    pub(super) fn even_out(&mut self) {
        for (id, partition) in self.open_partitions() {
            let is_enough = self.moves >= self.settings.moves_max;
            if is_enough || self.catching_up >= self.settings.catching_up_max {
                break;
            }
            let present = &partition.configuration;
            let Some((primary, members)) = self.in_order(partition) else { continue };
            if !self.may_be_improved(id, present) || !self.could_be_better(&members) {
                continue;
            }
            let Some(index) = self.place_for(id, partition, primary, &members) else { continue };
            if self.is_better(present, &members, index) {
                self.moves += 1;
                self.add_learner(id, present, primary, index);
            }
        }
    }

    /// The primary and all members, if the partition has all that it wants, and nobody is on its way to it.
    fn in_order(&self, partition: &Partition) -> Option<(Member, SeatList)> {
        let present = &partition.configuration;
        let primary = self.living_primary(present)?;
        let members = self.staying(&present.members);
        let is_whole = members.len() == present.members.len();
        let is_enough = members.len() == self.wanted(partition);
        (is_whole && is_enough && present.learners.is_empty()).then_some((primary, members))
    }

    /// Whether it is worth looking for a better place: what is looked at most is what is in order.
    fn could_be_better(&self, members: &[SeatIndex]) -> bool {
        let load_max = members.iter().map(|index| self.seats.get(*index).load).max();
        let gap = load_max.zip(self.seats.load_min()).map_or(0, |(most, least)| most - least);
        gap >= 2 || self.seats.zone_pairs(members) > 0
    }

    /// Whether a partition gains if `index` joins it and then whoever it is [goes](Self::going_from).
    fn is_better(&self, present: &Configuration, members: &[SeatIndex], index: SeatIndex) -> bool {
        let held: SeatList = members.iter().copied().chain([index]).collect();
        let Some(victim) = self.going_from(present, members.len(), &held) else { return false };
        let after: SeatList = held.iter().copied().filter(|seat| *seat != victim).collect();
        let pairs = (self.seats.zone_pairs(&after), self.seats.zone_pairs(members));
        let load = |index| self.seats.get(index).load;
        // With a difference of one the two would only change places.
        let is_evener = load(victim) >= load(index) + 2;
        victim != index && (pairs.0 < pairs.1 || pairs.0 == pairs.1 && is_evener)
    }

    /// Lets other members be primary where one node is that of many more partitions than another: a node that came back is given its part again. A
    /// few at a time, and each for a while at least. Returns whether there were any.
    pub(super) fn even_out_primaries(&mut self) -> bool {
        let settings = self.settings;
        if self.now.since(self.memory.handed_over) < settings.handover_every {
            return false;
        }
        let mut count = 0;
        for (id, partition) in self.open_partitions() {
            if count >= settings.handovers_max {
                break;
            }
            let present = &partition.configuration;
            let Some((primary, members)) = self.in_order(partition) else { continue };
            let has_rested = self.now.since(self.memory.since(id)) >= settings.handover_after;
            if !has_rested || !self.may_be_improved(id, present) {
                continue;
            }
            if let Some(other) = self.less_busy(primary, &members) {
                self.reconfigure(id, present, other, present.members.clone(), Vec::new());
                count += 1;
            }
        }
        count > 0
    }

    /// A member that is primary of at least two partitions fewer.
    fn less_busy(&self, primary: Member, members: &[SeatIndex]) -> Option<Member> {
        let members = members.iter().map(|index| self.member_at(*index));
        let other = self.seats.best_primary(members)?;
        let primaries = |member: Member| self.seats.living(member).map_or(0, |seat| seat.primaries);
        let is_reachable = !self.are_apart(primary, other);
        (is_reachable && primaries(other) + 2 <= primaries(primary)).then_some(other)
    }
}
