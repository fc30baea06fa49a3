//! Stats: tell how the node is, counter by counter.

use weft_protocol::ErrorReply;
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
) -> Result<(), ErrorReply<'static>> {
    // Adding up takes every partition's lock in turn.
    work.held.release();
    let reply = work.node.stats();
    work.replies.reply(call, reply);
    Ok(())
}
