//! Messages by bitcode: encoded into columns, and decoded into what they were.

use weft_shuffle::job::pagerank::{Leaving, LeavingSums, LeavingUpdates, VertexSums};
use weft_shuffle::{JobError, Worker};

use crate::carried::{Buffers, add_all, carry, failed};
use crate::models::{Arrays, BITCODE_LEN, Objects, Values};

pub(crate) fn objects(
    worker: &Worker,
    leaving: Leaving<'_>,
    sums: &mut VertexSums,
    buffers: &mut Buffers,
) -> Result<(), JobError> {
    let Buffers { encoder, decoder, encoded, .. } = buffers;
    carry(
        worker,
        leaving.updates(BITCODE_LEN),
        LeavingUpdates::to,
        encoded,
        |leaving, encoded| {
            encoded.clear();
            encoded.extend_from_slice(encoder.encode(&Objects::of(leaving)));
            Ok(())
        },
        |from, bytes| {
            let objects: Objects = decoder.decode(bytes).map_err(failed)?;
            add_all(from, objects.0.iter().map(|update| (update.vertex, update.value)), sums)
        },
    )
}

pub(crate) fn values(
    worker: &Worker,
    leaving: Leaving<'_>,
    sums: &mut VertexSums,
    buffers: &mut Buffers,
) -> Result<(), JobError> {
    let Buffers { encoder, decoder, encoded, values, .. } = buffers;
    carry(
        worker,
        leaving.updates(BITCODE_LEN),
        LeavingUpdates::to,
        encoded,
        |leaving, encoded| {
            values.fill(leaving);
            encoded.clear();
            encoded.extend_from_slice(encoder.encode(values));
            Ok(())
        },
        |from, bytes| {
            let values: Values = decoder.decode(bytes).map_err(failed)?;
            add_all(from, values.0.iter().map(|update| (update.vertex, update.value)), sums)
        },
    )
}

pub(crate) fn arrays(
    worker: &Worker,
    leaving: Leaving<'_>,
    sums: &mut VertexSums,
    buffers: &mut Buffers,
) -> Result<(), JobError> {
    let Buffers { encoder, decoder, encoded, arrays, .. } = buffers;
    carry(
        worker,
        leaving.sums(BITCODE_LEN),
        LeavingSums::to,
        encoded,
        |leaving, encoded| {
            arrays.fill(leaving);
            encoded.clear();
            encoded.extend_from_slice(encoder.encode(arrays));
            Ok(())
        },
        |from, bytes| {
            let Arrays { vertices, values } = decoder.decode(bytes).map_err(failed)?;
            add_all(from, vertices.into_iter().zip(values), sums)
        },
    )
}
