//! Register-worker: have the coordinators keep that a worker is there.

use weft_protocol::{ErrorReply, RegisterWorker};

use crate::work::Work;
use crate::workers;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    register: &RegisterWorker<'_>,
) -> Result<(), ErrorReply<'static>> {
    workers::register(work, register);
    Ok(())
}
