//! Put: append an object to its partition's log, straight from the buffer that it was received in.

use weft_protocol::{ErrorReply, Put, PutReply, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::needed::Needed;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    put: &Put<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Put { target, value, expires_at_ms } = put;
    let len = target.key.len() + value.len();
    let place = (target.table, slot);
    let written =
        work.write(place, target.completion, Needed::object(len), |partition, now_ms| {
            partition.put(target.table, &target.key, &value, expires_at_ms, now_ms)
        })?;
    if !written.is_repeated {
        work.tally.add(Event::BytesWritten, value.len() as u64);
    }
    work.replies.reply(call, PutReply { version: written.answer });
    Ok(())
}
