//! What a log has to write: frames put together, with their checksums.

use std::mem;

use crate::limits::{DIRECT_ALIGN, DIRECT_MIN, LOG_WRITE_BYTES};

use super::batch::{Batch, Run};
use super::frame::FRAME_HEADER_BYTES;

/// Batches that lie together are not moved if they are longer.
const COPIED_MAX: usize = 2 * LOG_WRITE_BYTES;

/// What a log has to write.
///
/// Frames are put together and get their checksums when they are asked for, which is a matter of a tenth of a millisecond for a batch: whoever writes
/// them has that done, and nobody who appends to the log waits for it.
#[derive(Debug)]
pub struct Bytes(Form);

#[derive(Debug)]
enum Form {
    Unsealed(Box<Unsealed>),
    Sealed(Sealed),
}

/// A batch, and where it is to be written.
#[derive(Debug)]
pub(super) struct Unsealed {
    pub(super) batch: Batch,
    /// Memory to put it together in.
    pub(super) spare: Vec<u8>,
    pub(super) seed: u32,
    pub(super) offset: u64,
    pub(super) synced: u64,
}

/// Frames one after the other.
#[derive(Debug)]
struct Sealed {
    bytes: Vec<u8>,
    /// Where in `bytes` they start.
    start: usize,
    /// Memory that was needed on the way.
    spare: Vec<u8>,
}

impl Bytes {
    /// These.
    pub(super) fn sealed(bytes: Vec<u8>) -> Bytes {
        Bytes(Form::Sealed(Sealed { bytes, start: 0, spare: Vec::new() }))
    }

    /// Those that this comes to.
    pub(super) fn unsealed(unsealed: Unsealed) -> Bytes {
        Bytes(Form::Unsealed(Box::new(unsealed)))
    }

    /// The bytes.
    pub fn get(&mut self) -> &[u8] {
        if let Form::Unsealed(unsealed) = &mut self.0 {
            self.0 = Form::Sealed(unsealed.seal());
        }
        match &self.0 {
            Form::Sealed(sealed) => &sealed.bytes[sealed.start..],
            Form::Unsealed(_) => &[],
        }
    }

    /// The memory that it has.
    pub(super) fn into_memory(self) -> [Vec<u8>; 2] {
        match self.0 {
            Form::Unsealed(unsealed) => [unsealed.batch.bytes, unsealed.spare],
            Form::Sealed(sealed) => [sealed.bytes, sealed.spare],
        }
    }
}

impl Unsealed {
    /// Bodies that came in parts are put together in the spare memory, and so are those that a disk could not take from where they lie, unless they are
    /// so long that they would take too much of it.
    fn seal(&mut self) -> Sealed {
        let Unsealed { batch, spare, seed, offset, synced } = self;
        let (mut bytes, mut spare) = (mem::take(&mut batch.bytes), mem::take(spare));
        let stands = batch.standing_at(0);
        let body_at = |frame: usize| stands[frame].0 as usize + FRAME_HEADER_BYTES;
        let is_in_place = |run: &Run| run.start == body_at(run.frame);
        let is_in_place = batch.runs.len() == stands.len() && batch.runs.iter().all(is_in_place);
        let mut start = 0;
        if is_in_place && !(DIRECT_MIN..=COPIED_MAX).contains(&(batch.len() as usize)) {
            bytes.resize(batch.len() as usize, 0);
        } else {
            start = place(&mut spare, batch.len() as usize, *offset);
            let mut ends: Vec<usize> = (0..stands.len()).map(|at| start + body_at(at)).collect();
            for run in &batch.runs {
                let end = &mut ends[run.frame];
                spare[*end..*end + run.len].copy_from_slice(&bytes[run.start..run.start + run.len]);
                *end += run.len;
            }
            mem::swap(&mut bytes, &mut spare);
        }
        for (at, mut header) in stands {
            let frame = start + at as usize;
            let body = frame + FRAME_HEADER_BYTES;
            let body_end = body + header.body_len as usize;
            header.body_checksum = crc32c::crc32c(&bytes[body..body_end]);
            header.synced = *synced;
            bytes[body_end..frame + header.frame_len()].fill(0);
            bytes[frame..body].copy_from_slice(&header.encode(*seed, *offset + at));
        }
        Sealed { bytes, start, spare }
    }
}

/// Makes `memory` end with room for `len` bytes, which lie in memory as they will in the file at `offset`, so that a disk can take them
/// from there. Returns where they start.
fn place(memory: &mut Vec<u8>, len: usize, offset: u64) -> usize {
    let most = len + 2 * DIRECT_ALIGN;
    if memory.capacity() < most {
        memory.clear();
        memory.reserve_exact(most);
    }
    // What is there from before is overwritten, so it is not zeroed first.
    let start = memory.as_ptr().align_offset(DIRECT_ALIGN) + offset as usize % DIRECT_ALIGN;
    memory.resize(start + len, 0);
    start
}
