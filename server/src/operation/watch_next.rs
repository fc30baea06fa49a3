//! Watch-next: tell the events of a watch, or keep the call until there are some.

use weft_protocol::{ErrorReply, WatchNext};
use weft_transport::{CallId, Incoming};

use crate::watches::Next;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    next: &WatchNext,
    incoming: &mut Incoming<'_>,
) -> Result<(), ErrorReply<'static>> {
    let node = work.node;
    let responder = || incoming.responder().expect("it is a call, and nobody has taken it yet");
    match node.watches.next(next, node.now(), responder)? {
        Next::Now(page) => work.batch.reply(call, page.reply()),
        Next::Later => {}
    }
    Ok(())
}
