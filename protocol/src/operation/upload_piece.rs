//! Upload-piece: bring a value that is too long for one request, a piece at a time.
//!
//! ```text
//! request  prefix: length of the whole value | completion id? | expiry? | key
//!          | upload u64 | offset u64 | version copied from u64 | bytes copied u32 | flags u32 | bytes
//! reply    head: ok, bytes that are there
//!          head: unprocessed
//! ```
//!
//! Amazon S3 takes large objects so (multipart upload), and for the same reasons: pieces go side by side and are repeated one by one,
//! and nothing of the object is seen before its upload is [completed](crate::CompleteUpload). What an object has already
//! can be copied by its node (S3's UploadPartCopy): that is how one too long for a request is appended to, or given
//! another expiry.

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, LimitError, ReplyError};
use crate::limits::{UPLOAD_PIECE_BYTES, VALUE_MAX};
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::target::Target;
use crate::version::Version;

/// The flag that says that the object keeps the expiry of the one that is copied from.
const KEEPS_EXPIRY: u32 = 1;

/// Bytes of a request behind its key, without those of the piece.
const PLACE_LEN: usize = 32;

/// A piece of a value. The first that arrives begins the upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadPiece<'a> {
    /// Which object the value is for.
    pub target: Target<'a>,
    /// When the object ceases to be, in milliseconds of Unix time; `None` is never. That of the piece that begins the
    /// upload counts.
    pub expires_at_ms: Option<u64>,
    /// Which upload: a random number that the client has drawn, so that it is no other client's.
    pub upload: u64,
    /// Bytes of the whole value: from 1 to [`VALUE_MAX`].
    pub value_len: u32,
    /// Where in the value the piece begins: a multiple of [`UPLOAD_PIECE_BYTES`], and before its end. It ends that many bytes further
    /// on, or with the value.
    pub offset: u64,
    /// The version of the object that the first `copied_len` bytes of the piece are copied from, where they stand at the
    /// same offset.
    pub copied_from: Version,
    /// Whether the object is to have the expiry of the one that is copied from, and not `expires_at_ms`.
    pub keeps_expiry: bool,
    /// Bytes that are copied.
    pub copied_len: u32,
    /// The rest of the piece.
    pub bytes: &'a [u8],
}

impl<'a> UploadPiece<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let (target, expires_at_ms) = Target::decode_expiring(&prefix, &mut reader)?;
        let upload = reader.u64()?;
        let offset = reader.u64()?;
        let copied_from = Version(reader.u64()?);
        let copied_len = reader.u32()?;
        let flags = reader.u32()?;
        if flags & !KEEPS_EXPIRY != 0 {
            return Err(DecodeError::ReservedField { field: "flags" });
        }
        let value_len = prefix.argument;
        if value_len as usize > VALUE_MAX {
            return Err(LimitError::ValueTooLarge { len: value_len as usize }.into());
        }
        let piece_len = Self::piece_len(value_len, offset)
            .filter(|piece_len| copied_len as usize <= *piece_len)
            .ok_or(DecodeError::PieceMisplaced { offset, value_len })?;
        let bytes = reader.take(piece_len - copied_len as usize)?;
        reader.finish()?;
        Ok(Self {
            target,
            expires_at_ms,
            upload,
            value_len,
            offset,
            copied_from,
            keeps_expiry: flags & KEEPS_EXPIRY != 0,
            copied_len,
            bytes,
        })
    }

    /// Bytes of the piece at `offset` of a value of `value_len` bytes, if there is one.
    pub fn piece_len(value_len: u32, offset: u64) -> Option<usize> {
        let rest = u64::from(value_len).checked_sub(offset).filter(|rest| *rest > 0)?;
        let is_at_piece = offset.is_multiple_of(UPLOAD_PIECE_BYTES as u64);
        is_at_piece.then(|| rest.min(UPLOAD_PIECE_BYTES as u64) as usize)
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(self.expires_at_ms) + PLACE_LEN + self.bytes.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let operation = Operation::UploadPiece;
        self.target.encode(operation, self.value_len, self.expires_at_ms, &mut writer);
        writer.u64(self.upload);
        writer.u64(self.offset);
        writer.u64(self.copied_from.0);
        writer.u32(self.copied_len);
        writer.u32(if self.keeps_expiry { KEEPS_EXPIRY } else { 0 });
        writer.bytes(self.bytes);
        writer.finish();
    }
}

/// The answer to an [`UploadPiece`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadPieceReply {
    /// The piece is there.
    Taken {
        /// Bytes of the value that are there.
        present_bytes: u64,
    },
    /// Room is being made for the value, and nothing of it is there: send the piece again.
    Again,
}

impl UploadPieceReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a piece of an upload.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, _) = ReplyHead::decode(message)?;
        head.takes_no_body()?;
        match head.status {
            Status::Ok => Ok(Self::Taken { present_bytes: head.version }),
            Status::Unprocessed => Ok(Self::Again),
            Status::Absent | Status::Conflict | Status::Error(_) => Err(head.unexpected().into()),
        }
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let (status, present_bytes) = match *self {
            Self::Taken { present_bytes } => (Status::Ok, present_bytes),
            Self::Again => (Status::Unprocessed, 0),
        };
        let head = ReplyHead::bare(status, Version(present_bytes));
        buffer.copy_from_slice(&head.to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    fn piece<'a>(target: Target<'a>, bytes: &'a [u8]) -> UploadPiece<'a> {
        UploadPiece {
            target,
            expires_at_ms: None,
            upload: 17,
            value_len: bytes.len() as u32,
            offset: 0,
            copied_from: Version::NONE,
            keeps_expiry: false,
            copied_len: 0,
            bytes,
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let last = UploadPiece {
            value_len: UPLOAD_PIECE_BYTES as u32 + 5,
            offset: UPLOAD_PIECE_BYTES as u64,
            copied_from: Version::new(1, 9),
            keeps_expiry: true,
            copied_len: 2,
            ..piece(documented_target(), b"ft!")
        };
        let bytes = encode(last.encoded_len(), |buffer| last.encode(buffer));
        assert_eq!(bytes, documented("upload-piece request"));

        let reply = UploadPieceReply::Taken { present_bytes: UPLOAD_PIECE_BYTES as u64 + 5 };
        let bytes = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(bytes, documented("upload-piece reply"));
    }

    #[test]
    fn a_piece_has_its_place_and_its_length() {
        let value = vec![3; UPLOAD_PIECE_BYTES + 1];
        let refused = |change: &dyn Fn(&mut UploadPiece<'_>)| {
            let mut request = piece(documented_target(), &value[..9]);
            change(&mut request);
            let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
            Request::decode(&bytes).unwrap_err()
        };
        let misplaced = |offset, value_len| DecodeError::PieceMisplaced { offset, value_len };
        assert_eq!(refused(&|piece| piece.offset = 1), misplaced(1, 9));
        let end = UPLOAD_PIECE_BYTES as u64;
        assert_eq!(refused(&|piece| piece.offset = end), misplaced(end, 9));
        assert_eq!(refused(&|piece| piece.offset = u64::MAX), misplaced(u64::MAX, 9));
        assert_eq!(refused(&|piece| piece.value_len = 0), misplaced(0, 0));
        assert_eq!(refused(&|piece| piece.copied_len = 10), misplaced(0, 9));
        assert_eq!(refused(&|piece| piece.value_len = 10), DecodeError::Truncated { missing: 1 });
        assert_eq!(refused(&|piece| piece.copied_len = 1), DecodeError::TrailingBytes { extra: 1 });
        let len = VALUE_MAX + 1;
        let error = DecodeError::Limit(LimitError::ValueTooLarge { len });
        assert_eq!(refused(&|piece| piece.value_len = VALUE_MAX as u32 + 1), error);

        let longest = UploadPiece {
            value_len: value.len() as u32,
            ..piece(documented_target(), &value[..UPLOAD_PIECE_BYTES])
        };
        check_request(Request::UploadPiece(longest));
        let last = UploadPiece { offset: end, bytes: &value[..1], ..longest };
        check_request(Request::UploadPiece(last));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            target in targets(),
            expires_at_ms in any::<Option<u64>>(),
            upload: u64,
            bytes in prop::collection::vec(any::<u8>(), 1..300),
            copied_from in versions(),
            copied_share in 0_usize..=100,
            keeps_expiry: bool,
        ) {
            let copied_len = bytes.len() * copied_share / 100;
            let request = UploadPiece {
                expires_at_ms,
                upload,
                copied_from,
                keeps_expiry,
                copied_len: copied_len as u32,
                bytes: &bytes[copied_len..],
                ..piece(target.get(), &bytes)
            };
            check_request(Request::UploadPiece(request));
        }

        #[test]
        fn replies_are_read_as_written(present_bytes: u64) {
            for reply in [UploadPieceReply::Taken { present_bytes }, UploadPieceReply::Again] {
                let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
                prop_assert_eq!(UploadPieceReply::decode(&message), Ok(reply));
                check_cut(&message, UploadPieceReply::decode);
                let absent = [&[1, 0], &message[2..]].concat();
                let error = DecodeError::UnexpectedStatus { status: 1 };
                prop_assert_eq!(UploadPieceReply::decode(&absent), Err(error.into()));
            }
        }
    }
}
