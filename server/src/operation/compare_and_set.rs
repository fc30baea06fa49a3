//! Compare-and-set: append an object if the one that is there is of the expected version.

use weft_protocol::{CompareAndSet, CompareAndSetReply, ErrorReply, Slot};
use weft_transport::CallId;

use crate::counters::Event;
use crate::needed::Needed;
use crate::store::Compared;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    compare_and_set: &CompareAndSet<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &CompareAndSet { target, expires_at_ms, expected, value } = compare_and_set;
    let (table, key) = (target.table, target.key);
    let len = key.len() + value.len();
    let written =
        work.write((table, slot), target.completion, Needed::object(len), |partition, now_ms| {
            partition.compare_and_set(table, &key, expected, &value, expires_at_ms, now_ms)
        })?;
    if let (Compared::Written(_), false) = (written.answer, written.is_repeated) {
        work.tally.add(Event::BytesWritten, value.len() as u64);
    }
    work.replies.reply(call, reply(written.answer));
    Ok(())
}

/// How it is told.
pub(crate) fn reply(compared: Compared) -> CompareAndSetReply {
    match compared {
        Compared::Written(version) => CompareAndSetReply::Written { version },
        Compared::Conflict(version) => CompareAndSetReply::Conflict { version },
        Compared::Absent(version) => CompareAndSetReply::Absent { version },
    }
}
