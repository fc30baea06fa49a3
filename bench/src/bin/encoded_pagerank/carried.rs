//! Bytes over the exchange that Weft's objects go by.

use std::cell::RefCell;

use rkyv::util::AlignedVec;
use weft_object::{Bytes, Root, Types, Wire};
use weft_shuffle::job::graph::Graph;
use weft_shuffle::job::pagerank::{NotOwn, PageRank, VertexSums};
use weft_shuffle::{Dataset as _, JobError, Worker, WorkerId, records};

use crate::models::{Arrays, Values};

/// An encoded message.
#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Encoded {
    bytes: Bytes,
}

/// Memory that is used again for the next message, and for the next round.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) encoder: bitcode::Buffer,
    pub(crate) decoder: bitcode::Buffer,
    pub(crate) values: Values,
    pub(crate) arrays: Arrays,
    pub(crate) encoded: AlignedVec<16>,
}

/// The types of all records.
pub(crate) fn types() -> Types {
    PageRank::types(Graph::types(Types::new())).with::<Root<Encoded>>()
}

/// An exchange: each of the batches is encoded once, sent as a record, and decoded where it was received.
pub(crate) fn carry<B>(
    worker: &Worker,
    batches: impl Iterator<Item = B>,
    to: impl Fn(&B) -> WorkerId,
    encoded: &mut AlignedVec<16>,
    mut encode: impl FnMut(&B, &mut AlignedVec<16>) -> Result<(), JobError>,
    mut decode: impl FnMut(WorkerId, &[u8]) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let encoded = RefCell::new(encoded);
    let batches = records(batches).flat_map_into(|batch, emit| {
        encode(&batch, &mut encoded.borrow_mut())?;
        emit(to(&batch))
    });
    batches.exchange_graphs(
        worker,
        |to| *to,
        |_, graph| {
            let bytes = graph.bytes(&encoded.borrow())?;
            graph.alloc(Encoded { bytes })
        },
        |from, message: &Encoded, view| decode(from, view.seq(message.bytes)),
    )
}

/// Adds what has come from another worker.
#[inline(always)]
pub(crate) fn add_all(
    from: WorkerId,
    updates: impl Iterator<Item = (u64, f64)>,
    sums: &mut VertexSums,
) -> Result<(), JobError> {
    let of_others = |NotOwn { vertex }| format!("{from} gives to vertex {vertex} of others");
    sums.add_all(updates).map_err(|other| JobError::Job(of_others(other)))
}

/// The error of a message that cannot be encoded or decoded.
#[cold]
pub(crate) fn failed(error: impl std::fmt::Display) -> JobError {
    JobError::Job(error.to_string())
}
