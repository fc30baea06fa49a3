//! When something arrives, and for whom: so that nobody has to look at every link to know that there
//! is nothing.

use std::collections::BTreeSet;

use crate::time::Time;

/// An endpoint on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PortId(pub(super) u64);

/// What is to arrive, and for which endpoints something has arrived since they looked.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    due: BTreeSet<(Time, PortId)>,
    arrived: BTreeSet<PortId>,
}

impl Agenda {
    /// Something arrives at `at`; [`Time::MAX`] is never. What turns out not to arrive then may
    /// stay: it costs a look.
    pub(super) fn note(&mut self, at: Time, port: PortId) {
        if at != Time::MAX {
            self.due.insert((at, port));
        }
    }

    /// A port has to look once more, now.
    pub(super) fn note_now(&mut self, port: PortId) {
        self.arrived.insert(port);
    }

    /// When the next thing after `now` arrives.
    pub(super) fn next(&mut self, now: Time) -> Option<Time> {
        self.pass(now);
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether something has arrived for `port` since this was asked last.
    pub(super) fn take(&mut self, port: PortId, now: Time) -> bool {
        self.pass(now);
        self.arrived.remove(&port)
    }

    fn pass(&mut self, now: Time) {
        while let Some((at, port)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            self.arrived.insert(port);
        }
    }
}
