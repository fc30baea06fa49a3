//! Workers: have the coordinators say which workers are registered.

use weft_protocol::ErrorReply;

use crate::work::Work;

pub(crate) fn execute(work: &mut Work<'_, '_, '_>) -> Result<(), ErrorReply<'static>> {
    crate::workers::list(work);
    Ok(())
}
