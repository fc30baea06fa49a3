//! The client of a Weft cluster: finds the owner of a key, calls it, and retries what may be
//! retried.
//!
//! # Layout
//! - [`Client`], [`BlockingClient`]: what a program calls; both are one core.
//! - `core`: the one path of an operation, from key to answer; `operation`: one file each.
//! - `multi`: operations on many keys, across nodes, in the order in which answers come.
//! - `scan`: all objects, page by page and partition by partition.
//! - `cluster`, `map_keeper`: the map and its nodes, and how a newer one is fetched; `remote`: the
//!   connection to a node; `address`, `resolve`: what an address is and stands for.
//! - `typed`: values that are a program's types, archived by rkyv and used where they were received.
//! - `graph`: values that are graphs of objects, used where they were received.
//! - `watch`: what happens to keys, as it happens, of all nodes that matter.
//! - `catalog`: what the coordinators are asked to decide, and which tables there are by that.
//! - `retry`: what is tried again, and when; `session`: which mutation is which, for however often it is tried; both without I/O and
//!   without a clock.
//! - [`ClientError`]: where it went wrong, whether it may have had an effect, what to do.

#![deny(unsafe_code)]

mod address;
mod blocking;
mod catalog;
mod client;
mod cluster;
mod config;
mod core;
mod error;
mod graph;
mod limits;
mod map_keeper;
mod multi;
mod object;
mod operation;
mod range;
mod remote;
mod resolve;
mod retry;
mod scan;
mod session;
mod table;
mod typed;
mod upload;
mod watch;

pub use address::{Address, MalformedAddress};
pub use blocking::{BlockingClient, BlockingMulti, BlockingRange, BlockingScan, BlockingWatch};
pub use client::{Client, HotKey, HotKeys, NodeStats, Registration, TablePartition, TableSummary};
pub use config::ClientConfig;
pub use error::{AddressError, Attempt, ClientError, NodeName, Unreachable};
pub use graph::{GraphError, GraphLookup, GraphObject};
pub use limits::BACKOFF;
pub use multi::{Multi, MultiOutcome};
pub use object::{
    Appended, Compared, Deleted, Existence, Fields, FieldsLookup, Incremented, Lookup, Object,
    RangeLookup, Replaced,
};
pub use range::{Range, RangeOptions};
pub use retry::Effect;
pub use scan::{MalformedCursor, Scan, ScanCursor, ScanOptions, Scanned};
pub use typed::{
    CheckedArchive, ReadTyped, Typed, TypedError, TypedLookup, TypedObject, WriteTyped,
};
pub use watch::{Watch, WatchEvent, WatchOptions};
pub use weft_protocol::{
    CatalogError, ClusterMap, Durability, ErrorCode, Eviction, FieldChange, KeyChange,
    MalformedVersion, NotARecord, Record, Slot, StatsReply, TableAlteration, TableId, TableOptions,
    TableRemoval, Version, WorkerDescription, WorkerEntry, stat_name,
};
pub use weft_transport::{Applied, LinkPolicy, NodeId, PollPolicy, VerbsOptions};
