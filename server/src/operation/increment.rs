//! Increment: append the sum of a number and a delta.

use weft_protocol::{ErrorReply, Increment, IncrementReply, Slot};
use weft_transport::CallId;

use crate::needed::Needed;
use crate::store::Incremented;
use crate::work::Work;

/// The most digits of a number, with its sign.
const NUMBER_BYTES: usize = 20;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    increment: &Increment<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Increment { target, expires_at_ms, delta } = increment;
    let (table, key) = (target.table, target.key);
    let needed = Needed::longer(key, NUMBER_BYTES);
    let written = work.write((table, slot), target.completion, needed, |partition, now_ms| {
        partition.increment(table, &key, delta, expires_at_ms, now_ms)
    })?;
    let Incremented { version, number } = written.answer;
    work.replies.reply(call, IncrementReply { version, number });
    Ok(())
}
