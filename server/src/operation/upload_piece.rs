//! Upload-piece: copy a piece of a long value to where it will stay.

use weft_protocol::{ErrorReply, Slot, UploadPiece, UploadPieceReply};
use weft_transport::CallId;

use crate::counters::Event;
use crate::limits::UPLOAD_ROOM_BYTES;
use crate::store::StoreError;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    piece: &UploadPiece<'_>,
) -> Result<(), ErrorReply<'static>> {
    let made = work.made_room();
    // Nobody loses objects, or waits, for what would not fit a node that holds little else.
    let store_bytes = work.node.memory.store.account().limit_bytes;
    let may_make_room = u64::from(piece.value_len) <= store_bytes / 2;
    let now_ms = work.now_ms;
    let table = piece.target.table;
    let present_bytes = match work.held.enter(table, slot)?.upload_piece(piece, now_ms) {
        Ok(present_bytes) => present_bytes,
        // Room for a long value may take long to make: a step of it now, and the client asks again.
        Err(StoreError::MemoryLimit(_))
            if may_make_room && work.make_room(UPLOAD_ROOM_BYTES, made) =>
        {
            work.replies.reply(call, UploadPieceReply::Again);
            return Ok(());
        }
        Err(error) => return Err(work.node.refusal(&error)),
    };
    work.tally.add(Event::BytesWritten, piece.bytes.len() as u64);
    work.count_written(piece.bytes.len() + piece.copied_len as usize);
    work.replies.reply(call, UploadPieceReply::Taken { present_bytes });
    Ok(())
}
