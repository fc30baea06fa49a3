//! Abort-upload: let go of a value that came in pieces.

use weft_protocol::{AbortUpload, AbortUploadReply, ErrorReply, Slot};
use weft_transport::CallId;

use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    abort: &AbortUpload<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &AbortUpload { target, upload } = abort;
    let partition = work.held.enter(target.table, slot)?;
    let existed = partition.abort_upload(target.table, &target.key, upload);
    work.replies.reply(call, AbortUploadReply { existed });
    Ok(())
}
