//! Exists: look a key up without reading its value.

use weft_protocol::{ErrorReply, Exists, ExistsReply, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    exists: &Exists<'_>,
) -> Result<(), ErrorReply<'static>> {
    let (partition, committed) = work.held.enter_to_read(exists.table, slot)?;
    let reply = match partition.get(exists.table, &exists.key, work.now_ms) {
        Some(object) => ExistsReply { version: object.version, exists: true },
        None => ExistsReply { version: partition.version(), exists: false },
    };
    work.replies.depends_on(committed, reply.version)?;
    work.tally.event(if reply.exists { Event::Hit } else { Event::Miss });
    work.replies.reply(call, reply);
    Ok(())
}
