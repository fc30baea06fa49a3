//! Append: append a value that is the old one and more.

use weft_protocol::limits::REQUEST_VALUE_MAX;
use weft_protocol::{Append, AppendReply, ErrorReply, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::needed::Needed;
use crate::store::Appended;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    append: &Append<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Append { target, expires_at_ms, tail } = append;
    let (table, key) = (target.table, target.key);
    let needed = Needed::longer(key, tail.len());
    let written = work.write((table, slot), target.completion, needed, |partition, now_ms| {
        partition.append(table, &key, &tail, expires_at_ms, REQUEST_VALUE_MAX, now_ms)
    })?;
    if !written.is_repeated {
        work.tally.add(Event::BytesWritten, tail.len() as u64);
    }
    let Appended { version, value_len } = written.answer;
    work.replies.reply(call, AppendReply { version, value_len: value_len as u64 });
    Ok(())
}
