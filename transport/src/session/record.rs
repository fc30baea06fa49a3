//! Writing one frame into a lane.

use crate::body::Body;
use crate::frame::{Class, HEADER_BYTES, Header, Kind, padded};
use crate::lane::Producer;
use crate::memory::{Memory, MemoryError, Purpose, Shared};

/// Writes a frame with `body`, followed by `tail` if there is one, and commits it. The tail is not
/// copied; a body of its own that `gathers` is written into a block and gathered from there. Returns
/// the position of the frame in its lane.
#[inline]
pub(crate) fn write_record(
    producer: &mut Producer,
    memory: &Memory,
    (kind, class, id, more): (Kind, Class, u64, bool),
    body: impl Body,
    tail: Option<Shared>,
    gathers: bool,
) -> Result<u64, MemoryError> {
    let head = body.len();
    let tail = tail.filter(|tail| !tail.is_empty());
    let len = head + tail.as_ref().map_or(0, |tail| tail.len());
    let header = Header { len: len as u32, kind, class, more, id }.encode();
    let padding = padded(len) - len;
    producer.shrink_if_idle();
    if gathers && tail.is_none() {
        let mut block = memory.allocate(head, Purpose::Send)?;
        block.mark_touched(head);
        body.write(&mut block[..head]);
        let tail = block.freeze().slice(0..head);
        let fill = |bytes: &mut [u8]| {
            bytes[..HEADER_BYTES].copy_from_slice(&header);
            bytes[HEADER_BYTES..].fill(0);
        };
        return producer.record(HEADER_BYTES + padding, fill, Some((tail, padding)));
    }
    let fill = |bytes: &mut [u8]| {
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        body.write(&mut bytes[HEADER_BYTES..HEADER_BYTES + head]);
        bytes[HEADER_BYTES + head..].fill(0);
    };
    producer.record(HEADER_BYTES + head + padding, fill, tail.map(|tail| (tail, padding)))
}
