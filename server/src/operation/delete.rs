//! Delete: remove an object from its partition, if it is there.

use weft_protocol::{Delete, DeleteReply, ErrorReply, Slot};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    delete: &Delete<'_>,
) -> Result<(), ErrorReply<'static>> {
    let node = work.node;
    let partition = work.held.enter(delete.table, slot)?;
    let deleted = partition
        .delete(delete.table, &delete.key, work.now_ms)
        .map_err(|error| node.refusal(&error))?;
    work.batch.reply(call, DeleteReply { version: deleted.version, existed: deleted.existed });
    Ok(())
}
