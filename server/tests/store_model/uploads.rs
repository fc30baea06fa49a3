//! A value that comes in pieces: whatever their order, it is the same object in the end, or none.

use weft_protocol::limits::UPLOAD_PIECE_BYTES;
use weft_protocol::{Key, Target, UploadEffect, UploadPiece, Version};
use weft_server::store::{Completed, Partition, StoreError};

use super::Object;

/// How a value is uploaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The last piece comes first.
    pub(crate) reversed: bool,
    /// Each piece comes twice, the second time with other bytes.
    pub(crate) repeated: bool,
    /// As much as can be is copied from the object that is there.
    pub(crate) copied: bool,
    /// The expiry of the object that is there is kept, if there is one.
    pub(crate) keeps_expiry: bool,
}

/// Uploads `value` under `number`, for a key of which `old` is the object.
///
/// # Errors
/// What the partition has refused; the upload is given up then.
pub(crate) fn upload(
    partition: &mut Partition,
    (number, effect): (u64, UploadEffect),
    target: Target<'_>,
    old: Option<&Object>,
    (value, expires_at_ms): (&[u8], Option<u64>),
    manner: Manner,
    now_ms: u64,
) -> Result<Completed, StoreError> {
    let (table, key) = (target.table, &*target.key);
    let of_old = old.filter(|_| manner.copied).map_or(&[][..], |old| &old.value);
    let is_same = |(one, other): &(&u8, &u8)| one == other;
    let copied_max = of_old.iter().zip(value).take_while(is_same).count();
    let copied_from = old.map_or(Version::NONE, |old| old.version);
    let mut offsets: Vec<usize> = (0..value.len()).step_by(UPLOAD_PIECE_BYTES).collect();
    if manner.reversed {
        offsets.reverse();
    }
    let mut present_bytes = 0;
    let unknown = |partition: &mut Partition| {
        let early = partition.complete_upload(table, key, number, effect, now_ms);
        assert_eq!(early.unwrap_err(), StoreError::UploadUnknown);
    };
    for offset in offsets {
        unknown(partition);
        let piece = &value[offset..value.len().min(offset + UPLOAD_PIECE_BYTES)];
        let copied_len = copied_max.saturating_sub(offset).min(piece.len());
        let request = UploadPiece {
            target,
            expires_at_ms,
            upload: number,
            value_len: value.len() as u32,
            offset: offset as u64,
            copied_from,
            keeps_expiry: manner.keeps_expiry,
            copied_len: copied_len as u32,
            bytes: &piece[copied_len..],
        };
        present_bytes += piece.len() as u64;
        let taken = partition.upload_piece(&request, now_ms);
        if taken.is_err() {
            assert_eq!(
                partition.abort_upload(table, key, number),
                offset_is_later(present_bytes, piece)
            );
        }
        assert_eq!(taken?, present_bytes);
        if manner.repeated {
            let others = vec![b'!'; piece.len()];
            let again = UploadPiece { copied_len: 0, bytes: &others, ..request };
            assert_eq!(partition.upload_piece(&again, now_ms), Ok(present_bytes));
        }
        let stale = UploadPiece { copied_from: Version(copied_from.0 + 1), ..request };
        if copied_len > 0 || manner.keeps_expiry {
            assert_eq!(partition.upload_piece(&stale, now_ms), Err(StoreError::UploadUnknown));
        }
    }
    assert!(!partition.abort_upload(table, b"another key", number));
    let before = partition.stats().upload_bytes;
    let completed = partition.complete_upload(table, key, number, effect, now_ms);
    let is_left = partition.abort_upload(table, key, number);
    assert_eq!(is_left, completed.is_err());
    assert!(partition.stats().upload_bytes + value.len() as u64 <= before);
    completed
}

/// Whether pieces had come before one that makes `present_bytes`.
fn offset_is_later(present_bytes: u64, piece: &[u8]) -> bool {
    present_bytes > piece.len() as u64
}

/// What is uploaded: bytes that no other place of the value has, behind the first `kept` of the old value.
pub(crate) fn value(old: Option<&Object>, len: usize, kept: usize) -> Vec<u8> {
    let mut value: Vec<u8> = (0..len).map(|at| (at / 251 + at) as u8).collect();
    if let Some(old) = old {
        let kept = kept.min(old.value.len()).min(len);
        value[..kept].copy_from_slice(&old.value[..kept]);
    }
    value
}

/// Shorthand for the target of tests.
pub(crate) fn target(table: weft_protocol::TableId, key: &[u8]) -> Target<'_> {
    Target { table, map_epoch: 0, completion: None, key: Key::new(key).unwrap() }
}
