//! Workers as bytes.

use std::collections::BTreeMap;

use weft_protocol::WorkerDescription as Described;
use weft_protocol::control::v1::{ListWorkersResponse, Worker as Listed};
use weft_protocol::limits::WORKERS_MAX;

use super::{CodecError, required};
use crate::coordinator::worker::{Worker, WorkerDescription, WorkerId};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WorkerDescriptionMessage {
    #[prost(string, tag = "1")]
    address: String,
    #[prost(uint32, tag = "2")]
    slots: u32,
    #[prost(string, tag = "3")]
    build: String,
    #[prost(uint32, tag = "4")]
    process: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RegisterWorkerMessage {
    #[prost(message, optional, tag = "1")]
    pub(super) description: Option<WorkerDescriptionMessage>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) former: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ExpireWorkerMessage {
    #[prost(uint64, tag = "1")]
    pub(super) worker: u64,
    #[prost(uint64, tag = "2")]
    pub(super) renewal: u64,
}

/// One that is registered.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WorkerMessage {
    #[prost(uint64, tag = "1")]
    worker: u64,
    #[prost(message, optional, tag = "2")]
    description: Option<WorkerDescriptionMessage>,
    #[prost(uint64, tag = "3")]
    renewal: u64,
}

impl From<&WorkerDescription> for WorkerDescriptionMessage {
    fn from(description: &WorkerDescription) -> Self {
        let WorkerDescription { address, slots, build, process } = description.clone();
        Self { address, slots, build, process }
    }
}

impl TryFrom<WorkerDescriptionMessage> for WorkerDescription {
    type Error = CodecError;

    fn try_from(message: WorkerDescriptionMessage) -> Result<Self, CodecError> {
        let WorkerDescriptionMessage { address, slots, build, process } = message;
        let description = Self { address, slots, build, process };
        let is_one = description.is_within_limits();
        if is_one { Ok(description) } else { Err(CodecError::Field { field: "worker" }) }
    }
}

pub(super) fn messages(workers: &BTreeMap<WorkerId, Worker>) -> Vec<WorkerMessage> {
    let message = |(worker, known): (&WorkerId, &Worker)| WorkerMessage {
        worker: worker.0,
        description: Some((&known.description).into()),
        renewal: known.renewal,
    };
    workers.iter().map(message).collect()
}

/// Workers that are all different, whose numbers were given out up to `last`, and renewals up to `last_renewal`.
pub(super) fn workers(
    messages: Vec<WorkerMessage>,
    last: u64,
    last_renewal: u64,
) -> Result<BTreeMap<WorkerId, Worker>, CodecError> {
    if messages.len() > WORKERS_MAX {
        return Err(CodecError::ListTooLong { field: "workers" });
    }
    let mut workers = BTreeMap::new();
    for WorkerMessage { worker, description, renewal } in messages {
        let description = required(description, "worker")?.try_into()?;
        let is_given_out = (1..=last).contains(&worker) && (1..=last_renewal).contains(&renewal);
        let former = workers.insert(WorkerId(worker), Worker { description, renewal });
        if !is_given_out || former.is_some() {
            return Err(CodecError::Field { field: "workers" });
        }
    }
    Ok(workers)
}

/// Workers of an answer, if they are some that a state can have.
pub(super) fn checked(listed: ListWorkersResponse) -> Result<ListWorkersResponse, CodecError> {
    if listed.workers.len() > WORKERS_MAX {
        return Err(CodecError::ListTooLong { field: "workers" });
    }
    let is_one = |worker: &Listed| {
        let Listed { address, slots, build, process, .. } = worker;
        Described { address, slots: *slots, build, process: *process }.is_within_limits()
    };
    let are_in_order = listed.workers.is_sorted_by(|one, next| one.worker < next.worker);
    let is_first = listed.workers.first().is_none_or(|first| first.worker > 0);
    let is_possible = is_first && are_in_order && listed.workers.iter().all(is_one);
    if is_possible { Ok(listed) } else { Err(CodecError::Field { field: "workers" }) }
}
