//! Truncate: remove all objects of a table.

use weft_protocol::{ErrorCode, ErrorReply, Truncate, TruncateReply};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    truncate: &Truncate,
) -> Result<(), ErrorReply<'static>> {
    work.held.release();
    let partitions = &work.node.partitions;
    let mut removed = 0;
    for position in partitions.served(truncate.table).iter().copied() {
        let Some(count) = partitions.lock(position).truncate(truncate.table) else {
            return Err(ErrorReply::new(ErrorCode::TableUnknown));
        };
        removed += count;
    }
    work.node.sweeper.look_for_buried();
    work.replies.reply(call, TruncateReply { removed });
    Ok(())
}
