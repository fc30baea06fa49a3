//! Get-and-put: append an object, and send the one that it replaces.

use weft_protocol::{ErrorReply, GetAndPut, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::needed::Needed;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    put: &GetAndPut<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &GetAndPut { target, expires_at_ms, value } = put;
    let (table, key) = (target.table, target.key);
    let len = key.len() + value.len();
    let written =
        work.write((table, slot), target.completion, Needed::object(len), |partition, now_ms| {
            partition.get_and_put(table, &key, &value, expires_at_ms, now_ms)
        })?;
    if !written.is_repeated {
        work.tally.add(Event::BytesWritten, value.len() as u64);
    }
    work.reply_previous(call, written.answer);
    Ok(())
}
