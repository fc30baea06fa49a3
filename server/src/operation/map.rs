//! Map: tell a client who serves which slots.

use weft_protocol::{ErrorReply, Map};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    request: Map,
) -> Result<(), ErrorReply<'static>> {
    work.replies.reply(call, work.node.maps.answer(request)?);
    Ok(())
}
