//! Put-fields: append a record with some of its fields changed.

use std::mem;

use weft_protocol::{ErrorReply, PutFields, PutReply, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::needed::Needed;
use crate::scratch::Use;
use crate::work::Work;

/// What a field takes in a record beside its name and value.
const FIELD_BYTES: usize = 8;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    put: &PutFields<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &PutFields { target, expires_at_ms, changes } = put;
    let (table, key) = (target.table, target.key);
    let len: usize = changes.iter().map(|change| change.value.map_or(0, |value| value.len())).sum();
    work.provide(Use::Record);
    let mut record = mem::take(&mut work.record);
    let place = (table, slot);
    let fields_len = changes.iter().map(|change| change.name.len() + FIELD_BYTES).sum::<usize>();
    let needed = Needed::longer(key, len + fields_len);
    let written = work.write(place, target.completion, needed, |partition, now_ms| {
        partition.put_fields(table, &key, changes, expires_at_ms, &mut record, now_ms)
    });
    work.record = record;
    let written = written?;
    if !written.is_repeated {
        work.tally.add(Event::BytesWritten, len as u64);
    }
    work.replies.reply(call, PutReply { version: written.answer });
    Ok(())
}
