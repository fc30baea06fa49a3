//! The one match: which operation does the work of a request.

use weft_protocol::replication::PeerMessage;
use weft_protocol::{DecodeError, ErrorCode, ErrorReply, Request, Slot};
use weft_transport::{CallId, Incoming};

use crate::counters::Event;
use crate::operation::{
    abort_upload, alter_table, append, ask, compare_and_set, complete_upload, create_table, delete,
    drop_table, exists, expire, get, get_and_delete, get_and_put, get_fields, get_range, hot_keys,
    increment, map, multi_delete, multi_get, multi_put, open_client, put, put_fields, range,
    register_worker, renew_client, renew_worker, scan, stats, table_stats, tables, truncate,
    unregister_worker, upload_piece, watch, watch_end, watch_next, workers,
};
use crate::work::Work;

/// Something that arrived, read.
#[derive(Debug)]
pub(crate) struct Arrived<'f> {
    pub(crate) said: Said<'f>,
    /// The slot of the request's key. Without meaning where the request has none or several.
    pub(crate) slot: Slot,
    /// A request as it came, until it is worked off: its answer may have to wait.
    pub(crate) incoming: Option<Incoming<'f>>,
}

/// What it says.
#[derive(Debug)]
pub(crate) enum Said<'f> {
    /// Somebody waits for an answer.
    Request(CallId, Result<Request<'f>, DecodeError>),
    /// Another node says something that nobody waits for an answer to.
    Message(Result<PeerMessage<'f>, DecodeError>),
}

/// Does what was asked and replies, whatever it was: every call gets its answer here.
pub(crate) fn dispatch<'f>(work: &mut Work<'_, '_, 'f>, arrived: &mut Arrived<'f>) {
    let (call, request) = match &arrived.said {
        Said::Request(call, request) => (*call, request),
        Said::Message(message) => return work.hear(message),
    };
    let done = match request {
        _ if work.node.is_stopping() => Err(ErrorReply::new(ErrorCode::ShuttingDown)),
        Ok(request) => {
            work.replies.begin(arrived.incoming.take());
            execute(work, call, request, arrived.slot)
        }
        Err(error) => {
            work.tally.event(Event::Malformed);
            Err(ErrorReply::from(*error))
        }
    };
    if let Err(error) = done {
        work.refuse(call, &error);
    }
    work.withhold_if_due();
}

/// # Errors
/// Why nothing of it was done, nor replied.
fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    request: &Request<'_>,
    slot: Slot,
) -> Result<(), ErrorReply<'static>> {
    work.tally.request(request.operation());
    work.sample(request);
    match request {
        Request::Get(get) => get::execute(work, call, slot, get),
        Request::Put(put) => put::execute(work, call, slot, put),
        Request::Delete(delete) => delete::execute(work, call, slot, delete),
        Request::Exists(exists) => exists::execute(work, call, slot, exists),
        Request::MultiGet(multi_get) => multi_get::execute(work, call, multi_get),
        Request::MultiPut(multi_put) => multi_put::execute(work, call, multi_put),
        Request::MultiDelete(multi_delete) => multi_delete::execute(work, call, multi_delete),
        Request::Stats(_) => stats::execute(work, call),
        Request::Map(map) => map::execute(work, call, *map),
        Request::CompareAndSet(compare_and_set) => {
            compare_and_set::execute(work, call, slot, compare_and_set)
        }
        Request::Increment(increment) => increment::execute(work, call, slot, increment),
        Request::Append(append) => append::execute(work, call, slot, append),
        Request::GetAndPut(put) => get_and_put::execute(work, call, slot, put),
        Request::GetAndDelete(delete) => get_and_delete::execute(work, call, slot, delete),
        Request::Expire(expire) => expire::execute(work, call, slot, expire),
        Request::GetFields(get) => get_fields::execute(work, call, slot, get),
        Request::PutFields(put) => put_fields::execute(work, call, slot, put),
        Request::Scan(scan) => scan::execute(work, call, scan),
        Request::GetRange(get) => get_range::execute(work, call, slot, get),
        Request::Tables(_) => tables::execute(work, call),
        Request::Truncate(truncate) => truncate::execute(work, call, truncate),
        Request::TableStats(_) => table_stats::execute(work, call),
        Request::Range(range) => range::execute(work, call, range),
        Request::HotKeys(hot_keys) => hot_keys::execute(work, call, *hot_keys),
        Request::UploadPiece(piece) => upload_piece::execute(work, call, slot, piece),
        Request::CompleteUpload(complete) => complete_upload::execute(work, call, slot, complete),
        Request::AbortUpload(abort) => abort_upload::execute(work, call, slot, abort),
        Request::Watch(watch) => watch::execute(work, call, slot, watch),
        Request::WatchNext(next) => watch_next::execute(work, call, next),
        Request::WatchEnd(end) => watch_end::execute(work, call, *end),
        Request::OpenClient(_) => open_client::execute(work, call),
        Request::RenewClient(renew) => renew_client::execute(work, call, *renew),
        Request::Ask(asked) => ask::execute(work, call, asked),
        Request::CreateTable(create) => create_table::execute(work, create),
        Request::DropTable(dropped) => drop_table::execute(work, dropped),
        Request::AlterTable(alter) => alter_table::execute(work, alter),
        Request::RegisterWorker(register) => register_worker::execute(work, register),
        Request::RenewWorker(renew) => renew_worker::execute(work, *renew),
        Request::UnregisterWorker(unregister) => unregister_worker::execute(work, *unregister),
        Request::Workers(_) => workers::execute(work),
    }
}
