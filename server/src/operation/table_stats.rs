//! Table-stats: tell what the tables hold.

use weft_protocol::{ErrorCode, ErrorReply, TableStatsReply};
use weft_transport::CallId;

use crate::scratch::Use;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
) -> Result<(), ErrorReply<'static>> {
    work.provide(Use::Tables);
    // Adding up takes every partition's lock in turn.
    work.held.release();
    let tables = work.node.partitions.table_uses();
    let tables = tables.ok_or(ErrorReply::new(ErrorCode::NotServing))?;
    work.replies.reply(call, TableStatsReply { tables });
    Ok(())
}
