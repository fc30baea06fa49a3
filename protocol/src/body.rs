//! Everything that is sent, as the transport takes it.

use weft_transport::Body;

use crate::numbered::NumberedHead;
use crate::operation::abort_upload::{AbortUpload, AbortUploadReply};
use crate::operation::alter_table::AlterTable;
use crate::operation::append::{Append, AppendReply};
use crate::operation::ask::{Ask, AskReply};
use crate::operation::compare_and_set::{CompareAndSet, CompareAndSetReply};
use crate::operation::complete_upload::CompleteUpload;
use crate::operation::create_table::{CreateTable, CreateTableReply};
use crate::operation::delete::{Delete, DeleteReply};
use crate::operation::drop_table::{DropTable, TableChangedReply};
use crate::operation::exists::{Exists, ExistsReply};
use crate::operation::expire::{Expire, ExpireReply};
use crate::operation::get::{Get, GetFoundHead, GetReply};
use crate::operation::get_and_delete::GetAndDelete;
use crate::operation::get_and_put::GetAndPut;
use crate::operation::get_fields::{FieldsFound, GetFields};
use crate::operation::get_range::{GetRange, GetRangeReply};
use crate::operation::hot_keys::{HotKeys, HotKeysReply};
use crate::operation::increment::{Increment, IncrementReply};
use crate::operation::map::{Map, MapReply};
use crate::operation::multi_delete::MultiDelete;
use crate::operation::multi_get::MultiGet;
use crate::operation::multi_put::MultiPut;
use crate::operation::open_client::{OpenClient, OpenClientReply};
use crate::operation::put::{Put, PutReply};
use crate::operation::put_fields::PutFields;
use crate::operation::range::Range;
use crate::operation::register_worker::{RegisterWorker, RegisterWorkerReply};
use crate::operation::renew_client::RenewClient;
use crate::operation::renew_worker::RenewWorker;
use crate::operation::scan::Scan;
use crate::operation::stats::{Stats, StatsReply};
use crate::operation::table_stats::{TableStats, TableStatsReply};
use crate::operation::tables::{Tables, TablesReply};
use crate::operation::truncate::{Truncate, TruncateReply};
use crate::operation::unregister_worker::{UnregisterWorker, UnregisterWorkerReply};
use crate::operation::upload_piece::{UploadPiece, UploadPieceReply};
use crate::operation::watch::{Watch, WatchReply};
use crate::operation::watch_end::{WatchEnd, WatchEndReply};
use crate::operation::watch_next::{WatchNext, WatchNextReply};
use crate::operation::workers::{Workers, WorkersReply};
use crate::previous::PreviousReply;
use crate::reply::ErrorReply;
use crate::request::Request;

macro_rules! bodies {
    ($($message:ty),* $(,)?) => {$(
        impl Body for $message {
            #[inline]
            fn len(&self) -> usize {
                self.encoded_len()
            }

            #[inline]
            fn write(self, buffer: &mut [u8]) {
                self.encode(buffer);
            }
        }

        impl Body for &$message {
            #[inline]
            fn len(&self) -> usize {
                self.encoded_len()
            }

            #[inline]
            fn write(self, buffer: &mut [u8]) {
                self.encode(buffer);
            }
        }
    )*};
}

bodies!(
    Request<'_>,
    Get<'_>,
    Put<'_>,
    Delete<'_>,
    Exists<'_>,
    MultiGet<'_>,
    MultiPut<'_>,
    MultiDelete<'_>,
    Stats,
    Map,
    CompareAndSet<'_>,
    Increment<'_>,
    Append<'_>,
    GetAndPut<'_>,
    GetAndDelete<'_>,
    Expire<'_>,
    GetRange<'_>,
    Scan<'_>,
    GetFields<'_>,
    PutFields<'_>,
    Tables,
    Truncate,
    TableStats,
    Range<'_>,
    HotKeys,
    UploadPiece<'_>,
    CompleteUpload<'_>,
    AbortUpload<'_>,
    Watch<'_>,
    WatchNext,
    WatchEnd,
    OpenClient,
    RenewClient,
    Ask<'_>,
    CreateTable<'_>,
    DropTable<'_>,
    AlterTable<'_>,
    RegisterWorker<'_>,
    RenewWorker,
    UnregisterWorker,
    Workers,
    GetReply<'_>,
    GetFoundHead,
    PutReply,
    DeleteReply,
    ExistsReply,
    StatsReply<'_>,
    MapReply,
    CompareAndSetReply,
    IncrementReply,
    AppendReply,
    PreviousReply<'_>,
    NumberedHead,
    ExpireReply,
    GetRangeReply<'_>,
    FieldsFound<'_>,
    TablesReply,
    TruncateReply,
    TableStatsReply,
    HotKeysReply<'_>,
    UploadPieceReply,
    AbortUploadReply,
    WatchReply,
    WatchNextReply<'_>,
    WatchEndReply,
    OpenClientReply,
    AskReply<'_>,
    CreateTableReply,
    TableChangedReply,
    RegisterWorkerReply,
    UnregisterWorkerReply,
    WorkersReply,
    ErrorReply<'_>,
);
