//! What the coordinator is to know of the partitions here. Told with the next heartbeat, and again while it holds.

use std::collections::BTreeMap;
use std::task::Waker;

use parking_lot::Mutex;
use weft_protocol::{Member, PartitionId};

/// Something that the coordinator is to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// A member or a learner does not answer its primary.
    Unreachable,
    /// A learner is given nothing any more, unless it begins anew.
    GivenUp,
    /// A learner has everything, and no write is acknowledged without it.
    CaughtUp,
}

/// What the coordinator is told of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The partition.
    pub partition: PartitionId,
    /// Whom it is about.
    pub member: Member,
    /// What is so.
    pub report: Report,
    /// In which epoch of the partition.
    pub epoch: u32,
}

/// What is to be told, and the epoch in which it was so: a proposal is good for that one only.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    due: BTreeMap<(PartitionId, Member, Report), u32>,
    /// How many learners were given up, for whatever reason.
    given_up: u64,
    /// Somebody knows of a newer map than this node has.
    looks_at_map: bool,
    reporter: Option<Waker>,
}

impl Reports {
    /// Has something told.
    pub(crate) fn add(&self, partition: PartitionId, member: Member, report: Report, epoch: u32) {
        self.change(|state| {
            let known = state.due.insert((partition, member, report), epoch);
            if report == Report::GivenUp {
                state.given_up += u64::from(known.is_none());
                state.due.remove(&(partition, member, Report::CaughtUp));
            }
        });
    }

    /// How many learners were given up here.
    pub(crate) fn given_up(&self) -> u64 {
        self.state.lock().given_up
    }

    /// What was told is not so any more.
    pub(crate) fn take_back(&self, partition: PartitionId, member: Member, report: Report) {
        self.state.lock().due.remove(&(partition, member, report));
    }

    /// Has the map looked at.
    pub(crate) fn look_at_map(&self) {
        self.change(|state| state.looks_at_map = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        if let Some(reporter) = state.reporter.take() {
            drop(state);
            reporter.wake();
        }
    }

    /// A newer epoch of a partition is known: what was told of earlier ones is of no use.
    pub(crate) fn settled(&self, partition: PartitionId, epoch: u32) {
        self.state.lock().due.retain(|(of, ..), told| *of != partition || *told >= epoch);
    }

    /// What is to be told now, and whether the map is to be looked at. `reporter` is woken when there is more.
    pub(crate) fn due(&self, reporter: &Waker) -> (Vec<Told>, bool) {
        let mut state = self.state.lock();
        state.reporter = Some(reporter.clone());
        let told =
            |((partition, member, report), epoch): (&(PartitionId, Member, Report), &u32)| Told {
                partition: *partition,
                member: *member,
                report: *report,
                epoch: *epoch,
            };
        (state.due.iter().map(told).collect(), std::mem::take(&mut state.looks_at_map))
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::{Incarnation, NodeId};

    use super::*;

    fn told(reports: &Reports) -> Vec<(u16, Report, u32)> {
        let (due, _) = reports.due(Waker::noop());
        due.iter().map(|told| (told.partition.0, told.report, told.epoch)).collect()
    }

    #[test]
    fn what_is_so_is_told_until_it_is_not() {
        let reports = Reports::default();
        let member = Member { node: NodeId(2), incarnation: Incarnation(1) };
        let add = |partition, report, epoch| {
            reports.add(PartitionId(partition), member, report, epoch);
        };
        add(1, Report::Unreachable, 3);
        add(2, Report::CaughtUp, 5);
        assert_eq!(told(&reports), [(1, Report::Unreachable, 3), (2, Report::CaughtUp, 5)]);
        assert_eq!(told(&reports).len(), 2, "with every heartbeat");
        reports.take_back(PartitionId(1), member, Report::Unreachable);
        // Who is given up is not one that has everything.
        add(2, Report::GivenUp, 5);
        add(2, Report::GivenUp, 5);
        assert_eq!((told(&reports), reports.given_up()), (vec![(2, Report::GivenUp, 5)], 1));
        reports.settled(PartitionId(2), 6);
        assert_eq!(told(&reports), []);
    }
}
