//! A whole node over TCP: what it answers to requests good and bad, and how its process behaves.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests run the program, and speak to it over sockets"
)]
#![expect(
    clippy::unwrap_used,
    reason = "what a test needs and does not get is a failure of the test"
)]

mod bad_bytes;
mod cleaning;
mod configuration;
mod crowd;
mod eviction;
mod files;
mod hoarders;
mod hot_keys;
mod http_crowd;
mod joining;
mod malformed_requests;
mod memory_limit;
mod on_disk;
mod operations;
#[path = "../../../client/tests/tables/ports.rs"]
mod ports;
mod process;
mod revising;
mod scanning;
mod slow_reader;
#[path = "../../src/small_disk.rs"]
mod small_disk;
mod support;
mod tables;
mod watches;
mod workers;
