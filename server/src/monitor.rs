//! What a node tells about itself on the HTTP port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::durable::Poisoned;
use crate::handler::NodeHandler;
use crate::report::{self, Figure};

/// A view of a running node for those who watch it; clones watch the same node.
#[derive(Debug, Clone)]
pub struct Monitor {
    handler: Arc<NodeHandler>,
    serving: Arc<AtomicBool>,
}

impl Monitor {
    /// Watches the node behind `handler`, which does not serve yet.
    pub fn new(handler: Arc<NodeHandler>) -> Monitor {
        Monitor { handler, serving: Arc::new(AtomicBool::new(false)) }
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
        self.handler.logs()?.journals().find_map(|journal| journal.failure())
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        report::figures(&self.handler)
    }
}
