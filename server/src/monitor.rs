//! What a node tells about itself on the HTTP port.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::coordinator::SeatFailure;
use crate::durable::Poisoned;
use crate::handler::NodeHandler;
use crate::report::{self, Figure};

/// A view of a node for those who watch it; clones watch the same node.
#[derive(Debug, Clone, Default)]
pub struct Monitor {
    /// Nothing while the node still has to find its cluster, which may take as long as it takes for others to be there.
    handler: Arc<OnceLock<Arc<NodeHandler>>>,
    serving: Arc<AtomicBool>,
    coordinator_failure: Arc<OnceLock<SeatFailure>>,
}

/// What a node cannot do any more, until it is started again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeFailure {
    /// A log of objects.
    #[error(transparent)]
    Objects(#[from] Poisoned),
    /// Its coordinator takes no part.
    #[error("the coordinator of this node failed; check the disk and restart the node: {0}")]
    Coordinator(SeatFailure),
    /// Other nodes refuse it.
    #[error("another process is this node, and was started later: end it, and restart this one")]
    Superseded,
}

impl Monitor {
    /// Watches the node behind `handler` from now on, which does not serve yet.
    pub fn watch(&self, handler: Arc<NodeHandler>) {
        let is_first = self.handler.set(handler).is_ok();
        debug_assert!(is_first, "a process has one node");
    }

    /// Notes whether the node takes data connections.
    pub fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Ordering::Release);
    }

    /// Whether the node takes data connections.
    pub fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// The coordinator of the node takes no part any more.
    pub fn coordinator_failed(&self, failure: SeatFailure) {
        // A process has one coordinator, which ends once.
        let _ = self.coordinator_failure.set(failure);
    }

    /// What has failed for good, so that the node has to be restarted.
    pub fn failure(&self) -> Option<NodeFailure> {
        if let Some(failure) = self.coordinator_failure.get() {
            return Some(NodeFailure::Coordinator(failure.clone()));
        }
        let handler = self.handler.get()?;
        if handler.coordination.is_superseded() {
            return Some(NodeFailure::Superseded);
        }
        let poisoned = handler.logs()?.journals().find_map(|journal| journal.failure());
        poisoned.map(NodeFailure::from)
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        self.handler.get().map_or_else(Vec::new, |handler| report::figures(handler))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::codec::CodecError;

    #[test]
    fn a_coordinator_that_takes_no_part_any_more_is_a_failure_of_the_node() {
        let monitor = Monitor::default();
        assert_eq!(monitor.failure(), None);
        monitor.clone().coordinator_failed(SeatFailure::Entry(CodecError::UnknownCommand));
        let failure = monitor.failure().unwrap().to_string();
        assert!(failure.contains("the coordinator of this node failed"), "{failure}");
        assert!(failure.contains("restart the node"), "{failure}");
    }
}
