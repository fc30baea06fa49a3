//! Frames that wait to be written: bodies are copied and summed up as they come, headers are made when it is known where they will stand.

use std::collections::VecDeque;

use crate::limits::{LOG_FRAME_BYTES, LOG_WRITE_BYTES};

use super::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};

/// Frames in the order in which they are to be written, in pieces of about [`LOG_WRITE_BYTES`].
#[derive(Debug, Default)]
pub(super) struct Pending {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// The memory of a batch that was written.
    spare: Vec<u8>,
}

/// Frames that are written in one piece.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    frames: Vec<(usize, FrameHeader)>,
}

impl Pending {
    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Adds a frame, whose body is `pieces` one after the other. Entries that follow on those of the last frame join it.
    pub(super) fn push(&mut self, header: FrameHeader, pieces: &[&[u8]]) {
        let is_full = self.batches.back().is_none_or(|batch| batch.bytes.len() >= LOG_WRITE_BYTES);
        if is_full {
            let bytes = std::mem::take(&mut self.spare);
            self.batches.push_back(Batch { bytes, frames: Vec::new() });
        }
        if let Some(batch) = self.batches.back_mut() {
            let before = batch.bytes.len();
            batch.push(header, pieces);
            self.bytes += batch.bytes.len() - before;
        }
    }

    /// The next batch to be written.
    pub(super) fn pop(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.bytes -= batch.bytes.len();
        Some(batch)
    }

    /// How many batches wait.
    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Bytes of the next batch.
    pub(super) fn next_len(&self) -> usize {
        self.batches.front().map_or(0, |batch| batch.bytes.len())
    }

    /// Takes the memory of a batch back.
    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        // A long entry's is not worth keeping.
        if bytes.capacity() <= 2 * LOG_WRITE_BYTES && self.spare.capacity() < bytes.capacity() {
            bytes.clear();
            self.spare = bytes;
        }
    }
}

impl Batch {
    fn push(&mut self, mut header: FrameHeader, pieces: &[&[u8]]) {
        let at = match self.frames.last_mut() {
            Some((at, last)) if last.is_continued_by(&header) => {
                // Without the zeroes that filled it up.
                self.bytes.truncate(*at + FRAME_HEADER_BYTES + last.body_len as usize);
                header =
                    FrameHeader { first: last.first, body_checksum: last.body_checksum, ..header };
                let at = *at;
                self.frames.pop();
                at
            }
            _ => {
                let at = self.bytes.len();
                self.bytes.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
                at
            }
        };
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
            header.body_checksum = crc32c::crc32c_append(header.body_checksum, piece);
        }
        header.body_len = (self.bytes.len() - at - FRAME_HEADER_BYTES) as u32;
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.frames.push((at, header));
    }

    /// The bytes as they are to be written at `offset` of the file with this seed, all before `synced` being synced; and the headers, with where
    /// they stand.
    pub(super) fn seal(
        mut self,
        seed: u32,
        offset: u64,
        synced: u64,
    ) -> (Vec<u8>, Vec<(u64, FrameHeader)>) {
        let mut sealed = Vec::with_capacity(self.frames.len());
        for (at, mut header) in self.frames {
            header.synced = synced;
            let stands_at = offset + at as u64;
            let encoded = header.encode(seed, stands_at);
            self.bytes[at..at + FRAME_HEADER_BYTES].copy_from_slice(&encoded);
            sealed.push((stands_at, header));
        }
        (self.bytes, sealed)
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
