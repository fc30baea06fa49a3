//! Watch-end: forget a watch.

use weft_protocol::{ErrorReply, WatchEnd, WatchEndReply};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    end: WatchEnd,
) -> Result<(), ErrorReply<'static>> {
    // Partitions are locked to take it out of them.
    work.held.release();
    let node = work.node;
    node.watches.end(end.id, &node.partitions)?;
    work.replies.reply(call, WatchEndReply);
    Ok(())
}
