//! What a node tells about itself on the HTTP port.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::durable::Poisoned;
use crate::handler::NodeHandler;
use crate::report::{self, Figure};

/// A view of a node for those who watch it; clones watch the same node.
#[derive(Debug, Clone, Default)]
pub struct Monitor {
    /// Nothing while the node still has to find its cluster, which may take as long as it takes for others to be there.
    handler: Arc<OnceLock<Arc<NodeHandler>>>,
    serving: Arc<AtomicBool>,
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

    /// What has failed for good, so that the node has to be restarted.
    pub fn failure(&self) -> Option<Poisoned> {
        self.handler.get()?.logs()?.journals().find_map(|journal| journal.failure())
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        self.handler.get().map_or_else(Vec::new, |handler| report::figures(handler))
    }
}
