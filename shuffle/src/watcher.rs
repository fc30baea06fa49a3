//! Whether another worker is still there: its connection, and what answers at its end.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use weft_transport::{CallError, Connection, Endpoint, Time};

use crate::error::JobError;
use crate::message::{Header, Kind};
use crate::worker::WorkerId;

/// Into how many parts the time is cut after which a worker counts as hung.
const PARTS: u32 = 10;

/// A worker that may be lost at any time.
pub(crate) struct Watcher {
    pub(crate) worker: WorkerId,
    /// Completes when the connection ends.
    ending: Pin<Box<dyn Future<Output = JobError>>>,
    /// Completes when the worker has answered nothing for too long.
    hanging: Pin<Box<dyn Future<Output = JobError>>>,
    /// What it completed with.
    pub(crate) lost: Option<JobError>,
}

impl Watcher {
    pub(crate) fn new(
        worker: WorkerId,
        connection: &Connection,
        endpoint: &Endpoint,
        hang_timeout: Duration,
    ) -> Self {
        let hanging = Box::pin(hanging(worker, connection.clone(), endpoint.clone(), hang_timeout));
        let connection = connection.clone();
        let ending = Box::pin(async move {
            let header = Header { kind: Kind::Watch, stage: 0, sequence: 0 }.encode();
            match connection.call(&header, Time::MAX).await {
                Err(error) => lost(worker, error),
                Ok(_) => JobError::Protocol { worker, stage: 0, what: "an answer to a watch" },
            }
        });
        Self { worker, ending, hanging, lost: None }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) {
        for future in [&mut self.ending, &mut self.hanging] {
            if self.lost.is_none()
                && let Poll::Ready(error) = future.as_mut().poll(context)
            {
                self.lost = Some(error);
            }
        }
    }
}

/// Completes when `worker` has left a heartbeat unanswered for `timeout`; an answer counts however late
/// it is. The time passes in parts, so that a pause of this process counts for one of them only.
async fn hanging(
    worker: WorkerId,
    connection: Connection,
    endpoint: Endpoint,
    timeout: Duration,
) -> JobError {
    let heartbeat = Header { kind: Kind::Heartbeat, stage: 0, sequence: 0 }.encode();
    let part = || endpoint.sleep_until(endpoint.clock().now() + timeout / PARTS);
    loop {
        let mut answer = std::pin::pin!(connection.call(&heartbeat, Time::MAX));
        let mut parts = 0;
        let outcome = loop {
            let mut pause = std::pin::pin!(part());
            let first = std::future::poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending => pause.as_mut().poll(context).map(|()| None),
            });
            if let Some(outcome) = first.await {
                break outcome;
            }
            parts += 1;
            if parts == PARTS {
                return JobError::Hung { worker, silence: timeout };
            }
        };
        if let Err(error) = outcome {
            return lost(worker, error);
        }
        part().await;
    }
}

/// Why a call to `worker` failed.
pub(crate) fn lost(worker: WorkerId, error: CallError) -> JobError {
    match error {
        CallError::Disconnected { reason, .. } => JobError::Lost { worker, reason },
        CallError::Memory(error) => JobError::Memory(error),
        reason => JobError::NoAnswer { worker, reason },
    }
}
