//! Weft's storage node.
//!
//! From the outside in:
//!
//! - [`config`]: what it is told; [`node`]: the process's parts put together; [`http`]: what it
//!   tells operators; [`control`]: what they and programs ask the cluster.
//! - [`handler`]: the node without sockets and threads, which the simulator runs too. A batch of
//!   requests goes through `work` (decode, prefetch, execute) and `dispatch` (the one match) to the
//!   `operation` that does it.
//! - `maps`: who serves what, as clients are told; `clients`: whose mutations are remembered.
//! - `cluster`: what the node is to others, and they to it. `replies`, `withheld`, `answers`: when a request is answered.
//! - [`forming`]: how a node comes to be of a cluster.
//! - `watches`: who is told what happens; `watch_thread`: what answers those who wait for it.
//! - [`store`]: the partitions' objects, index and log.
//! - [`replication`]: how the members of a partition come to hold the same, as state machines that know neither store nor network.
//! - [`coordinator`]: what the nodes of a cluster agree about, and who holds what in it.
//! - [`durable`]: what is kept of them on disk; [`logs`]: that of a node, and what it finds there when it starts.

#![deny(unsafe_code)]

mod answers;
mod background_thread;
pub mod config;
pub mod control;
pub mod coordinator;
pub mod counters;
pub mod data_directory;
pub mod durable;
pub mod forming;
pub mod handler;
pub mod http;
pub mod limits;
pub mod logs;
pub mod memory;
pub mod monitor;
pub mod node;
pub mod process;
pub mod replication;
pub mod report;
pub mod store;

mod catalog;
mod cleaner;
mod clients;
mod cluster;
mod dispatch;
mod evictor;
mod hot_keys;
mod lookahead;
mod maps;
mod needed;
mod operation;
mod partitions;
mod pins;
mod places;
mod prefetch;
mod replies;
mod scratch;
mod sending;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests mount it and fill it up")]
mod small_disk;
mod sweeper;
mod table_changes;
mod watch_thread;
mod watches;
mod withheld;
mod work;
mod workers;
