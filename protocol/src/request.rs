//! What a client may ask: the one enum that every request decodes to.

use crate::completion::Completion;
use crate::error::DecodeError;
use crate::key::Key;
use crate::operation::Operation;
use crate::operation::abort_upload::AbortUpload;
use crate::operation::alter_table::AlterTable;
use crate::operation::append::Append;
use crate::operation::ask::Ask;
use crate::operation::compare_and_set::CompareAndSet;
use crate::operation::complete_upload::CompleteUpload;
use crate::operation::create_table::CreateTable;
use crate::operation::delete::Delete;
use crate::operation::drop_table::DropTable;
use crate::operation::exists::Exists;
use crate::operation::expire::Expire;
use crate::operation::get::Get;
use crate::operation::get_and_delete::GetAndDelete;
use crate::operation::get_and_put::GetAndPut;
use crate::operation::get_fields::GetFields;
use crate::operation::get_range::GetRange;
use crate::operation::hot_keys::HotKeys;
use crate::operation::increment::Increment;
use crate::operation::map::Map;
use crate::operation::multi_delete::MultiDelete;
use crate::operation::multi_get::MultiGet;
use crate::operation::multi_put::MultiPut;
use crate::operation::open_client::OpenClient;
use crate::operation::put::Put;
use crate::operation::put_fields::PutFields;
use crate::operation::range::Range;
use crate::operation::register_worker::RegisterWorker;
use crate::operation::renew_client::RenewClient;
use crate::operation::renew_worker::RenewWorker;
use crate::operation::scan::Scan;
use crate::operation::stats::Stats;
use crate::operation::table_stats::TableStats;
use crate::operation::tables::Tables;
use crate::operation::truncate::Truncate;
use crate::operation::unregister_worker::UnregisterWorker;
use crate::operation::upload_piece::UploadPiece;
use crate::operation::watch::{Watch, Watched};
use crate::operation::watch_end::WatchEnd;
use crate::operation::watch_next::WatchNext;
use crate::operation::workers::Workers;
use crate::prefix::Prefix;
use crate::table::TableId;

/// A request, borrowed from the message that carried it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Read the object of one key.
    Get(Get<'a>),
    /// Write the object of one key.
    Put(Put<'a>),
    /// Remove the object of one key.
    Delete(Delete<'a>),
    /// Ask whether a key has an object.
    Exists(Exists<'a>),
    /// Read the objects of many keys.
    MultiGet(MultiGet<'a>),
    /// Write the objects of many keys.
    MultiPut(MultiPut<'a>),
    /// Remove the objects of many keys.
    MultiDelete(MultiDelete<'a>),
    /// Ask a node how it is.
    Stats(Stats),
    /// Ask who owns which slots.
    Map(Map),
    /// Write the object of one key if it is of a certain version.
    CompareAndSet(CompareAndSet<'a>),
    /// Add to the number that a key holds.
    Increment(Increment<'a>),
    /// Add to the end of a key's value.
    Append(Append<'a>),
    /// Write the object of one key and read the one before it.
    GetAndPut(GetAndPut<'a>),
    /// Remove the object of one key and read it.
    GetAndDelete(GetAndDelete<'a>),
    /// Change when the object of one key ceases to be.
    Expire(Expire<'a>),
    /// Read some bytes of a key's value.
    GetRange(GetRange<'a>),
    /// Meet the objects of a partition.
    Scan(Scan<'a>),
    /// Read fields of a key's record.
    GetFields(GetFields<'a>),
    /// Change fields of a key's record.
    PutFields(PutFields<'a>),
    /// Ask which tables there are.
    Tables(Tables),
    /// Say which tables there are from now on.
    /// Remove all objects of a table.
    Truncate(Truncate),
    /// Ask what the tables hold.
    TableStats(TableStats),
    /// Read the objects of an ordered table whose keys are within bounds.
    Range(Range<'a>),
    /// Ask which keys are asked for the most.
    HotKeys(HotKeys),
    /// Bring a piece of a value that is too long for one request.
    UploadPiece(UploadPiece<'a>),
    /// Make what was uploaded the object of its key.
    CompleteUpload(CompleteUpload<'a>),
    /// Give up what was being uploaded.
    AbortUpload(AbortUpload<'a>),
    /// Have a node tell what happens to a key, or to the keys with a prefix.
    Watch(Watch<'a>),
    /// Ask for the events of a watch.
    WatchNext(WatchNext),
    /// Have a node forget a watch.
    WatchEnd(WatchEnd),
    /// Ask to be a client that is remembered.
    OpenClient(OpenClient),
    /// Ask to be remembered for longer.
    RenewClient(RenewClient),
    /// Have a node's coordinator do or tell something.
    Ask(Ask<'a>),
    /// Have the cluster make one more table.
    CreateTable(CreateTable<'a>),
    /// Have the cluster remove a table.
    DropTable(DropTable<'a>),
    /// Have the cluster change a table.
    AlterTable(AlterTable<'a>),
    /// Have the cluster keep that a process is there which works for it.
    RegisterWorker(RegisterWorker<'a>),
    /// Have that hold for longer.
    RenewWorker(RenewWorker),
    /// Have the cluster forget such a process.
    UnregisterWorker(UnregisterWorker),
    /// Ask which of them there are.
    Workers(Workers),
}

impl<'a> Request<'a> {
    /// Reads a request, and checks everything that it announces against the bytes that are there.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`] that says what is wrong; `ErrorReply::from` makes the answer of it.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (prefix, reader) = Prefix::decode(bytes)?;
        Ok(match prefix.operation {
            Operation::Get => Self::Get(Get::decode(prefix, reader)?),
            Operation::Put => Self::Put(Put::decode(prefix, reader)?),
            Operation::Delete => Self::Delete(Delete::decode(prefix, reader)?),
            Operation::Exists => Self::Exists(Exists::decode(prefix, reader)?),
            Operation::MultiGet => Self::MultiGet(MultiGet::decode(prefix, reader)?),
            Operation::MultiPut => Self::MultiPut(MultiPut::decode(prefix, reader)?),
            Operation::MultiDelete => Self::MultiDelete(MultiDelete::decode(prefix, reader)?),
            Operation::Stats => Self::Stats(Stats::decode(prefix, reader)?),
            Operation::Map => Self::Map(Map::decode(prefix, reader)?),
            Operation::CompareAndSet => Self::CompareAndSet(CompareAndSet::decode(prefix, reader)?),
            Operation::Increment => Self::Increment(Increment::decode(prefix, reader)?),
            Operation::Append => Self::Append(Append::decode(prefix, reader)?),
            Operation::GetAndPut => Self::GetAndPut(GetAndPut::decode(prefix, reader)?),
            Operation::GetAndDelete => Self::GetAndDelete(GetAndDelete::decode(prefix, reader)?),
            Operation::Expire => Self::Expire(Expire::decode(prefix, reader)?),
            Operation::GetRange => Self::GetRange(GetRange::decode(prefix, reader)?),
            Operation::Scan => Self::Scan(Scan::decode(prefix, reader)?),
            Operation::GetFields => Self::GetFields(GetFields::decode(prefix, reader)?),
            Operation::PutFields => Self::PutFields(PutFields::decode(prefix, reader)?),
            Operation::Tables => Self::Tables(Tables::decode(prefix, reader)?),
            Operation::Truncate => Self::Truncate(Truncate::decode(prefix, reader)?),
            Operation::TableStats => Self::TableStats(TableStats::decode(prefix, reader)?),
            Operation::Range => Self::Range(Range::decode(prefix, reader)?),
            Operation::HotKeys => Self::HotKeys(HotKeys::decode(prefix, reader)?),
            Operation::UploadPiece => Self::UploadPiece(UploadPiece::decode(prefix, reader)?),
            Operation::CompleteUpload => {
                Self::CompleteUpload(CompleteUpload::decode(prefix, reader)?)
            }
            Operation::AbortUpload => Self::AbortUpload(AbortUpload::decode(prefix, reader)?),
            Operation::Watch => Self::Watch(Watch::decode(prefix, reader)?),
            Operation::WatchNext => Self::WatchNext(WatchNext::decode(prefix, reader)?),
            Operation::WatchEnd => Self::WatchEnd(WatchEnd::decode(prefix, reader)?),
            Operation::OpenClient => Self::OpenClient(OpenClient::decode(prefix, reader)?),
            Operation::RenewClient => Self::RenewClient(RenewClient::decode(prefix, reader)?),
            Operation::Ask => Self::Ask(Ask::decode(prefix, reader)?),
            Operation::CreateTable => Self::CreateTable(CreateTable::decode(prefix, reader)?),
            Operation::DropTable => Self::DropTable(DropTable::decode(prefix, reader)?),
            Operation::AlterTable => Self::AlterTable(AlterTable::decode(prefix, reader)?),
            Operation::RegisterWorker => {
                Self::RegisterWorker(RegisterWorker::decode(prefix, reader)?)
            }
            Operation::RenewWorker => Self::RenewWorker(RenewWorker::decode(prefix, reader)?),
            Operation::UnregisterWorker => {
                Self::UnregisterWorker(UnregisterWorker::decode(prefix, reader)?)
            }
            Operation::Workers => Self::Workers(Workers::decode(prefix, reader)?),
        })
    }

    /// Which operation this is.
    #[inline]
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Get(_) => Operation::Get,
            Self::Put(_) => Operation::Put,
            Self::Delete(_) => Operation::Delete,
            Self::Exists(_) => Operation::Exists,
            Self::MultiGet(_) => Operation::MultiGet,
            Self::MultiPut(_) => Operation::MultiPut,
            Self::MultiDelete(_) => Operation::MultiDelete,
            Self::Stats(_) => Operation::Stats,
            Self::Map(_) => Operation::Map,
            Self::CompareAndSet(_) => Operation::CompareAndSet,
            Self::Increment(_) => Operation::Increment,
            Self::Append(_) => Operation::Append,
            Self::GetAndPut(_) => Operation::GetAndPut,
            Self::GetAndDelete(_) => Operation::GetAndDelete,
            Self::Expire(_) => Operation::Expire,
            Self::GetRange(_) => Operation::GetRange,
            Self::Scan(_) => Operation::Scan,
            Self::GetFields(_) => Operation::GetFields,
            Self::PutFields(_) => Operation::PutFields,
            Self::Tables(_) => Operation::Tables,
            Self::Truncate(_) => Operation::Truncate,
            Self::TableStats(_) => Operation::TableStats,
            Self::Range(_) => Operation::Range,
            Self::HotKeys(_) => Operation::HotKeys,
            Self::UploadPiece(_) => Operation::UploadPiece,
            Self::CompleteUpload(_) => Operation::CompleteUpload,
            Self::AbortUpload(_) => Operation::AbortUpload,
            Self::Watch(_) => Operation::Watch,
            Self::WatchNext(_) => Operation::WatchNext,
            Self::WatchEnd(_) => Operation::WatchEnd,
            Self::OpenClient(_) => Operation::OpenClient,
            Self::RenewClient(_) => Operation::RenewClient,
            Self::Ask(_) => Operation::Ask,
            Self::CreateTable(_) => Operation::CreateTable,
            Self::DropTable(_) => Operation::DropTable,
            Self::AlterTable(_) => Operation::AlterTable,
            Self::RegisterWorker(_) => Operation::RegisterWorker,
            Self::RenewWorker(_) => Operation::RenewWorker,
            Self::UnregisterWorker(_) => Operation::UnregisterWorker,
            Self::Workers(_) => Operation::Workers,
        }
    }

    /// The one key that it is about, if it is one.
    #[inline]
    pub const fn key(&self) -> Option<(TableId, Key<'a>)> {
        let target = match self {
            Self::Get(get) => return Some((get.table, get.key)),
            Self::Exists(exists) => return Some((exists.table, exists.key)),
            Self::GetRange(range) => return Some((range.table, range.key)),
            Self::GetFields(get) => return Some((get.table, get.key)),
            Self::Watch(watch) => match watch.watched {
                Watched::Key(key) => return Some((watch.table, key)),
                Watched::Prefix(_) => return None,
            },
            Self::Put(put) => &put.target,
            Self::PutFields(put) => &put.target,
            Self::Delete(delete) => &delete.target,
            Self::CompareAndSet(compare_and_set) => &compare_and_set.target,
            Self::Increment(increment) => &increment.target,
            Self::Append(append) => &append.target,
            Self::GetAndPut(put) => &put.target,
            Self::GetAndDelete(delete) => &delete.target,
            Self::Expire(expire) => &expire.target,
            Self::UploadPiece(piece) => &piece.target,
            Self::CompleteUpload(complete) => &complete.target,
            Self::AbortUpload(abort) => &abort.target,
            Self::MultiGet(_)
            | Self::MultiPut(_)
            | Self::MultiDelete(_)
            | Self::Scan(_)
            | Self::Stats(_)
            | Self::Map(_)
            | Self::Tables(_)
            | Self::Truncate(_)
            | Self::TableStats(_)
            | Self::Range(_)
            | Self::HotKeys(_)
            | Self::WatchNext(_)
            | Self::WatchEnd(_)
            | Self::OpenClient(_)
            | Self::RenewClient(_)
            | Self::Ask(_)
            | Self::CreateTable(_)
            | Self::DropTable(_)
            | Self::AlterTable(_)
            | Self::RegisterWorker(_)
            | Self::RenewWorker(_)
            | Self::UnregisterWorker(_)
            | Self::Workers(_) => return None,
        };
        Some((target.table, target.key))
    }

    /// Which mutation it is, for exactly-once effect; of a multi-request, which one item 0 is.
    #[inline]
    pub const fn completion(&self) -> Option<Completion> {
        match self {
            Self::Put(put) => put.target.completion,
            Self::PutFields(put) => put.target.completion,
            Self::Delete(delete) => delete.target.completion,
            Self::CompareAndSet(compare_and_set) => compare_and_set.target.completion,
            Self::Increment(increment) => increment.target.completion,
            Self::Append(append) => append.target.completion,
            Self::GetAndPut(put) => put.target.completion,
            Self::GetAndDelete(delete) => delete.target.completion,
            Self::Expire(expire) => expire.target.completion,
            Self::CompleteUpload(complete) => complete.target.completion,
            Self::MultiPut(multi_put) => multi_put.completion,
            Self::MultiDelete(multi_delete) => multi_delete.completion,
            Self::CreateTable(create) => create.completion,
            Self::DropTable(dropped) => dropped.completion,
            Self::AlterTable(alter) => alter.completion,
            Self::RegisterWorker(register) => register.completion,
            // Nothing but memory is taken and given back by the one and the other, so that nothing is to be remembered of them.
            Self::UploadPiece(_)
            | Self::AbortUpload(_)
            | Self::Get(_)
            | Self::Exists(_)
            | Self::MultiGet(_)
            | Self::Stats(_)
            | Self::Map(_)
            | Self::GetRange(_)
            | Self::Scan(_)
            | Self::GetFields(_)
            | Self::Tables(_)
            | Self::Truncate(_)
            | Self::TableStats(_)
            | Self::Range(_)
            | Self::HotKeys(_)
            | Self::Watch(_)
            | Self::WatchNext(_)
            | Self::WatchEnd(_)
            | Self::OpenClient(_)
            | Self::RenewClient(_)
            | Self::RenewWorker(_)
            | Self::UnregisterWorker(_)
            | Self::Workers(_)
            | Self::Ask(_) => None,
        }
    }

    /// Bytes of the request's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Get(request) => request.encoded_len(),
            Self::Put(request) => request.encoded_len(),
            Self::Delete(request) => request.encoded_len(),
            Self::Exists(request) => request.encoded_len(),
            Self::MultiGet(request) => request.encoded_len(),
            Self::MultiPut(request) => request.encoded_len(),
            Self::MultiDelete(request) => request.encoded_len(),
            Self::Stats(request) => request.encoded_len(),
            Self::Map(request) => request.encoded_len(),
            Self::CompareAndSet(request) => request.encoded_len(),
            Self::Increment(request) => request.encoded_len(),
            Self::Append(request) => request.encoded_len(),
            Self::GetAndPut(request) => request.encoded_len(),
            Self::GetAndDelete(request) => request.encoded_len(),
            Self::Expire(request) => request.encoded_len(),
            Self::GetRange(request) => request.encoded_len(),
            Self::Scan(request) => request.encoded_len(),
            Self::GetFields(request) => request.encoded_len(),
            Self::PutFields(request) => request.encoded_len(),
            Self::Tables(request) => request.encoded_len(),
            Self::Truncate(request) => request.encoded_len(),
            Self::TableStats(request) => request.encoded_len(),
            Self::Range(request) => request.encoded_len(),
            Self::HotKeys(request) => request.encoded_len(),
            Self::UploadPiece(request) => request.encoded_len(),
            Self::CompleteUpload(request) => request.encoded_len(),
            Self::AbortUpload(request) => request.encoded_len(),
            Self::Watch(request) => request.encoded_len(),
            Self::WatchNext(request) => request.encoded_len(),
            Self::WatchEnd(request) => request.encoded_len(),
            Self::OpenClient(request) => request.encoded_len(),
            Self::RenewClient(request) => request.encoded_len(),
            Self::Ask(request) => request.encoded_len(),
            Self::CreateTable(request) => request.encoded_len(),
            Self::DropTable(request) => request.encoded_len(),
            Self::AlterTable(request) => request.encoded_len(),
            Self::RegisterWorker(request) => request.encoded_len(),
            Self::RenewWorker(request) => request.encoded_len(),
            Self::UnregisterWorker(request) => request.encoded_len(),
            Self::Workers(request) => request.encoded_len(),
        }
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        match self {
            Self::Get(request) => request.encode(buffer),
            Self::Put(request) => request.encode(buffer),
            Self::Delete(request) => request.encode(buffer),
            Self::Exists(request) => request.encode(buffer),
            Self::MultiGet(request) => request.encode(buffer),
            Self::MultiPut(request) => request.encode(buffer),
            Self::MultiDelete(request) => request.encode(buffer),
            Self::Stats(request) => request.encode(buffer),
            Self::Map(request) => request.encode(buffer),
            Self::CompareAndSet(request) => request.encode(buffer),
            Self::Increment(request) => request.encode(buffer),
            Self::Append(request) => request.encode(buffer),
            Self::GetAndPut(request) => request.encode(buffer),
            Self::GetAndDelete(request) => request.encode(buffer),
            Self::Expire(request) => request.encode(buffer),
            Self::GetRange(request) => request.encode(buffer),
            Self::Scan(request) => request.encode(buffer),
            Self::GetFields(request) => request.encode(buffer),
            Self::PutFields(request) => request.encode(buffer),
            Self::Tables(request) => request.encode(buffer),
            Self::Truncate(request) => request.encode(buffer),
            Self::TableStats(request) => request.encode(buffer),
            Self::Range(request) => request.encode(buffer),
            Self::HotKeys(request) => request.encode(buffer),
            Self::UploadPiece(request) => request.encode(buffer),
            Self::CompleteUpload(request) => request.encode(buffer),
            Self::AbortUpload(request) => request.encode(buffer),
            Self::Watch(request) => request.encode(buffer),
            Self::WatchNext(request) => request.encode(buffer),
            Self::WatchEnd(request) => request.encode(buffer),
            Self::OpenClient(request) => request.encode(buffer),
            Self::RenewClient(request) => request.encode(buffer),
            Self::Ask(request) => request.encode(buffer),
            Self::CreateTable(request) => request.encode(buffer),
            Self::DropTable(request) => request.encode(buffer),
            Self::AlterTable(request) => request.encode(buffer),
            Self::RegisterWorker(request) => request.encode(buffer),
            Self::RenewWorker(request) => request.encode(buffer),
            Self::UnregisterWorker(request) => request.encode(buffer),
            Self::Workers(request) => request.encode(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use proptest::prelude::*;

    use super::*;
    use crate::round_trip::*;

    /// Walks all that a server would look at.
    fn touch(request: Request<'_>) -> usize {
        let value_len = match request {
            Request::Put(put) => put.value.len(),
            Request::Scan(scan) => scan.key_prefix.len(),
            // The key is counted below.
            Request::Watch(watch) => match watch.watched {
                Watched::Key(_) => 0,
                Watched::Prefix(prefix) => prefix.len(),
            },
            Request::GetFields(get) => {
                assert_eq!(get.names.iter().count(), get.names.len());
                get.names.iter().map(|name| 2 + name.len()).sum()
            }
            Request::PutFields(put) => {
                assert_eq!(put.changes.iter().count(), put.changes.len());
                let len =
                    |value: Option<crate::value::Value<'_>>| value.map_or(0, |value| value.len());
                put.changes.iter().map(|change| 8 + change.name.len() + len(change.value)).sum()
            }
            Request::CreateTable(create) => create.name.len(),
            Request::DropTable(dropped) => dropped.name.len(),
            Request::AlterTable(alter) => alter.name.len(),
            Request::RegisterWorker(register) => {
                register.worker.address.len() + register.worker.build.len()
            }
            Request::Range(range) => [range.lower, range.upper]
                .iter()
                .map(|bound| match bound {
                    Bound::Included(key) | Bound::Excluded(key) => key.len(),
                    Bound::Unbounded => 0,
                })
                .sum(),
            Request::CompareAndSet(compare_and_set) => compare_and_set.value.len(),
            Request::Append(append) => append.tail.len(),
            Request::GetAndPut(put) => put.value.len(),
            Request::UploadPiece(piece) => piece.bytes.len(),
            Request::MultiGet(multi) => {
                assert_eq!(multi.keys.iter().count(), multi.keys.len());
                multi.keys.iter().map(|key| 2 + key.len()).sum()
            }
            Request::MultiDelete(multi) => {
                assert_eq!(multi.keys.iter().count(), multi.keys.len());
                multi.keys.iter().map(|key| 2 + key.len()).sum()
            }
            Request::MultiPut(multi) => {
                assert_eq!(multi.pairs.iter().count(), multi.pairs.len());
                multi.pairs.iter().map(|pair| 8 + pair.key.len() + pair.value.len()).sum()
            }
            Request::Get(_)
            | Request::Delete(_)
            | Request::Exists(_)
            | Request::Stats(_)
            | Request::Map(_)
            | Request::Increment(_)
            | Request::GetAndDelete(_)
            | Request::Expire(_)
            | Request::GetRange(_)
            | Request::Tables(_)
            | Request::Truncate(_)
            | Request::TableStats(_)
            | Request::HotKeys(_)
            | Request::CompleteUpload(_)
            | Request::AbortUpload(_)
            | Request::WatchNext(_)
            | Request::WatchEnd(_)
            | Request::OpenClient(_)
            | Request::RenewClient(_)
            | Request::RenewWorker(_)
            | Request::UnregisterWorker(_)
            | Request::Workers(_)
            | Request::Ask(_) => 0,
        };
        value_len + request.key().map_or(0, |(_, key)| key.len())
    }

    proptest! {
        /// What decodes is within its message, and is written as it was read.
        #[test]
        fn hostile_requests_are_survived(
            operation in 0_u8..=Operation::COUNT as u8 + 1,
            flags in prop_oneof![4 => 0_u8..16, 1 => any::<u8>()],
            key_len in 0_u8..40,
            argument in 0_u8..40,
            body in bytes(80),
        ) {
            let prefix = [operation, flags, 0, 0, 0, 0, 0, 0, 1, 0, key_len, 0, argument, 0, 0, 0];
            let message = [&prefix[..], &body].concat();
            if let Ok(request) = Request::decode(&message) {
                prop_assert!(touch(request) <= message.len());
                let again = encode(request.encoded_len(), |buffer| request.encode(buffer));
                prop_assert_eq!(again, message);
            }
        }

        #[test]
        fn arbitrary_bytes_are_survived(message in bytes(200)) {
            let _ = Request::decode(&message).map(touch);
        }

        /// A list of pairs whose bytes are changed here and there.
        #[test]
        fn hostile_lists_are_survived(message in hostile(documented("multi-put request"))) {
            if let Ok(request) = Request::decode(&message) {
                prop_assert!(touch(request) <= message.len());
            }
        }
    }
}
