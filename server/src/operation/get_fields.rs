//! Get-fields: look a record up, and copy some of its fields.

use weft_protocol::{ErrorCode, ErrorReply, ExistsReply, FieldsFound, GetFields, Record, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    get: &GetFields<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &GetFields { table, key, names, .. } = get;
    let (partition, committed) = work.held.enter_to_read(table, slot)?;
    let Some(object) = partition.get(table, &key, work.now_ms) else {
        work.tally.event(Event::Miss);
        work.replies.depends_on(committed, partition.version())?;
        let reply = ExistsReply { version: partition.version(), exists: false };
        work.replies.reply(call, reply);
        return Ok(());
    };
    work.replies.depends_on(committed, object.version)?;
    let record = Record::parse(object.value).map_err(|_| ErrorReply::new(ErrorCode::NotARecord))?;
    // Only where a large field is named many times.
    let found = FieldsFound::new(object.version, record, names)
        .ok_or(ErrorReply::new(ErrorCode::ValueTooLarge))?;
    work.tally.event(Event::Hit);
    work.tally.add(Event::BytesRead, found.encoded_len() as u64);
    work.replies.reply(call, found);
    Ok(())
}
