//! Weft's storage node: partitions of objects in registered memory, served by the transport's
//! threads.

#![deny(unsafe_code)]

pub mod store;
