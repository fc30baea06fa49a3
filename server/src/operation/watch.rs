//! Watch: have a client be told what happens to a key, or to the keys with a prefix, from now on.

use weft_protocol::{ErrorReply, Slot, Version, Watch, WatchReply, Watched};
use weft_transport::CallId;

use crate::limits::WATCH_LEASE;
use crate::watches::Opened;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    slot: Slot,
    watch: &Watch<'_>,
) -> Result<(), ErrorReply<'static>> {
    let reply = match watch.watched {
        Watched::Key(_) => of_key(work, slot, watch)?,
        Watched::Prefix(_) => of_prefix(work, watch)?,
    };
    work.replies.reply(call, reply);
    Ok(())
}

/// The version and the first event are of one moment, since the partition is locked from one to the other.
fn of_key(
    work: &mut Work<'_, '_, '_>,
    slot: Slot,
    &Watch { table, watched, queue_bytes, .. }: &Watch<'_>,
) -> Result<WatchReply, ErrorReply<'static>> {
    let (Watched::Key(key) | Watched::Prefix(key)) = watched;
    let (node, now_ms) = (work.node, work.now_ms);
    let partitions = &node.partitions;
    let partition = work.held.enter(table, slot)?;
    let position = partitions.position_of(table, slot).expect("it was entered");
    let version = partition.exists(table, &key, now_ms);
    let opened =
        node.watches.open((table, watched), Some(position), partitions, queue_bytes, node.now())?;
    partition.watch(&opened.feed, partitions.slots_of(position));
    let newest = partition.version();
    Ok(reply(&opened, version.unwrap_or(newest), version.is_some()))
}

/// One partition begins after the other; all have begun when the client is answered.
fn of_prefix(
    work: &mut Work<'_, '_, '_>,
    &Watch { table, map_epoch, watched, queue_bytes }: &Watch<'_>,
) -> Result<WatchReply, ErrorReply<'static>> {
    let node = work.node;
    let partitions = &node.partitions;
    let epoch = partitions.map_epoch();
    // One that owns nothing has nothing to tell.
    if epoch as u32 != map_epoch || partitions.served(table).is_empty() {
        return Err(ErrorReply::wrong_owner(epoch));
    }
    work.held.release();
    let opened = node.watches.open((table, watched), None, partitions, queue_bytes, node.now())?;
    for position in partitions.served(table).iter().copied() {
        match work.held.enter_at(table, position) {
            Ok(partition) => partition.watch(&opened.feed, partitions.slots_of(position)),
            Err(error) => {
                work.held.release();
                // Nobody else knows it, and nothing else ends one that is so new.
                let _ = node.watches.end(opened.id, partitions);
                return Err(error);
            }
        }
    }
    Ok(reply(&opened, Version::NONE, false))
}

fn reply(&Opened { id, queue_bytes, .. }: &Opened, version: Version, exists: bool) -> WatchReply {
    let lease_ms = WATCH_LEASE.as_millis() as u32;
    WatchReply { id, version, exists, queue_bytes: queue_bytes as u32, lease_ms }
}
