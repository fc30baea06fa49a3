//! Everything that comes to a worker goes through this one match.

use std::sync::Arc;

use weft_transport::{Batch, Handler, Incoming, IncomingKind};

use crate::error::JobError;
use crate::inbox::Inbox;
use crate::message::{Header, Kind};
use crate::program::Program;
use crate::worker::WorkerId;

/// A worker's side of its connections.
pub(crate) struct Dispatch {
    pub(crate) program: Program,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) workers: usize,
}

impl Handler for Dispatch {
    fn handle(&self, batch: &mut Batch<'_>) {
        let worker = WorkerId::of_node(batch.peer().node);
        while let Some(incoming) = batch.next() {
            if worker.0 >= self.workers {
                // Not one of us: it gets no answer, and cannot disturb the job.
                continue;
            }
            let body = incoming.body;
            let (header, rest) = match Header::decode(body) {
                Ok(decoded) => decoded,
                Err(what) => {
                    self.inbox.fail(JobError::Protocol { worker, stage: 0, what });
                    continue;
                }
            };
            match (header.kind, incoming.kind) {
                (Kind::Hello, IncomingKind::Call(call)) => {
                    let answer = self.program.answer(rest);
                    batch.reply(call, answer.as_slice());
                    if answer.is_empty() {
                        self.inbox.greet(worker);
                    }
                }
                // Answered by the end of the connection, and by nothing before.
                (Kind::Watch, IncomingKind::Call(_)) => {}
                (Kind::Heartbeat, IncomingKind::Call(call)) => batch.reply(call, &[][..]),
                (Kind::Segment | Kind::End, IncomingKind::Message) => {
                    self.inbox.deliver(worker, header, rest, || Incoming::retain(incoming));
                }
                (Kind::Stop, IncomingKind::Message) => {
                    let (is_loss, reason) = rest.split_first().unwrap_or((&0, &[]));
                    let reason = String::from_utf8_lossy(&reason[..reason.len().min(STOP_MAX)]);
                    let (is_loss, reason) = (*is_loss == 1, reason.into_owned());
                    self.inbox.fail(JobError::Stopped { worker, reason, is_loss });
                }
                _ => {
                    let (stage, what) = (header.stage, "a call for a message, or the reverse");
                    self.inbox.fail(JobError::Protocol { worker, stage, what });
                }
            }
        }
    }
}

/// Bytes of a reason that are read.
const STOP_MAX: usize = 1024;
