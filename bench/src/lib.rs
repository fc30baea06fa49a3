//! What the peers that are written for Timely Dataflow have in common.

#![forbid(unsafe_code)]

pub mod column;
pub mod timely_cluster;
