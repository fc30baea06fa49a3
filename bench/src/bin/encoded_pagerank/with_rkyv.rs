//! Messages by rkyv: archived, checked where they were received, and used there.

use rkyv::api::high::{HighSerializer, HighValidator, to_bytes_in};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archived, Portable, Serialize};
use weft_shuffle::job::pagerank::{Leaving, LeavingSums, LeavingUpdates, VertexSums};
use weft_shuffle::{JobError, Worker};

use crate::carried::{Buffers, add_all, carry, failed};
use crate::models::{Arrays, OBJECTS_LEN, Objects, Update, VALUES_LEN, Values};

pub(crate) fn objects(
    worker: &Worker,
    leaving: Leaving<'_>,
    sums: &mut VertexSums,
    buffers: &mut Buffers,
) -> Result<(), JobError> {
    carry(
        worker,
        leaving.updates(OBJECTS_LEN),
        LeavingUpdates::to,
        &mut buffers.encoded,
        |leaving, encoded| archive(&Objects::of(leaving), encoded),
        |from, bytes| {
            access::<Archived<Objects>>(bytes, |objects| {
                add_all(from, objects.0.iter().map(|update| native(update)), sums)
            })
        },
    )
}

pub(crate) fn values(
    worker: &Worker,
    leaving: Leaving<'_>,
    sums: &mut VertexSums,
    buffers: &mut Buffers,
) -> Result<(), JobError> {
    let Buffers { encoded, values, .. } = buffers;
    carry(
        worker,
        leaving.updates(VALUES_LEN),
        LeavingUpdates::to,
        encoded,
        |leaving, encoded| {
            values.fill(leaving);
            archive(values, encoded)
        },
        |from, bytes| {
            access::<Archived<Values>>(bytes, |values| {
                add_all(from, values.0.iter().map(native), sums)
            })
        },
    )
}

pub(crate) fn arrays(
    worker: &Worker,
    leaving: Leaving<'_>,
    sums: &mut VertexSums,
    buffers: &mut Buffers,
) -> Result<(), JobError> {
    let Buffers { encoded, arrays, .. } = buffers;
    carry(
        worker,
        leaving.sums(VALUES_LEN),
        LeavingSums::to,
        encoded,
        |leaving, encoded| {
            arrays.fill(leaving);
            archive(arrays, encoded)
        },
        |from, bytes| {
            access::<Archived<Arrays>>(bytes, |arrays| {
                let pairs = arrays.vertices.iter().zip(arrays.values.iter());
                add_all(from, pairs.map(|(id, sum)| (id.to_native(), sum.to_native())), sums)
            })
        },
    )
}

fn native(update: &Archived<Update>) -> (u64, f64) {
    (update.vertex.to_native(), update.value.to_native())
}

/// Archives a message into the memory of the one before.
fn archive<M>(message: &M, encoded: &mut AlignedVec<16>) -> Result<(), JobError>
where
    M: for<'a> Serialize<HighSerializer<AlignedVec<16>, ArenaHandle<'a>, Error>>,
{
    let mut memory = std::mem::take(encoded);
    memory.clear();
    *encoded = to_bytes_in::<_, Error>(message, memory).map_err(failed)?;
    Ok(())
}

/// Uses a message where it was received, or a copy, if it does not begin where an archive may: a short one, as the last of an exchange is.
fn access<A>(bytes: &[u8], take: impl FnOnce(&A) -> Result<(), JobError>) -> Result<(), JobError>
where
    A: Portable + for<'a> CheckBytes<HighValidator<'a, Error>>,
{
    if bytes.as_ptr().addr().is_multiple_of(align_of::<A>().max(8)) {
        return take(rkyv::access::<A, Error>(bytes).map_err(failed)?);
    }
    let mut aligned = AlignedVec::<16>::with_capacity(bytes.len());
    aligned.extend_from_slice(bytes);
    take(rkyv::access::<A, Error>(&aligned).map_err(failed)?)
}
