//! Renew-worker: have a worker's registration begin anew.

use weft_protocol::{ErrorReply, RenewWorker};

use crate::coordinator::WorkerId;
use crate::work::Work;
use crate::workers;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    renew: RenewWorker,
) -> Result<(), ErrorReply<'static>> {
    workers::renew(work, WorkerId(renew.worker));
    Ok(())
}
