//! The coordinator of a node: for as long as it is one of them, and again when it is admitted anew.
//!
//! Who was removed, since its node was to leave, has a log of a member that nobody hears any more and that is never one again: ids are not used twice. So the log
//! is put away, and the node is in the place of one with a fresh disk. It asks to be admitted when it is of the cluster and is to stay there: at once if it joined
//! again before it learned that it had been removed, or when an operator takes back that it is to leave. Whenever the process ends meanwhile, the next start finds
//! the old log and learns the same again, or none, and joins without.

use std::sync::Arc;
use std::time::Duration;

use weft_transport::Endpoint;

use super::beginning::random_proposal;
use super::log_place::{LogPlace, OpenLog};
use super::{StartError, random_seed};
use crate::coordinator::raft::{Batch, Identity, RaftId};
use crate::coordinator::{
    Answer, Ask, ClusterId, Coordinator, CoordinatorSettings, DenialKind, Ended, PlannerSettings,
    ThreadWriter, Timing, serve,
};
use crate::handler::NodeHandler;
use crate::monitor::Monitor;

/// Before a node asks to be admitted anew, each time. A former life of it that still runs has heard by then that it is over, and does not ask.
const ADMISSION_PAUSE: Duration = Duration::from_secs(1);

/// What a coordinator of this node is made of.
#[derive(Debug)]
pub(super) struct Coordinating {
    pub(super) handler: Arc<NodeHandler>,
    pub(super) cluster: ClusterId,
    /// The time that nodes of the cluster keep.
    pub(super) timing: Timing,
    /// How many nodes it was told of.
    pub(super) expected_nodes: usize,
    pub(super) place: LogPlace,
    pub(super) monitor: Monitor,
}

/// A coordinator and what writes its log.
type Begun = (Coordinator, ThreadWriter);

impl Coordinating {
    /// Makes a coordinator that goes on where its log ends.
    pub(super) fn begin(
        &self,
        (log, recovered): OpenLog,
        endpoint: &Endpoint,
    ) -> Result<Begun, StartError> {
        let Coordinating { timing, expected_nodes, .. } = self;
        let planner = PlannerSettings { expected_nodes: *expected_nodes, ..timing.planner() };
        let raft = timing.raft(random_seed());
        let settings = CoordinatorSettings { raft, planner, heartbeat: timing.heartbeat() };
        let coordinator = Coordinator::new(settings, recovered, endpoint.clock().now())?;
        let writer = ThreadWriter::start(log).map_err(StartError::Background)?;
        Ok((coordinator, writer))
    }

    /// Runs the coordinator, and each that comes after it, until the node is stopped or there is to be none any more.
    pub(super) async fn run(self, endpoint: Endpoint, mut begun: Begun) {
        loop {
            let (coordinator, writer) = begun;
            let handler = Arc::clone(&self.handler);
            match serve(handler, endpoint.clone(), coordinator, writer).await {
                Ended::Stopped => return,
                Ended::Removed => {}
                Ended::Failed(failure) => {
                    tracing::error!(%failure, "the coordinator of this node takes no part any more");
                    self.monitor.coordinator_failed(failure);
                    return;
                }
            }
            tracing::warn!("this node is no coordinator any more");
            begun = match self.begin_anew(&endpoint).await {
                Ok(Some(begun)) => begun,
                Ok(None) => return,
                // The next start finds what is there now.
                Err(error) => {
                    tracing::error!(%error, "this node cannot be a coordinator again");
                    return;
                }
            };
        }
    }

    /// Becomes another member, as which it begins with nothing. `None` if there are enough.
    async fn begin_anew(&self, endpoint: &Endpoint) -> Result<Option<Begun>, StartError> {
        // What wrote it has ended.
        self.place.put_away()?;
        let Some(raft) = self.admitted(endpoint).await else { return Ok(None) };
        let node = self.place.node;
        let first = Batch::joining(Identity { cluster: self.cluster, node, raft });
        let begun = self.begin(self.place.make(&first)?, endpoint)?;
        tracing::info!(%raft, "this node is a coordinator again");
        Ok(Some(begun))
    }

    /// Asks to be admitted for as long as that may come about. Each answer is one to an id of its own, so that none admits in the place of a member that has a log.
    async fn admitted(&self, endpoint: &Endpoint) -> Option<RaftId> {
        let mut id = random_proposal();
        loop {
            endpoint.sleep_until(endpoint.clock().now() + ADMISSION_PAUSE).await;
            if !self.handler.cluster.stays() {
                continue;
            }
            let admit = Ask::Admit { id, node: self.place.node };
            match self.handler.ask_coordinators(endpoint, &admit).await {
                Answer::Admitted { raft, .. } => return Some(raft),
                Answer::Decided(Err(denial)) if denial.kind == DenialKind::Exhausted => {
                    tracing::info!(%denial, "this node is no coordinator");
                    return None;
                }
                Answer::Decided(Err(denial)) => {
                    tracing::debug!(%denial, "not admitted yet");
                    id = random_proposal();
                }
                answer => tracing::debug!(?answer, "not admitted yet"),
            }
        }
    }
}
