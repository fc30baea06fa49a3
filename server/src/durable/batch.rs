//! Frames that wait to be written: bodies are copied as they come; headers and checksums are made when it is known where they will stand.
//!
//! Entries of many partitions come in turns, a few of each. Those of one partition join under one header, whatever of other partitions has
//! come between: else a header, and all that follows from a frame until it is synced, would be for one or two entries each.

use std::collections::VecDeque;

use crate::limits::{LOG_FRAME_BYTES, LOG_WRITE_BYTES};
use crate::prefetch;

use super::by_partition::ByPartition;
use super::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use super::sealing::{Bytes, Unsealed};

/// How many buffers are kept for what comes: one is filled, and what is written is put together from one in another.
const SPARES_MAX: usize = 3;

/// Frames in the order in which they are to be written, in pieces of about [`LOG_WRITE_BYTES`].
#[derive(Debug, Default)]
pub(super) struct Pending {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// The memory of batches that were written.
    spares: Vec<Vec<u8>>,
}

/// Frames that are written in one piece.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Bodies, in the order in which they came; in front of the first run of each there is room for its header.
    pub(super) bytes: Vec<u8>,
    pub(super) runs: Vec<Run>,
    frames: Vec<FrameHeader>,
    /// The last frame of each partition that has one.
    newest: ByPartition<usize>,
    /// Of all frames, as they are written.
    len: usize,
    /// It takes no more frames.
    is_closed: bool,
}

/// Bytes of a frame's body that lie together.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) frame: usize,
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Pending {
    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Adds a frame, whose body is `pieces` one after the other. Entries that follow on those of their partition's last frame join it. What is
    /// long is a batch of its own, so that it is not copied once more.
    pub(super) fn push(&mut self, header: FrameHeader, pieces: &[&[u8]]) {
        let body_len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let is_full = self.batches.back().is_none_or(|batch| {
            let is_long = batch.len >= LOG_WRITE_BYTES;
            batch.is_closed || is_long || batch.len > 0 && body_len >= LOG_WRITE_BYTES
        });
        if is_full {
            let mut bytes = self.spares.pop().unwrap_or_default();
            bytes.clear();
            self.batches.push_back(Batch { bytes, ..Batch::default() });
        }
        if let Some(batch) = self.batches.back_mut() {
            let before = batch.len;
            batch.push(header, pieces);
            self.bytes += batch.len - before;
        }
    }

    /// The next batch to be written.
    pub(super) fn pop(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.bytes -= batch.len;
        Some(batch)
    }

    /// How many batches wait.
    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Has the next batch stay as long as it is: who makes room for it would make too little.
    pub(super) fn close_next(&mut self) {
        if let Some(batch) = self.batches.front_mut() {
            batch.is_closed = true;
        }
    }

    /// Bytes of the next batch.
    pub(super) fn next_len(&self) -> usize {
        self.batches.front().map_or(0, |batch| batch.len)
    }

    /// A batch as it is to be written at `offset` of the file with this seed, all before `synced` being synced. What it takes memory for
    /// is to be [recycled](Self::recycle).
    pub(super) fn unsealed(&mut self, batch: Batch, seed: u32, offset: u64, synced: u64) -> Bytes {
        let spare = self.spares.pop().unwrap_or_default();
        Bytes::unsealed(Unsealed { batch, spare, seed, offset, synced })
    }

    /// Takes the memory of what was written back.
    pub(super) fn recycle(&mut self, bytes: Bytes) {
        bytes.into_memory().into_iter().for_each(|memory| self.keep(memory));
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        // A long entry's is not worth keeping.
        let is_kept = (1..=2 * LOG_WRITE_BYTES).contains(&bytes.capacity());
        if is_kept && self.spares.len() < SPARES_MAX {
            self.spares.push(bytes);
        }
    }
}

impl Batch {
    fn push(&mut self, header: FrameHeader, pieces: &[&[u8]]) {
        let joined = self.newest.get(header.partition).copied();
        let joined = joined.filter(|frame| self.frames[*frame].is_continued_by(&header));
        let frame = joined.unwrap_or(self.frames.len());
        if joined.is_none() {
            self.bytes.resize(self.bytes.len() + FRAME_HEADER_BYTES, 0);
            self.frames.push(header);
            if header.kind.is_of_partition() {
                *self.newest.slot(header.partition) = Some(frame);
            }
        } else {
            self.len -= self.frames[frame].frame_len();
        }
        let start = self.bytes.len();
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        let len = self.bytes.len() - start;
        // The thread that writes has had this memory since it was last filled. The next body is likely to be as long, and whoever copies it would wait
        // for each of its lines before he can let go of the lock.
        prefetch::behind(&self.bytes, len);
        match self.runs.last_mut() {
            Some(last) if last.frame == frame => last.len += len,
            _ => self.runs.push(Run { frame, start, len }),
        }
        let newest = &mut self.frames[frame];
        (newest.last, newest.body_len) = (header.last, newest.body_len + len as u32);
        self.len += newest.frame_len();
    }

    /// Bytes of all frames.
    pub(super) fn len(&self) -> u64 {
        self.len as u64
    }

    /// The headers, with where they stand if the batch is written at `offset`; without checksums, which take time.
    pub(super) fn standing_at(&self, offset: u64) -> Vec<(u64, FrameHeader)> {
        let mut end = offset;
        let mut stand = |header: &FrameHeader| {
            let at = end;
            end += header.frame_len() as u64;
            (at, *header)
        };
        self.frames.iter().map(&mut stand).collect()
    }

    /// One frame alone.
    pub(super) fn of(header: FrameHeader, body: &[u8]) -> Batch {
        let mut batch = Batch::default();
        batch.push(header, &[body]);
        batch
    }
}

impl FrameHeader {
    /// Whether entries under `next` may stand under this header.
    fn is_continued_by(&self, next: &FrameHeader) -> bool {
        self.kind == FrameKind::Entries
            && next.kind == FrameKind::Entries
            && self.partition == next.partition
            && (self.body_len as usize) < LOG_FRAME_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use proptest::test_runner::TestCaseError;
    use weft_protocol::{PartitionId, Version};

    use super::*;

    use crate::limits::DIRECT_ALIGN;

    const SEED: u32 = 7;

    /// A frame of one of some partitions, with a body of this many bytes.
    fn pushed() -> impl Strategy<Value = (u16, bool, usize)> {
        (0_u16..4, prop::bool::weighted(0.9), 0_usize..200)
    }

    /// What a batch says of each partition, one after the other: kinds of frames, and bodies of entries that follow one another as one.
    type Told = BTreeMap<u16, Vec<(FrameKind, Vec<u8>)>>;

    fn add(told: &mut Told, partition: u16, kind: FrameKind, body: &[u8]) {
        let told = told.entry(partition).or_default();
        match told.last_mut() {
            Some((FrameKind::Entries, before)) if kind == FrameKind::Entries => {
                before.extend_from_slice(body);
            }
            _ => told.push((kind, body.to_vec())),
        }
    }

    fn entries(partition: u16, sequence: u64) -> FrameHeader {
        let version = Version::new(1, sequence);
        let header = FrameHeader::new(FrameKind::Entries, PartitionId(partition));
        FrameHeader { first: version, last: version, ..header }
    }

    proptest! {
        #[test]
        fn of_each_partition_a_batch_says_what_was_pushed_in_order(
            all in prop::collection::vec(pushed(), 1..60),
            offset in (0_u64..100).prop_map(|words| words * 8),
        ) {
            let (mut pending, mut expected) = (Pending::default(), Told::new());
            for (sequence, (partition, is_entries, len)) in all.iter().enumerate() {
                let sequence = sequence as u64;
                let body = vec![sequence as u8; *len];
                let header = match is_entries {
                    true => entries(*partition, sequence),
                    false => FrameHeader::new(FrameKind::SnapshotPiece, PartitionId(*partition)),
                };
                let (head, tail) = body.split_at(len / 2);
                pending.push(header, &[head, tail]);
                add(&mut expected, *partition, header.kind, &body);
            }
            // Memory that has something else in it.
            pending.recycle(Bytes::sealed(vec![0xff; 4096]));
            let (len, batch) = (pending.bytes(), pending.pop().unwrap());
            let stands = batch.standing_at(offset);
            let mut bytes = pending.unsealed(batch, SEED, offset, 3);
            let bytes = bytes.get();
            prop_assert_eq!((bytes.len(), pending.bytes()), (len, 0));
            let (mut told, mut at) = (Told::new(), 0);
            for (stands_at, expected) in stands {
                prop_assert_eq!(stands_at, offset + at as u64);
                let header = FrameHeader::decode(&bytes[at..], SEED, stands_at);
                let Some(header) = header else { return Err(TestCaseError::fail("no header")) };
                let body_checksum = header.body_checksum;
                prop_assert_eq!(header, FrameHeader { body_checksum, synced: 3, ..expected });
                let body_at = at + FRAME_HEADER_BYTES;
                let body = &bytes[body_at..body_at + header.body_len as usize];
                prop_assert_eq!(header.body_checksum, crc32c::crc32c(body));
                add(&mut told, header.partition.0, header.kind, body);
                let end = at + header.frame_len();
                prop_assert!(bytes[body_at + body.len()..end].iter().all(|byte| *byte == 0));
                at = end;
            }
            prop_assert_eq!(at, bytes.len());
            prop_assert_eq!(told, expected);
        }
    }

    #[test]
    fn entries_of_a_partition_stand_under_one_header_whatever_comes_between() {
        let mut pending = Pending::default();
        for sequence in 1..=10 {
            (0..3).for_each(|partition| pending.push(entries(partition, sequence), &[&[7; 24]]));
        }
        let batch = pending.pop().unwrap();
        let stands = batch.standing_at(0);
        let spans: Vec<_> = stands.iter().map(|(_, header)| (header.first, header.last)).collect();
        assert_eq!(spans, [(Version::new(1, 1), Version::new(1, 10)); 3]);
        // A disk can take it from where it lies.
        let offset = 3 * DIRECT_ALIGN as u64 + 1000;
        let mut bytes = pending.unsealed(batch, SEED, offset, 0);
        assert_eq!(bytes.get().as_ptr().align_offset(DIRECT_ALIGN), DIRECT_ALIGN - 1000);
    }

    #[test]
    fn a_long_body_is_written_from_where_it_was_copied_to() {
        let mut pending = Pending::default();
        let long = vec![5; 2 * LOG_WRITE_BYTES];
        pending.push(entries(1, 1), &[&[7; 24]]);
        pending.push(entries(1, 2), &[&long]);
        pending.push(entries(1, 3), &[&[7; 24]]);
        assert_eq!(pending.batches(), 3);
        pending.pop().unwrap();
        let batch = pending.pop().unwrap();
        let lies_at = batch.bytes.as_ptr();
        let mut bytes = pending.unsealed(batch, SEED, 0, 0);
        let bytes = bytes.get();
        assert_eq!((bytes.as_ptr(), bytes.len()), (lies_at, FRAME_HEADER_BYTES + long.len()));
    }
}
