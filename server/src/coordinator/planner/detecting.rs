//! Who is heard, and who is not.

use super::memory::Memory;
use super::round::Round;
use super::settings::PlannerSettings;
use crate::coordinator::command::Command;
use crate::coordinator::liveness::Liveness;
use crate::coordinator::node::Node;
use weft_transport::Time;

/// Whether the node was heard lately, and its process is not known to be gone.
///
/// Of one that was never heard in its life it says nothing at first that it is not: it is given its time from when the leader first saw it. So is one that
/// was heard, unless this coordinator has heard others all the time: then the silence began before it led, and counts from there.
pub(super) fn is_heard(
    node: &Node,
    liveness: &Liveness,
    settings: &PlannerSettings,
    memory: &Memory,
    now: Time,
) -> bool {
    if liveness.is_gone(node.member()) {
        return false;
    }
    let seen = memory.seen(node.member());
    let last = match (liveness.run_of(node.member()), liveness.attentive_since(now)) {
        (Some((_, last)), Some(since)) => Some(last).max(seen.map(|seen| seen.min(since))),
        (run, _) => run.map(|(_, last)| last).max(seen),
    };
    last.is_some_and(|last| now.since(last) <= settings.down_after)
}

impl Round<'_> {
    /// Marks who went and who came, and who may become primary again.
    pub(super) fn detect(&mut self) {
        let Self { state, liveness, settings, memory, now, .. } = *self;
        for node in state.nodes() {
            let member = node.member();
            if node.is_up && !is_heard(node, liveness, settings, memory, now) {
                self.push(Command::MarkDown { member });
            } else if !node.is_up && self.is_steady(node) {
                self.push(Command::MarkUp { member });
            }
            let seen = memory.seen(member).unwrap_or(now);
            if !node.is_settled && now.since(seen) >= settings.lease_over_after() {
                self.push(Command::Settle { member });
            }
        }
    }

    /// Whether the node is heard again, and not just for a moment: each time that it is believed partitions are changed.
    fn is_steady(&self, node: &Node) -> bool {
        let member = node.member();
        if self.liveness.is_gone(member) {
            // It was heard a moment ago, before it went.
            return false;
        }
        self.liveness.run_of(member).is_some_and(|(first, last)| {
            let is_heard = self.now.since(last) <= self.settings.down_after;
            is_heard && last.since(first) >= self.settings.up_after
        })
    }

    /// Nodes that left and hold nothing any more are forgotten.
    pub(super) fn forget(&mut self) {
        let state = self.state;
        for node in state.nodes().filter(|node| node.is_leaving) {
            if !state.partitions().any(|(_, partition)| partition.involves(node.id)) {
                self.push(Command::Forget { member: node.member() });
            }
        }
    }
}
