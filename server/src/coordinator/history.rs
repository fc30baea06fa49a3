//! What is gone: differences between versions tell it, and nothing else would.

use std::collections::VecDeque;

use weft_transport::NodeId;

use super::command::ClientId;
use crate::limits::HISTORY_MAX;

/// What does not exist any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    Node(NodeId),
    Client(ClientId),
}

/// The latest that is gone, each with the version in which it went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct History {
    /// From the oldest on.
    gone: VecDeque<(u64, Gone)>,
    /// Nothing is missing of what went after this version.
    complete_since: u64,
}

impl History {
    pub(super) fn restored(complete_since: u64, gone: VecDeque<(u64, Gone)>) -> Self {
        Self { gone, complete_since }
    }

    pub(super) fn record(&mut self, version: u64, gone: Gone) {
        if self.gone.len() >= HISTORY_MAX
            && let Some((forgotten, _)) = self.gone.pop_front()
        {
            self.complete_since = forgotten;
        }
        self.gone.push_back((version, gone));
    }

    pub(super) const fn complete_since(&self) -> u64 {
        self.complete_since
    }

    /// Whether this is among the latest that is gone.
    pub(super) fn has(&self, what: Gone) -> bool {
        self.gone.iter().any(|(_, gone)| *gone == what)
    }

    /// From the oldest on.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Gone)> {
        self.gone.iter().copied()
    }

    /// What went after `version`, or `None` if that is not known any more.
    pub(super) fn since(&self, version: u64) -> Option<impl Iterator<Item = Gone>> {
        let is_known = version >= self.complete_since;
        let first = self.gone.partition_point(|(at, _)| *at <= version);
        is_known.then(|| self.gone.range(first..).map(|(_, gone)| *gone))
    }
}
