//! A host that coordinates: it becomes a member of the coordinators' log, and works.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weft_server::coordinator::raft::{Batch, Identity, LogError, MemoryLog, RaftId, begin_life};
use weft_server::coordinator::{
    Answer, Ask, Coordinator, CoordinatorSettings, Ended, ImmediateWriter, ProposalId, raft, serve,
};
use weft_server::handler::NodeHandler;
use weft_transport::Endpoint;

use super::host::{CLUSTER, pause};

/// What a coordinator starts from.
pub(super) struct Coordinating {
    pub(super) handler: Arc<NodeHandler>,
    pub(super) endpoint: Endpoint,
    pub(super) log: Arc<Mutex<MemoryLog>>,
    /// Under which it asks to be one.
    pub(super) admission: ProposalId,
    pub(super) has_joined: Rc<Cell<bool>>,
    /// Where it is left why it works no more.
    pub(super) ended: Rc<RefCell<Option<Ended>>>,
    pub(super) settings: raft::Settings,
}

impl Coordinating {
    /// Makes the host a member of the coordinators, if it is none, and has it work.
    pub(super) async fn run(self) {
        let ended = Rc::clone(&self.ended);
        let (log, node) = (Arc::clone(&self.log), self.endpoint.node());
        log.lock().end_process();
        let begun = begin_life(&mut *log.lock(), node, Some(CLUSTER));
        let recovered = match begun {
            Ok(recovered) => recovered,
            Err(LogError::Missing { .. }) => {
                let raft = self.admitted().await;
                let first = Batch::joining(Identity { cluster: CLUSTER, node, raft });
                let mut log = log.lock();
                log.create(&first).expect("it is empty and has no fault");
                begin_life(&mut *log, node, Some(CLUSTER)).expect("it was made a moment ago")
            }
            Err(error) => panic!("what was written can be read: {error}"),
        };
        let Coordinating { handler, endpoint, settings: raft, .. } = self;
        let settings = CoordinatorSettings { raft, ..CoordinatorSettings::default() };
        let coordinator = Coordinator::new(settings, recovered, endpoint.clock().now())
            .expect("what was written can be");
        let why = serve(handler, endpoint, coordinator, ImmediateWriter::new(log)).await;
        ended.replace(Some(why));
    }

    /// Asks to be a coordinator until it is one.
    async fn admitted(&self) -> RaftId {
        let Coordinating { handler, endpoint, admission, has_joined, .. } = self;
        let admit = Ask::Admit { id: *admission, node: endpoint.node() };
        loop {
            if has_joined.get()
                && let Answer::Admitted { raft, .. } =
                    handler.ask_coordinators(endpoint, &admit).await
            {
                return raft;
            }
            pause(endpoint, Duration::from_millis(100)).await;
        }
    }
}
