//! Truncate: remove all objects of a table.

use weft_protocol::{ErrorCode, ErrorReply, Truncate, TruncateReply};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    truncate: &Truncate,
) -> Result<(), ErrorReply<'static>> {
    let partitions = &work.node.partitions;
    let mut removed = 0;
    for position in partitions.served(truncate.table).iter().copied() {
        let hosted = work.held.host(position);
        hosted.may_write()?;
        let Some(count) = hosted.partition.truncate(truncate.table) else {
            return Err(ErrorReply::new(ErrorCode::TableUnknown));
        };
        removed += count;
        work.take_in(position);
    }
    work.node.sweeper.look_for_buried();
    work.replies.reply(call, TruncateReply { removed });
    Ok(())
}
