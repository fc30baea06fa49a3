//! Open-client: give a client a number and a lease of it.

use weft_protocol::{ErrorCode, ErrorReply};
use weft_transport::CallId;

use crate::clients::leasing;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
) -> Result<(), ErrorReply<'static>> {
    let node = work.node;
    // A node that is of no cluster keeps leases itself.
    if node.coordination.cluster().is_some() {
        leasing::open(work);
        return Ok(());
    }
    match node.clients.open(node.now()) {
        Some(reply) => work.replies.reply(call, reply),
        None => return Err(ErrorReply::new(ErrorCode::CompletionsFull)),
    }
    Ok(())
}
