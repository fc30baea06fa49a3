//! Put: append an object to its partition's log, straight from the buffer that it was received in.

use weft_protocol::{ErrorReply, Put, PutReply, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    put: &Put<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Put { table, key, value, expires_at_ms, .. } = put;
    let node = work.node;
    let partition = work.held.enter(table, slot)?;
    let version = partition
        .put(table, &key, &value, expires_at_ms, work.now_ms)
        .map_err(|error| node.refusal(&error))?;
    work.tally.add(Event::BytesWritten, value.len() as u64);
    work.batch.reply(call, PutReply { version });
    Ok(())
}
