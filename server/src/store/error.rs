//! What a partition refuses, and what must never be found.

use weft_protocol::{TableId, Version};
use weft_transport::MemoryError;

/// Why a write was refused. Nothing was written, and what was there is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The memory limit has no room for the object or for its entry in the index.
    #[error("find memory for the object: {0}")]
    MemoryLimit(MemoryError),
    /// The key is longer than a record can say.
    #[error("store a key of {len} bytes: the limit is {limit}; use a hash of it")]
    KeyTooLong {
        /// Length of the key.
        len: usize,
        /// The longest that is taken.
        limit: usize,
    },
    /// The value is longer than a partition takes.
    #[error("store a value of {len} bytes: the limit is {limit}; split it over several keys")]
    ValueTooLarge {
        /// Length of the value.
        len: usize,
        /// The longest that is taken.
        limit: usize,
    },
    /// The value is no decimal number of 64 bits as [`Partition::increment`](super::Partition::increment) writes
    /// them.
    #[error("add to a value that is no number")]
    NotANumber,
    /// The sum does not fit 64 bits.
    #[error("add to a number: the sum does not fit 64 bits")]
    NumberOverflow,
    /// The value is no record of fields.
    #[error("change a field of a value that is no record")]
    NotARecord,
    /// The record would have too many fields.
    #[error(
        "store a record of {count} fields: the limit is {limit}; spread them over several keys"
    )]
    TooManyFields {
        /// Fields that it would have.
        count: usize,
        /// The most that it may have.
        limit: usize,
    },
    /// The value would be longer than is written in one step.
    #[error("store a value of {len} bytes in one step: it has to be uploaded")]
    OnlyByUpload {
        /// Length of the value.
        len: usize,
    },
    /// There is no such upload, pieces of it are missing, or the object to copy them from is not what it was.
    #[error("complete an upload: it is unknown, or not whole")]
    UploadUnknown,
    /// The partition is to be kept on disk, and the node keeps nothing there.
    #[error(
        "hold partition {partition}: its tables are kept on disk, and this node has no data directory"
    )]
    NoDataDirectory {
        /// The partition.
        partition: u16,
    },
    /// The node's log of the partition is not complete, and who is to hold it is not told that it is lost: it would be served without what is missing.
    #[error(
        "hold partition {partition}: what this node has of it on disk is not complete; restore it, or accept the loss"
    )]
    PartitionIncomplete {
        /// The partition.
        partition: u16,
    },
    /// The partition has no such table.
    #[error("store an object of table {table}: there is none")]
    TableUnknown {
        /// The table.
        table: TableId,
    },
    /// The table takes as much as it may.
    #[error("store an object: the table takes the {limit} bytes that its quota lets it have here")]
    QuotaReached {
        /// The bytes that its objects may take on this node.
        limit: u64,
    },
    /// All sequences of the partition's epoch are used up.
    #[error("give out a version after {last}: the epoch has no more; it needs a new epoch")]
    VersionsExhausted {
        /// The last version that was given out.
        last: Version,
    },
    /// The epoch has more bits than a version has room for.
    #[error("start a partition in epoch {epoch}: the last is {}", Version::EPOCH_MAX)]
    EpochsExhausted {
        /// The epoch.
        epoch: u32,
    },
    /// The partition's log has as many segments as can be numbered.
    #[error("open segment {limit}: a log has no more; split the partition")]
    SegmentsExhausted {
        /// Segments of the log.
        limit: u32,
    },
}

/// Not a source: the message says all of it.
impl From<MemoryError> for StoreError {
    fn from(error: MemoryError) -> Self {
        Self::MemoryLimit(error)
    }
}

/// Memory that is not what was written to it: a fault of the machine or of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corruption {
    /// A record's bytes do not match its checksum.
    #[error("record {version} in segment {segment} at {offset} has a wrong checksum")]
    Checksum {
        /// Number of the segment within the partition's log.
        segment: u32,
        /// Offset of the record within it.
        offset: usize,
        /// The version that the record claims.
        version: Version,
    },
    /// A record ends beyond its segment, or is of no known kind.
    #[error("no record in segment {segment} at {offset}")]
    Malformed {
        /// Number of the segment within the partition's log.
        segment: u32,
        /// Offset of the record within it.
        offset: usize,
    },
    /// The index does not lead to a live record.
    #[error("record {version} in segment {segment} at {offset} is not in the index")]
    Unindexed {
        /// Number of the segment within the partition's log.
        segment: u32,
        /// Offset of the record within it.
        offset: usize,
        /// The version of the record.
        version: Version,
    },
    /// The objects of the tables are not as many as there are.
    #[error("the tables have {counted} objects, the log {objects}")]
    Miscounted {
        /// Live records in the log.
        objects: u64,
        /// What the tables add up to.
        counted: u64,
    },
    /// The keys of an ordered table are not those that are there, in their order.
    #[error("the keys of table {table} are out of order")]
    Disordered {
        /// The table.
        table: TableId,
    },
    /// The index has entries that lead to no live record.
    #[error("the index has {entries} entries for {objects} live objects")]
    Dangling {
        /// Entries of the index.
        entries: usize,
        /// Live records in the log.
        objects: usize,
    },
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_chain_of_errors_says_why_there_is_no_memory_once() {
        let refused = MemoryError::Fragmented { requested_bytes: 9, largest_free_bytes: 8 };
        let error = StoreError::from(refused);
        assert_eq!(error.to_string(), format!("find memory for the object: {refused}"));
        assert!(error.source().is_none());
    }
}
