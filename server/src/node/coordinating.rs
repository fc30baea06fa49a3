//! The coordinator of a node: for as long as it is one of them, and again when it is admitted anew.
//!
//! Who was removed, since its node was to leave, has a log of a member that nobody hears any more and that is never one again: ids are not used twice. So the log
//! is put away, and the node is in the place of one with a fresh disk. It asks to be admitted when it is of the cluster and is to stay there: at once if it joined
//! again before it learned that it had been removed, or when an operator takes back that it is to leave. The log goes when it is admitted, so that whenever the process
//! ends before, the next start finds it and learns the same again. A node that was not needed when it joined waits in the same way until it is.

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

/// The same while there are enough.
const EXHAUSTED_PAUSE: Duration = Duration::from_secs(10);

/// What a coordinator of this node is made of.
#[derive(Debug)]
pub(super) struct Coordinating {
    pub(super) handler: Arc<NodeHandler>,
    pub(super) cluster: ClusterId,
    /// The time that nodes of the cluster keep.
    pub(super) timing: Timing,
    /// How many nodes it was told of.
    pub(super) expected_nodes: usize,
    /// Whether it was told of any but itself, by which it finds the cluster when its log is of no use any more.
    pub(super) has_seeds: bool,
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

    /// Runs the coordinator that has begun, if one has, and each that comes after it, until the node is stopped or one fails.
    pub(super) async fn run(self, endpoint: Endpoint, mut begun: Option<Begun>) {
        loop {
            let Some((coordinator, writer)) = begun.take() else {
                begun = match self.begin_anew(&endpoint).await {
                    Ok(begun) => Some(begun),
                    // The next start finds what is there now.
                    Err(error) => {
                        tracing::error!(%error, "this node cannot be a coordinator");
                        return;
                    }
                };
                continue;
            };
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
            if !self.has_seeds {
                // Its log was the only way to others.
                tracing::warn!(
                    "should it not come to serve, start it with --join and addresses of its cluster"
                );
            }
        }
    }

    /// Becomes another member, as which it begins with nothing.
    async fn begin_anew(&self, endpoint: &Endpoint) -> Result<Begun, StartError> {
        let raft = self.admitted(endpoint).await;
        // What wrote it has ended.
        self.place.put_away()?;
        let node = self.place.node;
        let first = Batch::joining(Identity { cluster: self.cluster, node, raft });
        let begun = self.begin(self.place.make(&first)?, endpoint)?;
        tracing::info!(%raft, "this node is a coordinator");
        Ok(begun)
    }

    /// Asks to be admitted until it is. Each answer is one to an id of its own, so that none admits in the place of a member that has a log.
    async fn admitted(&self, endpoint: &Endpoint) -> RaftId {
        let (mut id, mut pause, mut was_exhausted) = (random_proposal(), ADMISSION_PAUSE, false);
        loop {
            endpoint.sleep_until(endpoint.clock().now() + pause).await;
            pause = ADMISSION_PAUSE;
            if !self.handler.cluster.stays() {
                continue;
            }
            let admit = Ask::Admit { id, node: self.place.node };
            match self.handler.ask_coordinators(endpoint, &admit).await {
                Answer::Admitted { raft, .. } => return raft,
                Answer::Decided(Err(denial)) if denial.kind == DenialKind::Exhausted => {
                    if !std::mem::replace(&mut was_exhausted, true) {
                        tracing::info!(%denial, "this node is no coordinator, until it is needed");
                    }
                    (id, pause) = (random_proposal(), EXHAUSTED_PAUSE);
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
