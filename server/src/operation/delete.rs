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
    let &Delete { target } = delete;
    let deleted = work.write(target.table, slot, 0, |partition, now_ms| {
        partition.delete(target.table, &target.key, now_ms)
    })?;
    work.replies.reply(call, DeleteReply { version: deleted.version, existed: deleted.existed });
    Ok(())
}
