//! What a change leaves for replicas: its entry, as it is sent and written to disk.
//!
//! Nothing is encoded for them that the log has already: an object's record is copied, or shared if its value is long. Only records that
//! lie in no log are made here. A partition that nobody follows pays for a look at a pointer a change.

use std::collections::VecDeque;

use weft_protocol::{TableId, Version};

use super::address::Address;
use super::completion_record::{BYTES_MAX as ENCODED_MAX, CLIENT_BYTES, Encoded};
use super::gather::{COPIED_MAX, Gather, Gathered, Mark};
use super::header::{self, HEADER_BYTES, Head, Kind, Record};
use super::partition::Partition;
use super::segment::Segment;

/// What one change of a partition is: one or two records, in the format of the log, all of one version.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The version of all its records.
    pub version: Version,
    /// Its bytes, a multiple of 8.
    pub bytes: Gathered<'a>,
}

/// The entries that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Recording {
    gather: Gather,
    entries: VecDeque<Recorded>,
}

#[derive(Clone, Copy, Debug)]
struct Recorded {
    version: Version,
    start: Mark,
    end: Mark,
}

impl Partition {
    /// Keeps the entry of each change from now on until it is [taken](Self::take_entry), or does not any more. Entries that were not taken
    /// are forgotten.
    ///
    /// While it records, evictions and changes of tables have a version each as all other changes do. While it does not, they have none: nobody
    /// could tell the difference, since whoever follows later begins with a snapshot, and a cache that evicts uses up no versions.
    pub fn set_recording(&mut self, records: bool) {
        self.recording = records.then(Box::default);
    }

    /// Whether entries are kept.
    pub fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// The next entry that was not taken yet, in the order of their versions. Views of values live until there is none: take them until then, after
    /// each change or batch.
    pub fn take_entry(&mut self) -> Option<Entry<'_>> {
        let recording = self.recording.as_mut()?;
        let Some(next) = recording.entries.pop_front() else {
            recording.gather.clear();
            return None;
        };
        let bytes = recording.gather.between(next.start, next.end);
        Some(Entry { version: next.version, bytes })
    }

    /// Records the object whose record is at `address`.
    #[cold]
    pub(super) fn record_object(&mut self, address: Address) {
        let Some(recording) = &mut self.recording else { return };
        let segment = self.log.segment(address.segment());
        recording.begin(segment.record(address.offset()).version());
        push_record(&mut recording.gather, segment, address.offset());
        recording.end();
    }
}

impl Recording {
    /// Records a change that is told by a record which lies in no log.
    pub(super) fn change(
        &mut self,
        kind: Kind,
        version: Version,
        table: TableId,
        key: &[u8],
        value: &[u8],
    ) {
        self.begin(version);
        push_beside(&mut self.gather, kind, version, table, key, value);
        self.end();
    }

    /// Adds the completion of a client's request to the entry of this version, or makes it one of its own.
    pub(super) fn completion(&mut self, version: Version, client: u64, value: &Encoded) {
        if self.entries.back().is_none_or(|last| last.version != version) {
            self.begin(version);
        }
        push_completion(&mut self.gather, version, client, value);
        self.end();
    }

    fn begin(&mut self, version: Version) {
        if self.entries.is_empty() {
            self.gather.clear();
        }
        let end = self.gather.end();
        self.entries.push_back(Recorded { version, start: end, end });
    }

    fn end(&mut self) {
        let end = self.gather.end();
        self.entries.back_mut().expect("it was begun").end = end;
    }
}

/// Adds the record of a completion. Nearly every write has one: it is copied once, and in parts of known lengths before.
fn push_completion(gather: &mut Gather, version: Version, client: u64, value: &Encoded) {
    let key = client.to_le_bytes();
    let head = Head::beside(Kind::Completion, version, TableId::DEFAULT, &key, value.len());
    let mut bytes = [0; HEADER_BYTES + CLIENT_BYTES + ENCODED_MAX];
    let (head_bytes, rest) = bytes.split_at_mut(HEADER_BYTES);
    let (key_bytes, value_bytes) = rest.split_at_mut(CLIENT_BYTES);
    head_bytes.copy_from_slice(head.fixed());
    key_bytes.copy_from_slice(&key);
    value_bytes.copy_from_slice(value.padded());
    let bytes = &mut bytes[..HEADER_BYTES + CLIENT_BYTES + value.len()];
    header::seal(bytes, |checksum| checksum);
    gather.push(bytes);
    gather.pad();
}

/// Adds the record that lies in `segment` at `offset`.
pub(super) fn push_record(gather: &mut Gather, segment: &Segment, offset: usize) {
    let record: Record<'_> = segment.record(offset);
    if record.value_len() <= COPIED_MAX {
        return gather.push(record.bytes());
    }
    // The padding comes with the value.
    let value_at = record.value_start();
    gather.push(&record.bytes()[..value_at]);
    gather.push_view(segment.pin(offset + value_at, record.len() - value_at));
}

/// Adds a record that lies in no log.
pub(super) fn push_beside(
    gather: &mut Gather,
    kind: Kind,
    version: Version,
    table: TableId,
    key: &[u8],
    value: &[u8],
) {
    let head = Head::beside(kind, version, table, key, value.len());
    gather.push_record(&head, key, value, &[]);
    gather.pad();
}
