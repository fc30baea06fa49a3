//! Whether another worker is still there: its connection, and what answers at its end.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use weft_transport::{CallError, Connection, Endpoint, Time};

use crate::error::JobError;
use crate::message::{Header, Kind};
use crate::worker::WorkerId;

/// How many heartbeats in a row go unanswered before a worker counts as hung.
const HEARTBEATS: u32 = 10;

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

/// Completes when `worker` has left as many heartbeats in a row unanswered as take `timeout`. They are
/// many, so that a pause of this process counts for one of them only.
async fn hanging(
    worker: WorkerId,
    connection: Connection,
    endpoint: Endpoint,
    timeout: Duration,
) -> JobError {
    let heartbeat = Header { kind: Kind::Heartbeat, stage: 0, sequence: 0 }.encode();
    let mut unanswered = 0;
    while unanswered < HEARTBEATS {
        let next = endpoint.clock().now() + timeout / HEARTBEATS;
        match connection.call(&heartbeat, next).await {
            Ok(_) => {
                unanswered = 0;
                endpoint.sleep_until(next).await;
            }
            Err(CallError::DeadlineExceeded { .. }) => unanswered += 1,
            Err(error) => return lost(worker, error),
        }
    }
    JobError::Hung { worker, silence: timeout }
}

/// Why a call to `worker` failed.
pub(crate) fn lost(worker: WorkerId, error: CallError) -> JobError {
    match error {
        CallError::Disconnected { reason, .. } => JobError::Lost { worker, reason },
        CallError::Memory(error) => JobError::Memory(error),
        other => JobError::Job(format!("{worker} does not answer: {other}")),
    }
}
