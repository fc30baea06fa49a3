//! Map-reduce over object graphs, in memory, with spill. So far the crate reads graphs, each worker its
//! share ([`EdgeList`]); the rest is a promise.
//!
//! What will live here: a lazy plan of stages that is cut at exchanges, workers that all run the
//! same program, and the exchange, which sends each (map, reduce) pair's segments as they fill and
//! reads them in place on arrival, with credits end to end and a memory cap a partition.
//!
//! The invariant: **it encodes no record**. A record is an object graph of `weft-object` from the
//! map that makes it to the reduce that reads it, in memory, on the wire and in a spill file.
#![forbid(unsafe_code)]

mod edge_list;

pub use self::edge_list::{EdgeList, InputError, LineProblem, Share, Summary};
