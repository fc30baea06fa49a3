//! The operations: one file each, with the request, the reply, and the bytes of both.

pub mod abort_upload;
pub mod alter_table;
pub mod append;
pub mod ask;
pub mod compare_and_set;
pub mod complete_upload;
pub mod create_table;
pub mod delete;
pub mod drop_table;
pub mod exists;
pub mod expire;
pub mod get;
pub mod get_and_delete;
pub mod get_and_put;
pub mod get_fields;
pub mod get_range;
pub mod hot_keys;
pub mod increment;
pub mod map;
pub mod multi_delete;
pub mod multi_get;
pub mod multi_put;
pub mod open_client;
pub mod put;
pub mod put_fields;
pub mod range;
pub mod register_worker;
pub mod renew_client;
pub mod renew_worker;
pub mod scan;
pub mod stats;
pub mod table_stats;
pub mod tables;
pub mod truncate;
pub mod unregister_worker;
pub mod upload_piece;
pub mod watch;
pub mod watch_end;
pub mod watch_next;
pub mod workers;

use std::fmt;

/// What a request asks for. The numbers are the wire's and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Read the object of one key.
    Get = 1,
    /// Write the object of one key.
    Put = 2,
    /// Remove the object of one key.
    Delete = 3,
    /// Ask whether a key has an object.
    Exists = 4,
    /// Read the objects of many keys.
    MultiGet = 5,
    /// Write the objects of many keys.
    MultiPut = 6,
    /// Remove the objects of many keys.
    MultiDelete = 7,
    /// Ask a node how it is.
    Stats = 8,
    /// Ask who owns which slots.
    Map = 9,
    /// Write the object of one key if it is of a certain version.
    CompareAndSet = 10,
    /// Add to the number that a key holds.
    Increment = 11,
    /// Add to the end of a key's value.
    Append = 12,
    /// Write the object of one key and read the one before it.
    GetAndPut = 13,
    /// Remove the object of one key and read it.
    GetAndDelete = 14,
    /// Change when the object of one key ceases to be.
    Expire = 15,
    /// Read some bytes of a key's value.
    GetRange = 16,
    /// Meet the objects of a partition.
    Scan = 17,
    /// Read fields of a key's record.
    GetFields = 18,
    /// Change fields of a key's record.
    PutFields = 19,
    /// Ask which tables there are.
    Tables = 20,
    /// Remove all objects of a table.
    Truncate = 22,
    /// Ask what the tables hold.
    TableStats = 23,
    /// Read the objects of an ordered table whose keys are within bounds.
    Range = 24,
    /// Ask which keys are asked for the most.
    HotKeys = 25,
    /// Bring a piece of a value that is too long for one request.
    UploadPiece = 26,
    /// Make what was uploaded the object of its key.
    CompleteUpload = 27,
    /// Give up what was being uploaded.
    AbortUpload = 28,
    /// Have a node tell what happens to a key, or to the keys with a prefix.
    Watch = 29,
    /// Ask for the events of a watch.
    WatchNext = 30,
    /// Have a node forget a watch.
    WatchEnd = 31,
    /// Ask to be a client that is remembered.
    OpenClient = 32,
    /// Ask to be remembered for longer.
    RenewClient = 33,
    /// Have a node's coordinator do or tell something.
    Ask = 34,
    /// Have the cluster make one more table.
    CreateTable = 35,
    /// Have the cluster remove a table.
    DropTable = 36,
    /// Have the cluster change a table.
    AlterTable = 37,
    /// Have the cluster keep that a process is there which works for it.
    RegisterWorker = 38,
    /// Have that hold for longer.
    RenewWorker = 39,
    /// Have the cluster forget such a process.
    UnregisterWorker = 40,
    /// Ask which of them there are.
    Workers = 41,
}

impl Operation {
    /// How many operations there are.
    pub const COUNT: usize = Self::ALL.len();

    const ALL: [Self; 40] = [
        Self::Get,
        Self::Put,
        Self::Delete,
        Self::Exists,
        Self::MultiGet,
        Self::MultiPut,
        Self::MultiDelete,
        Self::Stats,
        Self::Map,
        Self::CompareAndSet,
        Self::Increment,
        Self::Append,
        Self::GetAndPut,
        Self::GetAndDelete,
        Self::Expire,
        Self::GetRange,
        Self::Scan,
        Self::GetFields,
        Self::PutFields,
        Self::Tables,
        Self::Truncate,
        Self::TableStats,
        Self::Range,
        Self::HotKeys,
        Self::UploadPiece,
        Self::CompleteUpload,
        Self::AbortUpload,
        Self::Watch,
        Self::WatchNext,
        Self::WatchEnd,
        Self::OpenClient,
        Self::RenewClient,
        Self::Ask,
        Self::CreateTable,
        Self::DropTable,
        Self::AlterTable,
        Self::RegisterWorker,
        Self::RenewWorker,
        Self::UnregisterWorker,
        Self::Workers,
    ];

    /// All operations, by number.
    pub const fn all() -> &'static [Self] {
        &Self::ALL
    }

    /// The operation with this number on the wire.
    #[inline]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Get,
            2 => Self::Put,
            3 => Self::Delete,
            4 => Self::Exists,
            5 => Self::MultiGet,
            6 => Self::MultiPut,
            7 => Self::MultiDelete,
            8 => Self::Stats,
            9 => Self::Map,
            10 => Self::CompareAndSet,
            11 => Self::Increment,
            12 => Self::Append,
            13 => Self::GetAndPut,
            14 => Self::GetAndDelete,
            15 => Self::Expire,
            16 => Self::GetRange,
            17 => Self::Scan,
            18 => Self::GetFields,
            19 => Self::PutFields,
            20 => Self::Tables,
            22 => Self::Truncate,
            23 => Self::TableStats,
            24 => Self::Range,
            25 => Self::HotKeys,
            26 => Self::UploadPiece,
            27 => Self::CompleteUpload,
            28 => Self::AbortUpload,
            29 => Self::Watch,
            30 => Self::WatchNext,
            31 => Self::WatchEnd,
            32 => Self::OpenClient,
            33 => Self::RenewClient,
            34 => Self::Ask,
            35 => Self::CreateTable,
            36 => Self::DropTable,
            37 => Self::AlterTable,
            38 => Self::RegisterWorker,
            39 => Self::RenewWorker,
            40 => Self::UnregisterWorker,
            41 => Self::Workers,
            _ => return None,
        })
    }

    /// The operation's place in [`all`](Self::all): what an array of counters is indexed by.
    #[inline]
    pub const fn index(self) -> usize {
        let number = self as usize;
        // Nobody has number 21: it was that of an operation which is gone.
        number - 1 - (number > 21) as usize
    }

    /// The operation's name, as counters and messages have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Exists => "exists",
            Self::MultiGet => "multi_get",
            Self::MultiPut => "multi_put",
            Self::MultiDelete => "multi_delete",
            Self::Stats => "stats",
            Self::Map => "map",
            Self::CompareAndSet => "compare_and_set",
            Self::Increment => "increment",
            Self::Append => "append",
            Self::GetAndPut => "get_and_put",
            Self::GetAndDelete => "get_and_delete",
            Self::Expire => "expire",
            Self::GetRange => "get_range",
            Self::Scan => "scan",
            Self::GetFields => "get_fields",
            Self::PutFields => "put_fields",
            Self::Tables => "tables",
            Self::Truncate => "truncate",
            Self::TableStats => "table_stats",
            Self::Range => "range",
            Self::HotKeys => "hot_keys",
            Self::UploadPiece => "upload_piece",
            Self::CompleteUpload => "complete_upload",
            Self::AbortUpload => "abort_upload",
            Self::Watch => "watch",
            Self::WatchNext => "watch_next",
            Self::WatchEnd => "watch_end",
            Self::OpenClient => "open_client",
            Self::RenewClient => "renew_client",
            Self::Ask => "ask",
            Self::CreateTable => "create_table",
            Self::DropTable => "drop_table",
            Self::AlterTable => "alter_table",
            Self::RegisterWorker => "register_worker",
            Self::RenewWorker => "renew_worker",
            Self::UnregisterWorker => "unregister_worker",
            Self::Workers => "workers",
        }
    }

    /// Whether the operation changes objects, so that repeating it blindly may do harm.
    #[inline]
    pub const fn is_mutation(self) -> bool {
        match self {
            Self::Put
            | Self::Delete
            | Self::MultiPut
            | Self::MultiDelete
            | Self::CompareAndSet
            | Self::Increment
            | Self::Append
            | Self::GetAndPut
            | Self::GetAndDelete
            | Self::Expire
            | Self::PutFields
            | Self::CreateTable
            | Self::DropTable
            | Self::AlterTable
            | Self::Truncate
            | Self::CompleteUpload => true,
            Self::Get
            | Self::Exists
            | Self::MultiGet
            | Self::Stats
            | Self::Map
            | Self::GetRange
            | Self::Scan
            | Self::GetFields
            | Self::Tables
            | Self::TableStats
            | Self::Range
            | Self::HotKeys
            | Self::UploadPiece
            | Self::AbortUpload
            | Self::Watch
            | Self::WatchNext
            | Self::WatchEnd
            | Self::OpenClient
            | Self::RenewClient
            | Self::RegisterWorker
            | Self::RenewWorker
            | Self::UnregisterWorker
            | Self::Workers
            | Self::Ask => false,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_indices_name_their_operation() {
        for (index, &operation) in Operation::all().iter().enumerate() {
            assert_eq!(Operation::from_number(operation as u8), Some(operation));
            assert_eq!(operation.index(), index);
        }
        assert_eq!(Operation::from_number(0), None);
        assert_eq!(Operation::from_number(Operation::COUNT as u8 + 2), None);
        assert_eq!(Operation::from_number(21), None, "nobody has it any more");
    }
}
