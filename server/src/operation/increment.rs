//! Increment: append the sum of a number and a delta.

use weft_protocol::{ErrorReply, Increment, IncrementReply, Slot};
use weft_transport::CallId;

use crate::store::Incremented;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    increment: &Increment<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Increment { target, expires_at_ms, delta } = increment;
    let (table, key) = (target.table, target.key);
    let written =
        work.write((table, slot), target.completion, key.len(), |partition, now_ms| {
            partition.increment(table, &key, delta, expires_at_ms, now_ms)
        })?;
    let Incremented { version, number } = written.answer;
    work.replies.reply(call, IncrementReply { version, number });
    Ok(())
}
