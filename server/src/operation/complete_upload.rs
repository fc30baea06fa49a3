//! Complete-upload: let a value that came in pieces be the object of its key.

use weft_protocol::{CompleteUpload, ErrorReply, PutReply, Slot};
use weft_transport::CallId;

use crate::needed::Needed;
use crate::operation::compare_and_set;
use crate::store::Completed;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    complete: &CompleteUpload<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &CompleteUpload { target, upload, effect } = complete;
    let (table, key) = (target.table, target.key);
    let needed = Needed::upload(upload, key);
    let written = work.write((table, slot), target.completion, needed, |partition, now_ms| {
        partition.complete_upload(table, &key, upload, effect, now_ms)
    })?;
    match written.answer {
        Completed::Put(version) => work.replies.reply(call, PutReply { version }),
        Completed::Compared(compared) => work.replies.reply(call, compare_and_set::reply(compared)),
        Completed::Replaced(replaced) => work.reply_previous(call, replaced),
    }
    Ok(())
}
