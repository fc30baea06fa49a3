//! Get: look an object up, and send its value from where it lies if it is not small.

use weft_protocol::{ErrorReply, Get, GetFoundHead, GetReply, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::sending::{Sending, sending};
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    get: &Get<'_>,
) -> Result<(), ErrorReply<'static>> {
    let (partition, committed) = work.held.enter_to_read(get.table, slot)?;
    let Some(object) = partition.get(get.table, &get.key, work.now_ms) else {
        work.tally.event(Event::Miss);
        work.replies.depends_on(committed, partition.version())?;
        work.replies.reply(call, GetReply::Absent { version: partition.version() });
        return Ok(());
    };
    work.replies.depends_on(committed, object.version)?;
    match sending(object.value.len(), &work.node.pins, &mut work.tally, || object.pin()) {
        Sending::Copy => {
            let reply = GetReply::Found { version: object.version, value: object.value };
            work.replies.reply(call, reply);
        }
        Sending::Gather(value) => {
            let head = GetFoundHead::new(object.version, value.len());
            work.replies.reply_shared(call, head, value);
        }
    }
    Ok(())
}
