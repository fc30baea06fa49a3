//! The store's core: objects in log segments of registered memory, found through a hash index.
//!
//! No I/O, no clock, no locks but one: a [`Partition`] is a plain struct, and whoever owns it says what
//! time it is. From the bottom up:
//!
//! - `header`: the bytes of a record (`docs/storage-format.md` draws them);
//! - `segment`, `log`: records one after the other in blocks of registered memory, which can be
//!   sent
//!   from where they lie; a segment goes back when its last object dies;
//! - `index`: from a key's hash to the address of its record, 8 bytes an entry;
//! - `ordered`: the keys of a table in their order; `tables`: what each table holds and may hold;
//! - `partition`: the verbs, and the versions; `revising`: those verbs whose write depends on what is there;
//! - `looking_ahead`: lookups of many keys, whose memory is asked for ahead;
//! - `uploading`: values that come in pieces;
//! - `scanning`: all objects, a page at a time, ranges of them, and what is to be swept away;
//! - `evicting`: which objects go when their table makes room for others;
//! - `watching`: who is told what happens; `feed`: what is kept of it for one of them, the one place with a lock, since partitions share it;
//! - `recording`: the entry that a change leaves for replicas; `gather`: its bytes, where they lie; `altering`: changes of tables;
//! - `entries`: entries that have arrived, checked; `applying`: how a replica follows them;
//! - `once`: mutations that take effect once; `completions`: what is remembered for that; `outcome`, `completion_record`: of one request, and its bytes;
//! - `snapshot`, `learning`: how a replica that has nothing gets everything; `digest`: whether it has;
//! - `cleaning`: which segments are worth emptying, and how their objects move.
//!
//! The log-structured layout is RAMCloud's (Rumble et al., FAST '14), and so is the bucket that is
//! one cache line with the key left in the log.

mod address;
mod altering;
mod applying;
mod cleaning;
mod completion_record;
mod completions;
mod digest;
mod entries;
mod error;
mod evicting;
mod feed;
mod gather;
mod header;
mod index;
mod learning;
mod log;
mod looking_ahead;
mod once;
mod ordered;
mod outcome;
mod partition;
mod planted;
mod recording;
mod revising;
mod scanning;
mod segment;
mod snapshot;
mod tables;
mod uploading;
mod watching;

pub use self::cleaning::{Cleaned, LogUse, Victim};
pub use self::completions::{Attempt, Recalled};
pub use self::entries::{ApplyError, key_of_entry, split_entries};
pub use self::error::{Corruption, StoreError};
pub use self::evicting::Evicted;
pub use self::feed::{Feed, FeedError, FeedPage};
pub use self::gather::{Gather, Gathered, Piece};
pub use self::index::{Tag, Tags};
pub(crate) use self::log::kept_back_bytes;
pub use self::once::{Once, OnceError};
pub use self::outcome::{Answer, Kept, Outcome, Previous, Refusal};
pub use self::partition::{
    Deleted, ObjectRef, Partition, PartitionConfig, PartitionStats, VALUE_BYTES_MAX,
};
pub use self::planted::PlantedBug;
pub use self::recording::Entry;
pub use self::revising::{Appended, Compared, Expired, Incremented, Replaced};
pub use self::scanning::{NotOrdered, Ranged, Scanned, Sweepable, Swept};
pub use self::snapshot::Snapshot;
pub use self::tables::{Quota, TableConfig};
pub use self::uploading::Completed;
