//! Watch-next: tell the events of a watch, or keep the call until there are some.

use weft_protocol::{ErrorReply, WatchNext};
use weft_transport::CallId;

use crate::watches::Next;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    next: &WatchNext,
) -> Result<(), ErrorReply<'static>> {
    let node = work.node;
    match node.watches.next(next, node.now(), || work.replies.responder())? {
        Next::Now(page) => work.replies.reply(call, page.reply()),
        Next::Later => {}
    }
    Ok(())
}
