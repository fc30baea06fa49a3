//! Values that come in pieces: each is put together in the segment that will be its own, and enters the log whole.
//!
//! The pieces are copied to where they stay, one at a time, and summed as they come in order; so completing an upload writes a
//! header and swings an entry of the index, however long the value is, and nobody waits for a long value as a whole. What
//! is not complete yet is no object: nothing but its number leads to it.

use std::collections::BTreeMap;

use weft_protocol::limits::UPLOAD_PIECE_BYTES;
use weft_protocol::{TableId, UploadEffect, UploadPiece, Version};
use weft_transport::{Appender, Block, Memory, PAGE_BYTES, Purpose};

use super::error::StoreError;
use super::header::{self, Head, LastUse, head_bytes};
use super::partition::{Partition, VALUE_BYTES_MAX};
use super::revising::{Compared, Replaced};
use super::tables::Room;

/// For how long an upload of which nothing comes is kept, in milliseconds.
const KEPT_MS: u64 = 30_000;
/// Pieces that are summed with one that has come, at most: those that have come before their turn.
const SUMMED_TOGETHER: usize = 4;

/// The uploads of a partition that are neither complete nor given up.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    by_number: BTreeMap<u64, Upload>,
    bytes: usize,
}

/// A value of which there are pieces.
#[derive(Debug)]
struct Upload {
    table: TableId,
    key_len: usize,
    value_len: usize,
    expiry_ms: Option<u64>,
    /// Room for a header, the key, and the value.
    block: Block,
    /// Which pieces are there.
    present: Box<[bool]>,
    present_bytes: usize,
    /// The checksum of the pieces before `summed`.
    checksum: u32,
    summed: usize,
    /// When a piece came last.
    used_ms: u64,
}

/// What came of an upload, by what was done with it.
#[derive(Clone, Debug)]
pub enum Completed {
    /// It was put, and has this version.
    Put(Version),
    /// It was compared and set, or not.
    Compared(Compared),
    /// It was put in the place of what was there.
    Replaced(Replaced),
}

impl Partition {
    /// Takes a piece of a value, and begins the upload with it if it is the first. Returns how many bytes of the value are there. A piece
    /// that is there already stays as it is.
    ///
    /// # Errors
    /// [`StoreError::UploadUnknown`] if the object that it copies from is of another version or shorter, or the upload is of another
    /// object; [`StoreError::TableUnknown`], [`StoreError::ValueTooLarge`] and [`StoreError::MemoryLimit`].
    pub fn upload_piece(
        &mut self,
        piece: &UploadPiece<'_>,
        now_ms: u64,
    ) -> Result<u64, StoreError> {
        let (table, key) = (piece.target.table, &*piece.target.key);
        let value_len = piece.value_len as usize;
        if self.tables.get(table).is_none() {
            return Err(StoreError::TableUnknown { table });
        }
        if value_len > VALUE_BYTES_MAX {
            return Err(StoreError::ValueTooLarge { len: value_len, limit: VALUE_BYTES_MAX });
        }
        let (mut copied, mut expiry_ms) = (&[][..], piece.expires_at_ms);
        if piece.copied_len > 0 || piece.keeps_expiry {
            let tag = self.index.tag(table, key);
            let found = self.find_current(tag, table, key, now_ms);
            let record = found.map(|(_, address)| self.log.record(address));
            let source = record.filter(|record| record.version() == piece.copied_from);
            let source = source.ok_or(StoreError::UploadUnknown)?;
            let start = usize::try_from(piece.offset).unwrap_or(usize::MAX);
            let range = start..start.saturating_add(piece.copied_len as usize);
            if piece.copied_len > 0 {
                copied = source.value().get(range).ok_or(StoreError::UploadUnknown)?;
            }
            if piece.keeps_expiry {
                expiry_ms = source.expiry_ms();
            }
        }
        let upload = match self.uploads.by_number.get_mut(&piece.upload) {
            Some(upload) if upload.is_of(table, key, value_len) => upload,
            Some(_) => return Err(StoreError::UploadUnknown),
            None => {
                let upload = Upload::new(&self.memory, piece, expiry_ms, now_ms)?;
                self.uploads.bytes += upload.block.len();
                self.uploads.by_number.entry(piece.upload).or_insert(upload)
            }
        };
        upload.used_ms = now_ms;
        upload.take(piece.offset as usize, copied, piece.bytes);
        Ok(upload.present_bytes as u64)
    }

    /// Makes an uploaded value the object of its key, as `effect` says. The upload is gone then, even after a conflict.
    ///
    /// # Errors
    /// [`StoreError::UploadUnknown`] if there is no such upload or pieces of it are missing, and any of a put; nothing has changed
    /// then, and the upload is still there.
    pub fn complete_upload(
        &mut self,
        table: TableId,
        key: &[u8],
        number: u64,
        effect: UploadEffect,
        now_ms: u64,
    ) -> Result<Completed, StoreError> {
        let is_whole = |upload: &&mut Upload| {
            upload.is_of(table, key, upload.value_len) && upload.present_bytes == upload.value_len
        };
        let upload = self.uploads.by_number.get_mut(&number).filter(is_whole);
        upload.ok_or(StoreError::UploadUnknown)?.sum(usize::MAX);

        let tag = self.index.tag(table, key);
        let found = self.find_current(tag, table, key, now_ms);
        let current = found.map(|(_, address)| self.log.record(address).version());
        if let UploadEffect::CompareAndSet(expected) = effect
            && current.unwrap_or(Version::NONE) != expected
        {
            self.abort_upload(table, key, number);
            return Ok(Completed::Compared(match current {
                Some(version) => Compared::Conflict(version),
                None => Compared::Absent(self.version),
            }));
        }
        let previous = match effect {
            UploadEffect::GetAndPut => found.map(|(_, address)| self.previous(address)),
            UploadEffect::Put | UploadEffect::CompareAndSet(_) => None,
        };
        let version = self.next_version()?;
        let mut upload = self.uploads.remove(number);
        let is_expiring = upload.as_ref().is_some_and(|upload| upload.expiry_ms.is_some());
        let len = upload.as_mut().map_or(0, |upload| upload.finish(version, LastUse::at(now_ms)));
        let new = (len, version, is_expiring);
        let placed = self.place(tag, found, (table, key), new, Room::Quota, |log| {
            let Upload { block, .. } = upload.take().expect("it was looked up");
            log.adopt(block, len, version)
        });
        match placed {
            Ok(address) => self.written(address, version),
            Err(error) => {
                self.uploads.put_back(number, upload);
                return Err(error);
            }
        }
        Ok(match effect {
            UploadEffect::Put => Completed::Put(version),
            UploadEffect::CompareAndSet(_) => Completed::Compared(Compared::Written(version)),
            UploadEffect::GetAndPut => Completed::Replaced(Replaced { version, previous }),
        })
    }

    /// Bytes of an upload's value; 0 if there is no such upload.
    pub fn upload_len(&self, number: u64) -> usize {
        self.uploads.by_number.get(&number).map_or(0, |upload| upload.value_len)
    }

    /// Gives an upload up. Returns whether there was one.
    pub fn abort_upload(&mut self, table: TableId, key: &[u8], number: u64) -> bool {
        let found = self.uploads.by_number.get(&number);
        let is_there = found.is_some_and(|upload| upload.is_of(table, key, upload.value_len));
        is_there && self.uploads.remove(number).is_some()
    }

    /// Gives up the uploads of which nothing has come for half a minute.
    pub fn drop_stale_uploads(&mut self, now_ms: u64) {
        if self.uploads.by_number.is_empty() {
            return;
        }
        let is_stale = |upload: &Upload| now_ms.saturating_sub(upload.used_ms) > KEPT_MS;
        let stale: Vec<u64> = self
            .uploads
            .by_number
            .iter()
            .filter_map(|(number, upload)| is_stale(upload).then_some(*number))
            .collect();
        for number in stale {
            self.uploads.remove(number);
        }
    }
}

impl Uploads {
    /// Bytes of their memory, as the account counts them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, number: u64) -> Option<Upload> {
        let upload = self.by_number.remove(&number)?;
        self.bytes -= upload.block.len();
        Some(upload)
    }

    fn put_back(&mut self, number: u64, upload: Option<Upload>) {
        if let Some(upload) = upload {
            self.bytes += upload.block.len();
            self.by_number.insert(number, upload);
        }
    }
}

impl Upload {
    fn new(
        memory: &Memory,
        piece: &UploadPiece<'_>,
        expiry_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<Upload, StoreError> {
        let key = &*piece.target.key;
        let (key_len, value_len) = (key.len(), piece.value_len as usize);
        let key_at = head_bytes(expiry_ms);
        let len = (key_at + key_len + value_len).next_multiple_of(8);
        let bytes = Appender::block_len(len).next_multiple_of(PAGE_BYTES);
        let mut block = memory.allocate(bytes, Purpose::Log)?;
        block.mark_touched(key_at + key_len);
        block[key_at..key_at + key_len].copy_from_slice(key);
        Ok(Upload {
            table: piece.target.table,
            key_len,
            value_len,
            expiry_ms,
            block,
            present: vec![false; value_len.div_ceil(UPLOAD_PIECE_BYTES)].into(),
            present_bytes: 0,
            checksum: 0,
            summed: 0,
            used_ms: now_ms,
        })
    }

    fn is_of(&self, table: TableId, key: &[u8], value_len: usize) -> bool {
        let own_key = &self.block[self.key_at()..self.value_at()];
        (self.table, own_key, self.value_len) == (table, key, value_len)
    }

    fn key_at(&self) -> usize {
        head_bytes(self.expiry_ms)
    }

    fn value_at(&self) -> usize {
        self.key_at() + self.key_len
    }

    /// Takes the piece at `offset`, in two parts.
    fn take(&mut self, offset: usize, start: &[u8], end: &[u8]) {
        let piece = offset / UPLOAD_PIECE_BYTES;
        if !std::mem::replace(&mut self.present[piece], true) {
            let at = self.value_at() + offset;
            let (split, to) = (at + start.len(), at + start.len() + end.len());
            self.block.mark_touched(to);
            self.block[at..split].copy_from_slice(start);
            self.block[split..to].copy_from_slice(end);
            self.present_bytes += to - at;
        }
        self.sum(SUMMED_TOGETHER);
    }

    /// Sums the next pieces, as far as they are there, and no more than `count`.
    fn sum(&mut self, count: usize) {
        let value_at = self.value_at();
        let value = &self.block[value_at..value_at + self.value_len];
        let next = value.chunks(UPLOAD_PIECE_BYTES).zip(&self.present).skip(self.summed);
        for (piece, _) in next.take_while(|(_, is_present)| **is_present).take(count) {
            self.checksum = crc32c::crc32c_append(self.checksum, piece);
            self.summed += 1;
        }
    }

    /// Makes the whole value a record of `version`. Returns its length in the log.
    fn finish(&mut self, version: Version, last_use: LastUse) -> usize {
        let Upload { table, value_len, expiry_ms, checksum, .. } = *self;
        let (key_at, value_at) = (self.key_at(), self.value_at());
        let key = &self.block[key_at..value_at];
        let head = Head::object(version, table, key, value_len, expiry_ms, last_use);
        self.block[..key_at].copy_from_slice(head.bytes());
        header::seal(&mut self.block[..value_at], |of_rest| {
            crc32c::crc32c_combine(of_rest, checksum, value_len)
        });
        let end = value_at + value_len;
        let len = end.next_multiple_of(8);
        self.block.mark_touched(len);
        self.block[end..len].fill(0);
        len
    }
}
