//! Get-and-delete: remove an object from its partition, and send it.

use weft_protocol::{ErrorReply, GetAndDelete, Slot};
use weft_transport::CallId;

use crate::needed::Needed;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    delete: &GetAndDelete<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &GetAndDelete { target } = delete;
    let place = (target.table, slot);
    let written =
        work.write(place, target.completion, Needed::removal(target.key), |partition, now_ms| {
            partition.get_and_delete(target.table, &target.key, now_ms)
        })?;
    work.reply_previous(call, written.answer);
    Ok(())
}
