//! Values that are too long for one request, brought in pieces that go side by side.
//!
//! The first piece goes alone: with it the node takes the memory for the whole value, and may have to make room. Nothing
//! of the value is seen before all of it is there, and the request that makes it an object is sent once, as any
//! mutation. An upload that is given up is told to the node, if that has answered at all; else, and when the future is dropped, the
//! node forgets it after half a minute.

use std::marker::PhantomData;
use std::pin::Pin;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use weft_protocol::limits::{UPLOAD_PIECE_BYTES, VALUE_MAX};
use weft_protocol::{ErrorCode, Key, LimitError, UploadEffect, UploadPieceReply, Version};
use weft_transport::Time;

use crate::core::{Ask, Core};
use crate::error::ClientError;
use crate::limits::{PAUSE_MIN, UPLOAD_PIECES_MAX, UPLOADS_MAX};
use crate::object::{Appended, Compared, Existence, RangeLookup};
use crate::operation::abort_upload::AskAbortUpload;
use crate::operation::compare_and_set::AskCompareAndSet;
use crate::operation::complete_upload::AskCompleteUpload;
use crate::operation::get_range::AskGetRange;
use crate::operation::upload_piece::AskUploadPiece;
use crate::table::Table;

/// What becomes of an operation, boxed: callers that need no upload do not pay for its future.
pub(crate) type Uploading<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'a>>;

/// A value that is to be uploaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upload<'a> {
    pub(crate) key: Key<'a>,
    /// What the value begins with, which the node has.
    pub(crate) start: Start,
    /// The rest of it.
    pub(crate) bytes: &'a [u8],
    pub(crate) expires_at_ms: Option<u64>,
    /// Whether the object keeps the expiry of the one that it begins with.
    pub(crate) keeps_expiry: bool,
}

/// The first bytes of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) version: Version,
    pub(crate) len: usize,
}

impl Start {
    /// No bytes of none.
    pub(crate) const NONE: Self = Self { version: Version::NONE, len: 0 };
}

impl Upload<'_> {
    /// Bytes of the whole value.
    pub(crate) fn len(&self) -> usize {
        self.start.len + self.bytes.len()
    }

    /// How many bytes of the piece at `offset` the node has, and the others.
    pub(crate) fn piece(&self, offset: usize) -> (usize, &[u8]) {
        let end = self.len().min(offset + UPLOAD_PIECE_BYTES);
        let copied_end = self.start.len.clamp(offset, end);
        let bytes = &self.bytes[copied_end - self.start.len.min(copied_end)..];
        (copied_end - offset, &bytes[..end - copied_end])
    }
}

impl Core {
    /// Uploads a value and ends that with `effect`, which is answered as `A` is.
    pub(crate) fn upload<'a, A: Ask + 'a>(
        &'a self,
        table: Table,
        upload: Upload<'a>,
        effect: UploadEffect,
        deadline: Time,
    ) -> Uploading<'a, A::Answer> {
        Box::pin(async move {
            if upload.len() > VALUE_MAX {
                return Err(LimitError::ValueTooLarge { len: upload.len() }.into());
            }
            let mut tries = 1;
            loop {
                match self.try_upload::<A>(table, &upload, effect, deadline).await {
                    // The node was started anew, or has no more of what it was to copy.
                    Err(ClientError::Refused { code: ErrorCode::UploadUnknown, .. })
                        if upload.start.len == 0 && tries < UPLOADS_MAX =>
                    {
                        tries += 1;
                    }
                    done => return done,
                }
            }
        })
    }

    async fn try_upload<A: Ask>(
        &self,
        table: Table,
        upload: &Upload<'_>,
        effect: UploadEffect,
        deadline: Time,
    ) -> Result<A::Answer, ClientError> {
        let (key, number) = (upload.key, self.random());
        let piece =
            |offset| self.ask_by(table, AskUploadPiece { upload, number, offset }, deadline);
        let brought = async {
            // The deadline ends this: by then a request fails.
            while piece(0).await? == UploadPieceReply::Again {
                self.endpoint.sleep_until(self.endpoint.clock().now() + PAUSE_MIN).await;
            }
            let others = (UPLOAD_PIECE_BYTES..upload.len()).step_by(UPLOAD_PIECE_BYTES);
            let others = stream::iter(others).map(piece);
            others.buffer_unordered(UPLOAD_PIECES_MAX).try_for_each(|_| async { Ok(()) }).await
        };
        let done = match brought.await {
            Ok(()) => {
                let complete = AskCompleteUpload::<A> { key, number, effect, like: PhantomData };
                self.ask_by(table, complete, deadline).await
            }
            Err(error) => Err(error),
        };
        if let Err(ClientError::Refused { .. }) = done {
            // Of no consequence if it fails: the node forgets the upload by itself.
            let _ = self.ask_by(table, AskAbortUpload { key, number }, deadline).await;
        }
        done
    }

    /// Appends to an object that is too long for a node to copy in one step, or becomes so.
    pub(crate) fn append_by_upload<'a>(
        &'a self,
        table: Table,
        key: Key<'a>,
        tail: &'a [u8],
        expires_at_ms: Option<u64>,
        deadline: Time,
    ) -> Uploading<'a, Appended> {
        Box::pin(async move {
            loop {
                let (start, is_there) = match self.look_at(table, key, deadline).await? {
                    Ok(start) => (start, true),
                    Err(_) => (Start::NONE, false),
                };
                let upload =
                    Upload { key, start, bytes: tail, expires_at_ms, keeps_expiry: is_there };
                let value_len = upload.len() as u64;
                if let Some(version) = self.exchange(table, upload, deadline).await? {
                    return Ok(Appended { version, value_len });
                }
            }
        })
    }

    /// Gives an object another expiry, or none, that is too long for a node to copy in one step.
    pub(crate) fn expire_by_upload<'a>(
        &'a self,
        table: Table,
        key: Key<'a>,
        expires_at_ms: Option<u64>,
        deadline: Time,
    ) -> Uploading<'a, Existence> {
        Box::pin(async move {
            loop {
                let start = match self.look_at(table, key, deadline).await? {
                    Ok(start) => start,
                    Err(version) => return Ok(Existence { version, exists: false }),
                };
                let upload = Upload { key, start, bytes: &[], expires_at_ms, keeps_expiry: false };
                if let Some(version) = self.exchange(table, upload, deadline).await? {
                    return Ok(Existence { version, exists: true });
                }
            }
        })
    }

    /// Uploads a value in the place of the object that it begins with. `None` if that has changed meanwhile.
    async fn exchange(
        &self,
        table: Table,
        upload: Upload<'_>,
        deadline: Time,
    ) -> Result<Option<Version>, ClientError> {
        let effect = UploadEffect::CompareAndSet(upload.start.version);
        match self.upload::<AskCompareAndSet<'_>>(table, upload, effect, deadline).await {
            Ok(Compared::Written { version }) => Ok(Some(version)),
            Ok(Compared::Conflict { .. } | Compared::Absent { .. }) => Ok(None),
            Err(ClientError::Refused { code: ErrorCode::UploadUnknown, .. })
                if upload.start.len > 0 =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The version and the length of the object of `key`, or the version as of which there is none.
    async fn look_at(
        &self,
        table: Table,
        key: Key<'_>,
        deadline: Time,
    ) -> Result<Result<Start, Version>, ClientError> {
        let ask = AskGetRange { key, offset: 0, len_max: 0 };
        Ok(match self.ask_by(table, ask, deadline).await? {
            RangeLookup::Found { bytes, value_len } => {
                Ok(Start { version: bytes.version(), len: value_len as usize })
            }
            RangeLookup::Absent { version } => Err(version),
        })
    }
}

const _: () = assert!(VALUE_MAX <= u32::MAX as usize);

#[cfg(test)]
mod tests {
    use weft_protocol::UploadPiece;

    use super::*;

    /// However a value is put together, its pieces are the value.
    #[test]
    fn pieces_are_the_value() {
        let whole: Vec<u8> = (0..3 * UPLOAD_PIECE_BYTES + 5).map(|at| (at / 7) as u8).collect();
        let starts =
            [0, 1, UPLOAD_PIECE_BYTES, UPLOAD_PIECE_BYTES + 1, whole.len() - 1, whole.len()];
        for start_len in starts {
            let upload = Upload {
                key: Key::new(b"key").unwrap(),
                start: Start { version: Version::NONE, len: start_len },
                bytes: &whole[start_len..],
                expires_at_ms: None,
                keeps_expiry: false,
            };
            assert_eq!(upload.len(), whole.len());
            for offset in (0..whole.len()).step_by(UPLOAD_PIECE_BYTES) {
                let (copied_len, bytes) = upload.piece(offset);
                let piece = [&whole[offset..offset + copied_len], bytes].concat();
                assert_eq!(copied_len, start_len.saturating_sub(offset).min(piece.len()));
                let len = UploadPiece::piece_len(whole.len() as u32, offset as u64).unwrap();
                assert!(piece == whole[offset..offset + len], "{start_len} {offset}");
            }
        }
    }
}
