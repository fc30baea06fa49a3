//! The vocabulary of Weft's client and server: what one may ask, and what the other answers.
//!
//! A request is a variant of one closed enum, [`Request`]; each operation has one file under
//! `operation/` with its request, its reply and the bytes of both. Decoding borrows: keys and
//! values are slices of the message, nothing is copied, and a list is walked in place. Encoding
//! writes straight into the transport's buffer through [`weft_transport::Body`].
//!
//! Three shapes make up the whole wire (`docs/protocol.md` draws them):
//!
//! - every request starts with a 16-byte [prefix],
//! - every reply starts with a 16-byte [`ReplyHead`],
//! - an item of a multi-operation's reply is a `ReplyHead` and its bytes too, so that a value can
//!   be gathered from the log behind either of them.
//!
//! The crate does no I/O, reads no clock and holds no `unsafe`. Whatever a peer can size is checked
//! against [`limits`] before it is used; decoding returns an error and never panics.

#![forbid(unsafe_code)]

mod bare;
mod body;
mod catalog;
mod cluster_map;
mod codec;
mod completion;
mod configuration;
#[cfg(feature = "control")]
pub mod control;
mod error;
mod error_code;
mod key;
pub mod limits;
mod list;
mod numbered;
pub mod operation;
mod part;
pub mod prefix;
mod previous;
mod record;
pub mod replication;
mod reply;
mod request;
#[cfg(test)]
mod round_trip;
mod slot;
pub mod stat_name;
mod table;
mod target;
mod value;
mod version;
mod watch_event;
mod worker;

pub use catalog::{Catalog, CatalogError, TableEntry};
pub use cluster_map::{ClusterMap, MapDifference, MapError, NodeEntry, PartitionEntry};
pub use completion::{Completion, CompletionId};
pub use configuration::{Configuration, Member, PartitionId};
pub use error::{DecodeError, LimitError, ReplyError};
pub use error_code::{ErrorCode, UnknownErrorCode};
pub use key::Key;
pub use list::{Keys, List, ListIter, Pair, Pairs};
pub use numbered::NumberedHead;
pub use operation::Operation;
pub use operation::abort_upload::{AbortUpload, AbortUploadReply};
pub use operation::alter_table::AlterTable;
pub use operation::append::{Append, AppendReply};
pub use operation::ask::{Ask, AskReply};
pub use operation::compare_and_set::{CompareAndSet, CompareAndSetReply};
pub use operation::complete_upload::{CompleteUpload, UploadEffect};
pub use operation::create_table::{CreateTable, CreateTableReply};
pub use operation::delete::{Delete, DeleteReply};
pub use operation::drop_table::{DropTable, TableChangedReply};
pub use operation::exists::{Exists, ExistsReply};
pub use operation::expire::{Expire, ExpireReply};
pub use operation::get::{Get, GetFoundHead, GetReply};
pub use operation::get_and_delete::GetAndDelete;
pub use operation::get_and_put::GetAndPut;
pub use operation::get_fields::{FieldsFound, FieldsReply, GetFields};
pub use operation::get_range::{GetRange, GetRangeReply};
pub use operation::hot_keys::{HotKeys, HotKeysReply, KeyHeat};
pub use operation::increment::{Increment, IncrementReply};
pub use operation::map::{Map, MapReply};
pub use operation::multi_delete::{MultiDelete, MultiDeletePart};
pub use operation::multi_get::{MultiGet, MultiGetPart};
pub use operation::multi_put::{MultiPut, MultiPutPart};
pub use operation::open_client::{OpenClient, OpenClientReply};
pub use operation::put::{Put, PutReply};
pub use operation::put_fields::PutFields;
pub use operation::range::Range;
pub use operation::register_worker::{RegisterWorker, RegisterWorkerReply};
pub use operation::renew_client::{RenewClient, RenewClientReply};
pub use operation::renew_worker::{RenewWorker, RenewWorkerReply};
pub use operation::scan::{PageFull, Scan, ScanMark, ScanObject, ScanPage, ScanReply};
pub use operation::stats::{Counter, Stats, StatsReply};
pub use operation::table_stats::{TableStats, TableStatsReply, TableUse};
pub use operation::tables::{Tables, TablesReply};
pub use operation::truncate::{Truncate, TruncateReply};
pub use operation::unregister_worker::{UnregisterWorker, UnregisterWorkerReply};
pub use operation::upload_piece::{UploadPiece, UploadPieceReply};
pub use operation::watch::{Watch, WatchReply, Watched};
pub use operation::watch_end::{WatchEnd, WatchEndReply};
pub use operation::watch_next::{WatchNext, WatchNextReply};
pub use operation::workers::{Workers, WorkersReply};
pub use part::{Item, Outcome, Part, PartBuilder, PartFull, PartItems};
pub use previous::{Previous, PreviousReply};
pub use record::{FieldChange, NotARecord, Record};
pub use reply::{ErrorReply, ReplyHead, Status};
pub use request::Request;
pub use slot::Slot;
pub use table::{
    Durability, Eviction, TableAlteration, TableClass, TableId, TableOptions, UnknownDurability,
};
pub use target::Target;
pub use value::Value;
pub use version::{MalformedVersion, Version};
pub use watch_event::{KeyChange, TableRemoval, WatchEvent, WatchEvents};
pub use worker::{WorkerDescription, WorkerEntry};
