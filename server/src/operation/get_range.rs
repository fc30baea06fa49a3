//! Get-range: look an object up, and send some bytes of its value, from where they lie if they are not few.

use weft_protocol::{ErrorReply, GetRange, GetRangeReply, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::sending::{Sending, sending};
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    get: &GetRange<'_>,
) -> Result<(), ErrorReply<'static>> {
    let (partition, committed) = work.held.enter_to_read(get.table, slot)?;
    let Some(object) = partition.get(get.table, &get.key, work.now_ms) else {
        work.tally.event(Event::Miss);
        work.replies.depends_on(committed, partition.version())?;
        work.replies.reply(call, GetRangeReply::Absent { version: partition.version() });
        return Ok(());
    };
    let (version, value_len) = (object.version, object.value.len());
    work.replies.depends_on(committed, version)?;
    let range = get.range_of(value_len);
    let pin = || object.pin_range(range.clone());
    match sending(range.len(), &work.node.pins, &mut work.tally, pin) {
        Sending::Copy => {
            let bytes = &object.value[range];
            let value_len = value_len as u64;
            work.replies.reply(call, GetRangeReply::Found { version, value_len, bytes });
        }
        Sending::Gather(bytes) => {
            let head = GetRangeReply::head(version, value_len, bytes.len());
            work.replies.reply_shared(call, head, bytes);
        }
    }
    Ok(())
}
