//! Range: the first objects of an ordered table within bounds, of all partitions of the node.
//!
//! Keys are spread over the partitions by their hashes, so each has some of the range. First each shows its first keys, up to
//! the last one that could be among the first of all; then the objects of these are read, so that no value is touched which is not
//! sent.

use weft_protocol::limits::{SCAN_OBJECTS_MAX, SCAN_PAGE_BYTES};
use weft_protocol::{ErrorCode, ErrorReply, Key, Range, Slot, Version};
use weft_transport::CallId;

use crate::limits::RANGE_KEYS_BYTES;
use crate::scratch::Use;
use crate::store::NotOrdered;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    range: &Range<'_>,
) -> Result<(), ErrorReply<'static>> {
    let &Range { table, map_epoch, lower, upper, descending, with_values, slot, .. } = range;
    let partitions = &work.node.partitions;
    let epoch = partitions.map_epoch();
    if epoch as u32 != map_epoch || partitions.position_of(table, slot).is_none() {
        return Err(ErrorReply::wrong_owner(epoch));
    }
    let objects_max = (range.objects_max as usize).clamp(1, SCAN_OBJECTS_MAX);
    work.provide(Use::Range);
    let mut first = FirstKeys::new(objects_max, descending);
    let bounds = (lower.map(Key::bytes), upper.map(Key::bytes));
    for position in partitions.served(table).iter().copied() {
        let (partition, committed) = work.held.enter_at_to_read(table, position)?;
        // What is not there is told, too.
        work.replies.depends_on(committed, partition.version())?;
        let mut shown = 0;
        let shows = partition.range(table, bounds, descending, work.now_ms, |object| {
            shown += 1;
            first.offer(position, object.key) && shown < objects_max
        });
        match shows {
            Ok(()) => first.has_more |= shown >= objects_max,
            Err(NotOrdered) => return Err(ErrorReply::new(ErrorCode::NotOrdered)),
        }
    }
    first.keep_first();
    let mut tags = Vec::new();
    for (position, key) in first.keys() {
        let tag = partitions.tags().of(table, key);
        work.held.enter_at(table, position)?.prefetch_bucket(tag);
        tags.push(tag);
    }
    for ((position, _), tag) in first.keys().zip(&tags) {
        work.held.enter_at(table, position)?.prefetch_record(*tag);
    }
    let page = &mut work.page;
    page.clear();
    let mut has_more = first.has_more;
    for ((position, key), tag) in first.keys().zip(tags) {
        let (partition, committed) = work.held.enter_at_to_read(table, position)?;
        work.replies.depends_on(committed, partition.version())?;
        // It may have been removed in between.
        let Some(object) = partition.get_tagged(tag, table, key, work.now_ms) else { continue };
        let (version, expiry_ms, value) = (object.version, object.expiry_ms, object.value);
        let wanted = with_values.then_some(value);
        let is_first = page.count() == 0;
        let pushed = page.push(key, version, expiry_ms, value.len(), wanted);
        if pushed.is_err() && !is_first {
            has_more = true;
            break;
        }
    }
    let last_slot = Slot::from_number(0).expect("there is a first slot");
    // The map by which these are the node's partitions.
    let version = Version(epoch);
    let cursor = u64::from(has_more);
    work.replies.reply(call, page.finish(version, cursor, last_slot));
    Ok(())
}

/// The first keys of several ordered sequences, as many as wanted and as fit a page.
struct FirstKeys {
    count_max: usize,
    descending: bool,
    /// The bytes of the keys.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Which of the entries was the last that was kept when they were cut: nothing behind it is wanted.
    bound: Option<usize>,
    /// Whether there are keys behind those that are kept.
    has_more: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    /// Of the partition.
    position: u16,
    start: usize,
    len: usize,
}

impl FirstKeys {
    fn new(count_max: usize, descending: bool) -> FirstKeys {
        let (bytes, entries) = (Vec::new(), Vec::new());
        FirstKeys { count_max, descending, bytes, entries, bound: None, has_more: false }
    }

    /// Takes a key, unless it is behind all that are wanted. Then `false`: so are those that follow it.
    fn offer(&mut self, position: u16, key: &[u8]) -> bool {
        if self.is_out_of_bound(key) {
            self.has_more = true;
            return false;
        }
        self.entries.push(Entry { position, start: self.bytes.len(), len: key.len() });
        if self.bytes.len() + key.len() > self.bytes.capacity() {
            let wanted = 2 * self.bytes.capacity();
            let wanted = wanted.clamp(self.bytes.len() + key.len(), RANGE_KEYS_BYTES);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(key);
        if self.entries.len() >= 2 * self.count_max || self.bytes.len() >= 2 * SCAN_PAGE_BYTES {
            self.keep_first();
        }
        true
    }

    /// Sorts them, and lets go of those that are too many.
    fn keep_first(&mut self) {
        let Self { bytes, descending, .. } = self;
        let key = |entry: &Entry| &bytes[entry.start..entry.start + entry.len];
        match descending {
            false => self.entries.sort_unstable_by(|one, other| key(one).cmp(key(other))),
            true => self.entries.sort_unstable_by(|one, other| key(other).cmp(key(one))),
        }
        let (mut kept, mut kept_bytes) = (0, 0);
        for entry in self.entries.iter().take(self.count_max) {
            kept_bytes += entry.len;
            if kept > 0 && kept_bytes > SCAN_PAGE_BYTES {
                break;
            }
            kept += 1;
        }
        let is_cut = kept < self.entries.len();
        self.has_more |= is_cut;
        self.entries.truncate(kept);
        if is_cut || kept == self.count_max {
            self.bound = kept.checked_sub(1);
        }
        let mut bytes = Vec::with_capacity(kept_bytes);
        for entry in &mut self.entries {
            let start = bytes.len();
            bytes.extend_from_slice(&self.bytes[entry.start..entry.start + entry.len]);
            entry.start = start;
        }
        self.bytes = bytes;
    }

    fn is_out_of_bound(&self, key: &[u8]) -> bool {
        let Some(bound) = self.bound else { return false };
        let last = &self.entries[bound];
        let last = &self.bytes[last.start..last.start + last.len];
        if self.descending { key < last } else { key > last }
    }

    fn keys(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let key =
            |entry: &Entry| (entry.position, &self.bytes[entry.start..entry.start + entry.len]);
        self.entries.iter().map(key)
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::limits::KEY_MAX;

    use super::*;

    #[test]
    fn keys_take_no_more_memory_than_they_may_have_bytes() {
        for key_len in [1, 100, 3_333, KEY_MAX] {
            let mut first = FirstKeys::new(SCAN_OBJECTS_MAX, false);
            // The last first, so that all of them are wanted when they are offered.
            for number in (0..5_000).rev() {
                let mut key = format!("{number:04}").into_bytes();
                key.resize(key_len.max(4), 0);
                first.offer(0, &key);
                assert!(first.bytes.capacity() <= RANGE_KEYS_BYTES);
            }
            first.keep_first();
            assert!(first.bytes.capacity() <= RANGE_KEYS_BYTES && first.has_more);
            for (number, (_, key)) in first.keys().enumerate() {
                assert_eq!(key[..4], *format!("{number:04}").as_bytes());
            }
        }
    }
}
