//! Unregister-worker: have the coordinators forget a worker.

use weft_protocol::{ErrorReply, UnregisterWorker};

use crate::coordinator::WorkerId;
use crate::work::Work;
use crate::workers;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    unregister: UnregisterWorker,
) -> Result<(), ErrorReply<'static>> {
    workers::unregister(work, WorkerId(unregister.worker));
    Ok(())
}
