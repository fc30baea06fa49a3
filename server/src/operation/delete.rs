//! Delete: remove an object from its partition, if it is there.

use weft_protocol::{Delete, DeleteReply, ErrorReply, Slot};
use weft_transport::CallId;

use crate::needed::Needed;
use crate::store::Deleted;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    delete: &Delete<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Delete { target } = delete;
    let place = (target.table, slot);
    let written =
        work.write(place, target.completion, Needed::removal(target.key), |partition, now_ms| {
            partition.delete(target.table, &target.key, now_ms)
        })?;
    let Deleted { version, existed } = written.answer;
    work.replies.reply(call, DeleteReply { version, existed });
    Ok(())
}
