//! Open-client: give a client a number and a lease of it.

use weft_protocol::{ErrorCode, ErrorReply};
use weft_transport::CallId;

use crate::clients::COMPLETIONS_ARE_REMEMBERED;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
) -> Result<(), ErrorReply<'static>> {
    if !COMPLETIONS_ARE_REMEMBERED {
        return Err(ErrorReply::new(ErrorCode::UnknownOperation));
    }
    let node = work.node;
    match node.clients.open(node.now()) {
        Some(reply) => work.replies.reply(call, reply),
        None => return Err(ErrorReply::new(ErrorCode::CompletionsFull)),
    }
    Ok(())
}
