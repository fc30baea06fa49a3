//! Scan: a page of a partition's objects.
//!
//! A cursor is where the partition is to go on, and above it the stamp of the partition's life: nothing is kept
//! for a scan that may never go on.

use weft_protocol::limits::SCAN_OBJECTS_MAX;
use weft_protocol::{ErrorCode, ErrorReply, Scan, ScanMark};
use weft_transport::CallId;

use crate::limits::SCAN_BUCKETS_MAX;
use crate::scratch::Use;
use crate::store::Scanned;
use crate::work::Work;

/// Bits of the position in a cursor.
const POSITION_BITS: u32 = 32;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    scan: &Scan<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Scan { table, key_prefix, with_values, slot, cursor, .. } = scan;
    let last_slot = work.node.partitions.last_slot(table, slot);
    work.provide(Use::Page);
    let (partition, committed) = work.held.enter_to_read(table, slot)?;
    let last_slot = last_slot.expect("the partition was entered");
    let stamp = partition.scan_stamp();
    if cursor != 0 && (cursor >> POSITION_BITS) as u32 != stamp {
        return Err(ErrorReply::new(ErrorCode::CursorStale));
    }
    let objects_max = (scan.objects_max as usize).clamp(1, SCAN_OBJECTS_MAX);
    let page = &mut work.page;
    page.clear();
    // Objects that share a position go into one page together, since the next begins with all of them.
    let mut group: Option<(u32, ScanMark)> = None;
    let (position, now_ms) = (cursor as u32, work.now_ms);
    let next = partition.scan(table, position, SCAN_BUCKETS_MAX, now_ms, |object| {
        if !object.key.starts_with(&key_prefix) {
            return true;
        }
        if group.is_none_or(|(position, _)| position != object.position) {
            group = Some((object.position, page.mark()));
            if page.count() >= objects_max {
                return false;
            }
        }
        let Scanned { key, value, version, expiry_ms, .. } = object;
        let wanted = with_values.then_some(value);
        let pushed = page.push(key, version, expiry_ms, value.len(), wanted);
        // What does not fit a page of its own together goes without values.
        let is_alone = group.is_some_and(|(_, mark)| mark.is_start());
        pushed.is_ok() || is_alone && page.push_over(key, version, expiry_ms, value.len()).is_ok()
    });
    if let (Some(next), Some((position, mark))) = (next, group)
        && next == position
    {
        page.truncate(mark);
    }
    let cursor = next.map_or(0, |next| u64::from(stamp) << POSITION_BITS | u64::from(next));
    work.replies.depends_on(committed, partition.version())?;
    work.replies.reply(call, page.finish(partition.version(), cursor, last_slot));
    Ok(())
}
